"""Stage source: the package's source and its resources on disk, as declared or `--source`."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING

from cuwheel.errors import SourceError
from cuwheel.fetch.download import FIX
from cuwheel.model.source import Folder
from cuwheel.sources.archives import unpack_archive
from cuwheel.sources.pinned import folder_of, open_pinned
from cuwheel.sources.tree import FOLDER_EPOCH, copy_source, fit_for_zip, normalize_tree
from cuwheel.system.files import (
    naming_full_disk,
    new_folder,
    remove_leftovers,
    remove_tree,
    sha256_of_file,
    sha256_of_tree,
)
from cuwheel.workspace.records import SourceTree

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.source import Resource
    from cuwheel.model.target import Target
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


_FOLDER = "source"  # of the work folder
_RESOURCES = "resources"  # likewise; `{resources}` in recipes


def source(job: Job) -> SourceTree:
    """Put source and resources into the work folder, with one time stamp and plain modes.

    Raises:
        DownloadError: an archive or a commit can't be fetched.
        HashMismatchError: what was fetched isn't what the recipe pins.
        OversizedDownloadError: it is larger than the recipe allows.
        UnsafeArchiveError: it would write outside its folder, or is damaged.
        SourceError: it holds no Python package, or `--source` or the recipe names no usable
            folder.
    """
    target, workspace = job.target, job.workspace
    remove_leftovers(workspace.work / _FOLDER)
    remove_tree(workspace.work / _RESOURCES)
    with naming_full_disk(workspace.work):
        if target.source_override is None:
            tree = _declared(job)
        elif target.source_override.is_dir():
            tree = _given_folder(target, target.source_override.absolute(), workspace)
        elif target.source_override.is_file():
            archive = target.source_override.absolute()
            digest = sha256_of_file(archive)
            tree = _unpacked(archive, workspace, origin=str(archive), sha256=digest, pinned=False)
        else:
            raise SourceError(
                f"{target.source_override} doesn't exist",
                why="--source names it",
                fix="give a folder with pyproject.toml or setup.py, or an archive of one",
            )
        _check_package(tree)
        normalize_tree(workspace.work / _FOLDER, tree.epoch)
        resources = tuple(_fetch_resource(resource, job) for resource in target.recipe.resources)
        if resources:
            normalize_tree(workspace.work / _RESOURCES, tree.epoch)
    return dataclasses.replace(tree, resources=resources)


def _declared(job: Job) -> SourceTree:
    target, workspace = job.target, job.workspace
    declared = target.recipe.filled_source
    if isinstance(declared, Folder):
        tree = _given_folder(target, folder_of(declared, target.root.absolute()), workspace)
        # Its pin is the recipe's own: both lie in one version control.
        return dataclasses.replace(tree, origin=declared.path, pinned=True)
    with open_pinned(declared, workspace, FIX, offline=job.settings.offline) as got:
        return _unpacked(got.path, workspace, origin=got.origin, sha256=got.sha256, pinned=True)


def _fetch_resource(resource: Resource, job: Job) -> tuple[str, str, str]:
    """Put one resource at the path that the recipe gives; returns name, origin and SHA-256."""
    fix = f"download it on another machine and copy it there: it is the resource {resource.name}"
    path, offline = job.workspace.work / _RESOURCES / resource.to, job.settings.offline
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_pinned(resource.source, job.workspace, fix, offline=offline) as got:
        if not resource.unpack:
            shutil.copyfile(got.path, path)
        else:
            aside = path.with_name(f".{path.name}.unpacked")
            unpack_archive(got.path, aside).top.rename(path)
            remove_tree(aside)
    return resource.name, got.origin, got.sha256


def _unpacked(
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


def _given_folder(target: Target, folder: Path, workspace: Workspace) -> SourceTree:
    name = target.recipe.folder  # the folder's own name would be one more thing that differs
    with new_folder(workspace.work / _FOLDER) as aside:
        copy_source(folder, aside / name, without=workspace.folders)
    tree = workspace.work / _FOLDER / name
    return SourceTree(
        path=tree,
        origin=str(folder),
        sha256=sha256_of_tree(tree),
        epoch=FOLDER_EPOCH,
        pinned=False,
    )


def _check_package(tree: SourceTree) -> None:
    if any((tree.path / name).is_file() for name in ("pyproject.toml", "setup.py")):
        return
    raise SourceError(
        f"{tree.origin} contains no Python package",
        why="it has neither pyproject.toml nor setup.py at its top level",
        fix="give the folder that contains one of them, or an archive of it",
    )
