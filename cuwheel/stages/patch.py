"""Stage patch: a copy of the source with the recipe's patches, each applied exactly."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.errors import PatchError
from cuwheel.sources.patches import try_patch
from cuwheel.sources.tree import normalize_tree
from cuwheel.system.files import naming_full_disk, new_folder, remove_leftovers
from cuwheel.system.whole_files import read_bytes
from cuwheel.workspace.records import SourceTree

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.job import Job


_FOLDER = "patched"  # of the work folder
_SUFFIXES = (".patch", ".diff")
_NEXT_LINE = "\n           "  # below the words after `because`


def patch(job: Job) -> SourceTree:
    """Copy the source and patch the copy; what the stage before left stays as it is.

    Raises:
        PatchError: a patch is missing, isn't named by the recipe, doesn't apply, or has no effect.
    """
    target, workspace = job.target, job.workspace
    tree = workspace.load("source", SourceTree)
    patches = _read_patches(target)
    final = workspace.work / _FOLDER
    remove_leftovers(final)
    with naming_full_disk(workspace.work), new_folder(final) as aside:
        copy = aside / tree.path.name
        shutil.copytree(tree.path, copy, symlinks=True)
        for name, content in patches.items():
            _apply(name, content, copy, target, tree)
        normalize_tree(aside, tree.epoch)
    digests = [(name, hashlib.sha256(content).hexdigest()) for name, content in patches.items()]
    return dataclasses.replace(tree, path=final / tree.path.name, patches=tuple(digests))


def _read_patches(target: Target) -> dict[str, bytes]:
    """The target's patches, in the recipe's order.

    Raises:
        PatchError: recipe and folder name different files.
    """
    folder = target.patch_folder
    named = [patch.file for patch in target.recipe.patches]
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    lost = [name for name in named if name not in present]
    more = [name for name in sorted(present) if name.endswith(_SUFFIXES) and name not in named]
    if lost or more:
        faults = [f"the recipe names {name}, which doesn't exist" for name in lost]
        faults += [f"{name} exists, but the recipe doesn't name it" for name in more]
        fixes = [f"put {name} there, or take it out of `patches`" for name in lost]
        fixes += [
            f'add Patch(file="{name}", why="…") to `patches`, or remove the file' for name in more
        ]
        raise PatchError(
            f"{target.id}: `patches` in {target.recipe.module} are not the files in {folder}",
            why=_NEXT_LINE.join(faults),
            fix=_NEXT_LINE.join(fixes),
        )
    return {
        patch.file: read_bytes(folder / patch.file, limit=limits.PATCH) for patch in target.patches
    }


def _apply(name: str, content: bytes, copy: Path, target: Target, tree: SourceTree) -> None:
    patched = try_patch(content, copy)
    if patched.problems:
        raise PatchError(
            f"{target.id}: {name} doesn't apply",
            why=_NEXT_LINE.join(patched.problems),
            fix=f"make the patch again from {tree.path} and the preceding patches, or remove it "
            "from the recipe if upstream has the change",
        )
    if not patched.has_effect:
        raise PatchError(
            f"{target.id}: {name} has no effect",
            why="it holds no diff: no `--- a/…`, `+++ b/…` and `@@ … @@`"
            if patched.is_empty
            else "the source is the same with it and without it",
            fix=f"remove it from the recipe and from {target.patch_folder}, or correct it",
        )
    patched.write()
