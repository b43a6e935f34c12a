"""Stage patch: a copy of the source with the recipe's patches, each applied exactly."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import SourceError
from cuwheel.base.system.files import new_folder, remove_leftovers
from cuwheel.base.system.regular_files import read_bytes
from cuwheel.build.inputs.patches import try_patch
from cuwheel.build.inputs.tree import normalize_tree
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import SourceTree

_FOLDER = "patched"  # of the work folder
_SUFFIXES = (".patch", ".diff")
_NEXT_LINE = "\n           "  # below the text after `because`


def patch(job: Job) -> SourceTree:
    """Copy the source and patch the copy; the source itself stays as it is.

    Raises:
        SourceError: a patch is missing, isn't named by the recipe, doesn't apply, or has no effect.
    """
    target, workspace = job.target, job.workspace
    tree = workspace.load("source", SourceTree)
    patches = _read_patches(target)
    final = workspace.work / _FOLDER
    remove_leftovers(final)
    with new_folder(final) as aside:
        copy = aside / tree.path.name
        shutil.copytree(tree.path, copy, symlinks=True)
        for name, content in patches.items():
            _apply(name, content, copy, target, tree)
        normalize_tree(aside, tree.epoch)
    digests = [(name, hashlib.sha256(content).hexdigest()) for name, content in patches.items()]
    return dataclasses.replace(tree, path=final / tree.path.name, patches=tuple(digests))


def _read_patches(target: Target) -> dict[str, bytes]:
    folder = target.patch_folder
    named = [patch.file for patch in target.recipe.patches]
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    lost = [name for name in named if name not in present]
    more = [name for name in sorted(present) if name.endswith(_SUFFIXES) and name not in named]
    if lost or more:
        problems = [f"the recipe names {name}, which doesn't exist" for name in lost]
        problems += [f"{name} exists, but the recipe doesn't name it" for name in more]
        fixes = [f"put {name} there, or take it out of `patches`" for name in lost]
        fixes += [
            f'add Patch(file="{name}", why="…") to `patches`, or remove the file' for name in more
        ]
        raise SourceError(
            f"{target.id}: `patches` in {target.recipe.module} are not the files in {folder}",
            why=_NEXT_LINE.join(problems),
            fix=_NEXT_LINE.join(fixes),
        )
    return {
        patch.file: read_bytes(folder / patch.file, limit=limits.PATCH) for patch in target.patches
    }


def _apply(name: str, content: bytes, copy: Path, target: Target, tree: SourceTree) -> None:
    patched = try_patch(content, copy)
    if patched.problems:
        raise SourceError(
            f"{target.id}: {name} doesn't apply",
            why=_NEXT_LINE.join(patched.problems),
            fix=f"make the patch again from {tree.path} and the preceding patches, or remove it "
            "from the recipe if upstream has the change",
        )
    if not patched.has_effect:
        raise SourceError(
            f"{target.id}: {name} has no effect",
            why="it holds no diff: no `--- a/…`, `+++ b/…` and `@@ … @@`"
            if patched.is_empty
            else "the source is the same with it and without it",
            fix=f"remove it from the recipe and from {target.patch_folder}, or correct it",
        )
    patched.write()
