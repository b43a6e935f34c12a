"""What recipes declare as source or resource: pinned archives and commits, own folders."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from cuwheel.errors import SourceError
from cuwheel.fetch.download import PinnedFile
from cuwheel.fetch.git import Commit, fetch_commit, path_of_commit
from cuwheel.fetch.store import cached_path, fetch
from cuwheel.fetch.urls import redact_url
from cuwheel.model.catalogue import load_catalogue
from cuwheel.model.source import Archive, Folder, GitCommit, Sdist
from cuwheel.system.files import remove_tree, sha256_of_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.workspace.workspace import Workspace


Declared = Sdist | Archive | GitCommit


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """An archive to unpack, where it came from, and its hash."""

    path: Path
    origin: str
    sha256: str


@contextlib.contextmanager
def open_pinned(
    declared: Declared, workspace: Workspace, fix: str, *, offline: bool = False
) -> Iterator[Pinned]:
    """Give what a recipe pins as an archive, for the time of a block.

    Args:
        declared: what.
        workspace: its cache gets it; the tar of a commit is made in its work folder.
        fix: what to do when it can't be fetched, for the message.
        offline: nothing may be downloaded.

    Raises:
        CuwheelError: as `fetch_pinned`.
    """
    if not isinstance(declared, GitCommit):
        path = fetch_pinned(declared, workspace, fix, offline=offline)
        yield Pinned(path=path, origin=_origin(declared), sha256=declared.sha256)
        return
    commit = _commit(declared)
    aside = workspace.work / ".commit"
    remove_tree(aside)  # of a run that was killed
    aside.mkdir(parents=True)
    try:
        tar = aside / f"{commit.stem}.tar"
        _fetch_commit(commit, workspace, fix, tar=tar, offline=offline)
        yield Pinned(path=tar, origin=commit.origin, sha256=sha256_of_file(tar))
    finally:
        remove_tree(aside)


def fetch_pinned(
    declared: Declared, workspace: Workspace, fix: str, *, offline: bool = False
) -> Path:
    """Have something that a recipe pins in the cache, checked: an archive, or a commit's pack.

    Args:
        declared: what.
        workspace: its cache gets it.
        fix: what to do when it can't be fetched, for the message.
        offline: nothing may be downloaded.

    Raises:
        DownloadError: it can't be fetched.
        HashMismatchError: what was fetched isn't what the recipe pins.
        OversizedDownloadError: it is larger than the recipe allows.
    """
    if isinstance(declared, GitCommit):
        return _fetch_commit(_commit(declared), workspace, fix, offline=offline)
    return fetch(
        _as_pinned_file(declared),
        lambda: _find_url(declared, workspace.retry_policy, offline=offline),
        cache=workspace.cache,
        console=workspace.console,
        offline=offline,
        retry_policy=workspace.retry_policy,
        fix=f"{fix} (its SHA-256 is {declared.sha256})",
    )


def path_of(declared: Declared, cache: Path) -> Path:
    """Where `fetch_pinned` has it, or will have it."""
    if isinstance(declared, GitCommit):
        return path_of_commit(_commit(declared), cache)
    return cached_path(cache, _as_pinned_file(declared))


def folder_of(declared: Folder, root: Path) -> Path:
    """Where a source that lies in the project folder is.

    Args:
        declared: what.
        root: the project folder of the recipe.

    Raises:
        SourceError: it isn't there, or doesn't lie inside the project folder.
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
    """The folders of a project that are sources of its recipes, relative to it.

    Args:
        root: the project folder; what its recipes name and isn't there is left out.
    """
    recipes = [entry.recipe for entry in load_catalogue([root]) if entry.recipe]
    declared = [recipe.source for recipe in recipes if isinstance(recipe.source, Folder)]
    return tuple(one.path for one in declared if _is_inside(one, root))


def _is_inside(declared: Folder, root: Path) -> bool:
    try:
        folder_of(declared, root)
    except SourceError:
        return False
    return True


def _fetch_commit(
    commit: Commit,
    workspace: Workspace,
    fix: str,
    *,
    tar: Path | None = None,
    offline: bool,
) -> Path:
    return fetch_commit(
        commit,
        cache=workspace.cache,
        console=workspace.console,
        tar=tar,
        offline=offline,
        retry_policy=workspace.retry_policy,
        fix=fix,
    )


def _commit(declared: GitCommit) -> Commit:
    return Commit(repository=declared.repository, id=declared.commit, sha256=declared.sha256)


def _as_pinned_file(declared: Sdist | Archive) -> PinnedFile:
    if isinstance(declared, Sdist):
        stem = canonicalize_name(declared.project).replace("-", "_")
        name = f"{stem}-{declared.version}.tar.gz"
    else:
        name = PurePosixPath(unquote(urlsplit(declared.url).path)).name or "source"
    return PinnedFile(name=name, sha256=declared.sha256, max_size=declared.max_size)


def _origin(declared: Sdist | Archive) -> str:
    if isinstance(declared, Sdist):
        return f"pkg:pypi/{canonicalize_name(declared.project)}@{declared.version}"
    return redact_url(declared.url)


def _find_url(declared: Sdist | Archive, retry_policy: RetryPolicy, *, offline: bool) -> str:
    if isinstance(declared, Archive):
        return declared.url
    # What reads an index is large, and a file that is in the cache needs none.
    from cuwheel.pypi.indexes import configured_indexes, find_sdist  # noqa: PLC0415

    indexes = configured_indexes(os.environ, offline=offline)
    return find_sdist(
        declared.project,
        declared.version,
        declared.sha256,
        indexes=indexes,
        retry_policy=retry_policy,
    )
