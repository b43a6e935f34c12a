"""Stage source: the package's source and resources, as the recipe or `--source` names them."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from cuwheel.base.errors import SourceError
from cuwheel.base.fetch.download import FIX
from cuwheel.base.system.files import (
    new_folder,
    remove_leftovers,
    remove_tree,
    sha256_of_file,
    sha256_of_tree,
)
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.pinned import folder_of, open_pinned
from cuwheel.build.inputs.tree import (
    FOLDER_EPOCH,
    copy_source,
    fit_for_zip,
    normalize_tree,
    read_revision,
)
from cuwheel.build.recipe.source import Folder, Resource
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.problems import raise_problems
from cuwheel.build.workspace.records import SourceTree
from cuwheel.build.workspace.request_check import check_source_override
from cuwheel.build.workspace.workspace import Workspace

_FOLDER = "source"  # of the work folder
_DIGITS = 12  # of a digest, in a wheel's local version
_RESOURCES = "resources"  # likewise; `{resources}` in recipes


def source(job: Job) -> SourceTree:
    """Put source and resources into the work folder, with one time stamp and plain modes.

    Raises:
        DownloadError: an archive or a commit can't be fetched.
        HashMismatchError: a download isn't what the recipe pins.
        HashMismatchError: it is larger than the recipe allows.
        UnsafeArchiveError: it would write outside its folder, or is damaged.
        SourceError: the source holds no Python package, or `--source` or the recipe names no
            usable folder.
    """
    target, workspace = job.target, job.workspace
    remove_leftovers(workspace.work / _FOLDER)
    remove_tree(workspace.work / _RESOURCES)
    raise_problems(check_source_override(job), target.id)
    if target.source_override is None:
        tree = _fetch_declared(job)
    elif target.source_override.is_dir():
        tree = _copy_folder(target, target.source_override.absolute(), workspace)
    else:
        tree = _unpack_override(target, target.source_override.absolute(), workspace)
    if not any((tree.path / name).is_file() for name in ("pyproject.toml", "setup.py")):
        raise SourceError(
            f"{tree.origin} contains no Python package",
            why="it has neither pyproject.toml nor setup.py at its top level",
            fix="give the folder that contains one of them, or an archive of it",
        )
    normalize_tree(workspace.work / _FOLDER, tree.epoch)
    resources = tuple(_fetch_resource(resource, job) for resource in target.recipe.resources)
    if resources:
        normalize_tree(workspace.work / _RESOURCES, tree.epoch)
    return dataclasses.replace(tree, resources=resources)


def _fetch_declared(job: Job) -> SourceTree:
    target, workspace = job.target, job.workspace
    declared = target.recipe.filled_source
    if isinstance(declared, Folder):
        tree = _copy_folder(target, folder_of(declared, target.root.absolute()), workspace)
        # Pinned like the recipe: both are in the same repository.
        return dataclasses.replace(tree, origin=declared.path, pinned=True, mark="")
    with open_pinned(declared, workspace, FIX, offline=job.settings.offline) as pinned:
        return _unpack(
            pinned.path, workspace, origin=pinned.origin, sha256=pinned.sha256, pinned=True
        )


def _fetch_resource(resource: Resource, job: Job) -> tuple[str, str, str]:
    """Put a resource at the recipe's path for it; return its name, origin and SHA-256."""
    fix = f"download it on another machine and copy it there: it is the resource {resource.name}"
    path, offline = job.workspace.work / _RESOURCES / resource.to, job.settings.offline
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_pinned(resource.source, job.workspace, fix, offline=offline) as pinned:
        if not resource.unpack:
            shutil.copyfile(pinned.path, path)
        else:
            aside = path.with_name(f".{path.name}.unpacked")
            unpack_archive(pinned.path, aside).top.rename(path)
            remove_tree(aside)
    return resource.name, pinned.origin, pinned.sha256


def _unpack(
    archive: Path, workspace: Workspace, *, origin: str, sha256: str, pinned: bool
) -> SourceTree:
    unpacked = unpack_archive(archive, workspace.work / _FOLDER)
    return SourceTree(
        path=unpacked.top,
        origin=origin,
        sha256=sha256,
        epoch=fit_for_zip(unpacked.newest),
        pinned=pinned,
    )


def _unpack_override(target: Target, archive: Path, workspace: Workspace) -> SourceTree:
    """Unpack an archive; one with the hash that the recipe pins is the recipe's own source."""
    digest = sha256_of_file(archive)
    is_own = getattr(target.recipe.filled_source, "sha256", "") == digest
    tree = _unpack(archive, workspace, origin=str(archive), sha256=digest, pinned=False)
    return tree if is_own else dataclasses.replace(tree, mark=_mark(digest))


def _mark(digest: str) -> str:
    """Identify a source by content alone: the same files give the same wheel, with git or without.

    The letter comes first because a local version loses leading zeros (PEP 440).
    """
    return f"h{digest[:_DIGITS]}"


def _copy_folder(target: Target, folder: Path, workspace: Workspace) -> SourceTree:
    name = target.recipe.folder  # the folder's own name would be one more thing that differs
    commit, state, warnings = read_revision(folder)
    for warning in warnings:
        workspace.console.warn(f"{target.id}: {warning}")
    with new_folder(workspace.work / _FOLDER) as aside:
        copy_source(folder, aside / name, without=workspace.folders)
    tree = workspace.work / _FOLDER / name
    digest = sha256_of_tree(tree)
    return SourceTree(
        path=tree,
        origin=str(folder),
        sha256=digest,
        epoch=FOLDER_EPOCH,
        pinned=False,
        commit=commit,
        state=state,
        mark=_mark(digest),
    )
