"""Sources and resources as recipes declare them: pinned archives and commits, local folders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from cuwheel.base.errors import SourceError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.git import Commit, fetch_commit, path_of_commit
from cuwheel.base.fetch.store import cached_path, fetch
from cuwheel.base.fetch.urls import redact_url, split_url
from cuwheel.base.system.files import remove_tree, sha256_of_file
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Sdist
from cuwheel.build.workspace.workspace import Workspace

Declared = Sdist | Archive | GitCommit


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """An archive to unpack, with its origin and hash."""

    path: Path
    origin: str
    sha256: str


@contextlib.contextmanager
def open_pinned(
    declared: Declared, workspace: Workspace, fix: str, *, offline: bool = False
) -> Iterator[Pinned]:
    """Open what a recipe pins as an archive; a commit's is made in the work folder and removed.

    Raises:
        CuwheelError: as `fetch_pinned`.
    """
    if not isinstance(declared, GitCommit):
        path = fetch_pinned(declared, workspace, fix, offline=offline)
        origin = (
            f"pkg:pypi/{canonicalize_name(declared.project)}@{declared.version}"
            if isinstance(declared, Sdist)
            else redact_url(declared.url)
        )
        yield Pinned(path=path, origin=origin, sha256=declared.sha256)
        return
    commit, folder = _commit(declared), workspace.work / ".commit"
    remove_tree(folder)  # of a run that was killed
    folder.mkdir(parents=True)
    try:
        tar = folder / f"{commit.stem}.tar"
        _fetch_commit(declared, workspace, fix, tar=tar, offline=offline)
        yield Pinned(path=tar, origin=commit.origin, sha256=sha256_of_file(tar))
    finally:
        remove_tree(folder)


def fetch_pinned(
    declared: Declared, workspace: Workspace, fix: str, *, offline: bool = False
) -> Path:
    """Download into the cache what a recipe pins, and check it: an archive, or a commit's pack.

    Raises:
        DownloadError: it can't be fetched.
        HashMismatchError: the download isn't what the recipe pins.
        HashMismatchError: it is larger than the recipe allows.
    """
    if isinstance(declared, GitCommit):
        return _fetch_commit(declared, workspace, fix, offline=offline)
    return fetch(
        _as_pinned_file(declared),
        lambda: _find_url(declared, workspace, offline=offline),
        cache=workspace.cache,
        console=workspace.console,
        offline=offline,
        fix=f"{fix} (its SHA-256 is {declared.sha256})",
    )


def path_of(declared: Declared, cache: Path) -> Path:
    """Return the path that `fetch_pinned` returns, existing or not."""
    if isinstance(declared, GitCommit):
        return path_of_commit(_commit(declared), cache)
    return cached_path(cache, _as_pinned_file(declared))


def folder_of(declared: Folder, root: Path) -> Path:
    """Return the folder of a source in the project folder.

    Raises:
        SourceError: it doesn't exist, or isn't inside the project folder.
    """
    folder = root / declared.path
    is_inside = root.resolve() in folder.resolve().parents
    if is_inside and folder.is_dir():
        return folder
    raise SourceError(
        f"the recipe's source, Folder(path=\"{declared.path}\"), can't be used",
        why=f"the folder {folder} doesn't exist"
        if is_inside
        else f"{folder} is {folder.resolve()}, not inside the project",
        fix="give the path of the package's folder relative to the project folder, which is "
        f"{root}",
    )


def source_folders(root: Path) -> tuple[str, ...]:
    """Return the existing folders of a project that are sources of its recipes, relative to it."""
    folders = []
    for entry in load_catalogue([root]):
        if entry.recipe and isinstance(source := entry.recipe.source, Folder):
            with contextlib.suppress(SourceError):
                folder_of(source, root)
                folders.append(source.path)
    return tuple(folders)


def _fetch_commit(
    declared: GitCommit, workspace: Workspace, fix: str, *, tar: Path | None = None, offline: bool
) -> Path:
    return fetch_commit(
        _commit(declared),
        cache=workspace.cache,
        console=workspace.console,
        tar=tar,
        offline=offline,
        fix=fix,
    )


def _commit(declared: GitCommit) -> Commit:
    return Commit(repository=declared.repository, id=declared.commit, sha256=declared.sha256)


def _as_pinned_file(declared: Sdist | Archive) -> PinnedFile:
    if isinstance(declared, Sdist):
        stem = canonicalize_name(declared.project).replace("-", "_")
        name = f"{stem}-{declared.version}.tar.gz"
    else:
        name = PurePosixPath(unquote(split_url(declared.url).path)).name or "source"
    return PinnedFile(name=name, sha256=declared.sha256, max_size=declared.max_size)


def _find_url(declared: Sdist | Archive, workspace: Workspace, *, offline: bool) -> str:
    if isinstance(declared, Archive):
        return declared.url
    # The index's reader loads slowly, and a file that is in the cache needs none.
    from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_sdist  # noqa: PLC0415

    indexes = configured_indexes(workspace.environ, offline=offline)
    return find_sdist(
        declared.project,
        declared.version,
        declared.sha256,
        indexes=indexes,
    )
