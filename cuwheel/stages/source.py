"""Stage source: the package's source on disk, from the pinned archive or from `--source`."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from cuwheel.archives import unpack
from cuwheel.artefacts import SourceTree
from cuwheel.errors import SourceError
from cuwheel.fetch import Wanted, fetch
from cuwheel.files import (
    naming_full_disk,
    new_folder,
    remove_leftovers,
    sha256_of_file,
    sha256_of_tree,
)
from cuwheel.indexes import configured_indexes, find_sdist
from cuwheel.recipe import Archive, Sdist
from cuwheel.tree import copy_source, epoch_of, fit_for_zip, settle
from cuwheel.web import shown

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.target import Target
    from cuwheel.workspace import Workspace

_FOLDER = "source"  # of the work folder


def source(target: Target, space: Workspace) -> SourceTree:
    """Put the source into the work folder, with one time stamp and plain modes.

    Raises:
        DownloadError: the archive can't be had.
        HashMismatchError: what can be had isn't the archive that the recipe pins.
        OversizedDownloadError: it is larger than the recipe allows.
        UnsafeArchiveError: it would write outside its folder, or is damaged.
        SourceError: it holds no Python package, or `--source` names nothing usable.
    """
    remove_leftovers(space.work / _FOLDER)
    with naming_full_disk(space.work):
        if target.source_override is None:
            tree = _pinned(target, space)
        elif target.source_override.is_dir():
            tree = _given_folder(target, target.source_override.absolute(), space)
        elif target.source_override.is_file():
            tree = _given_archive(target.source_override.absolute(), space)
        else:
            raise SourceError(
                f"there is no {target.source_override}",
                why="--source names it",
                fix="name a folder with pyproject.toml or setup.py, or an archive of one",
            )
        _check_package(tree)
        settle(space.work / _FOLDER, tree.epoch)
    return tree


def _pinned(target: Target, space: Workspace) -> SourceTree:
    wanted = target.recipe.source
    if isinstance(wanted, Sdist):
        origin = f"pkg:pypi/{canonicalize_name(wanted.project)}@{wanted.version}"
        name = f"{canonicalize_name(wanted.project).replace('-', '_')}-{wanted.version}.tar.gz"
    else:
        origin = shown(wanted.url)
        name = PurePosixPath(unquote(urlsplit(wanted.url).path)).name or "source"
    archive = fetch(
        Wanted(name=name, sha256=wanted.sha256, max_size=wanted.max_size),
        lambda: _find(wanted),
        cache=space.cache,
        console=space.console,
        offline=space.offline,
    )
    return _unpacked(archive, space, origin=origin, sha256=wanted.sha256, pinned=True)


def _find(wanted: Sdist | Archive) -> str:
    if isinstance(wanted, Archive):
        return wanted.url
    return find_sdist(
        wanted.project, wanted.version, wanted.sha256, indexes=configured_indexes(os.environ)
    )


def _given_archive(archive: Path, space: Workspace) -> SourceTree:
    digest = sha256_of_file(archive)
    return _unpacked(archive, space, origin=str(archive), sha256=digest, pinned=False)


def _unpacked(
    archive: Path, space: Workspace, *, origin: str, sha256: str, pinned: bool
) -> SourceTree:
    unpacked = unpack(archive, space.work / _FOLDER)
    return SourceTree(
        path=unpacked.top,
        origin=origin,
        sha256=sha256,
        epoch=fit_for_zip(unpacked.newest),
        pinned=pinned,
    )


def _given_folder(target: Target, folder: Path, space: Workspace) -> SourceTree:
    name = target.recipe.folder  # the folder's own name would be one more thing that differs
    with new_folder(space.work / _FOLDER) as aside:
        copy_source(folder, aside / name, without=space.folders)
    tree = space.work / _FOLDER / name
    return SourceTree(
        path=tree,
        origin=str(folder),
        sha256=sha256_of_tree(tree),
        epoch=epoch_of(folder, without=space.folders),
        pinned=False,
    )


def _check_package(tree: SourceTree) -> None:
    if any((tree.path / name).is_file() for name in ("pyproject.toml", "setup.py")):
        return
    raise SourceError(
        f"{tree.origin} holds no Python package",
        why="neither pyproject.toml nor setup.py is at its top",
        fix="name the folder that holds one of them, or an archive of it",
    )
