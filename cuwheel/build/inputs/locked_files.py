"""The downloads that a toolchain's lock names, with errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.store import cached_path, fetch_all
from cuwheel.base.fetch.urls import MIRROR_VARIABLE, configured_mirror
from cuwheel.base.system.files import check_free_disk
from cuwheel.build.workspace.workspace import Workspace

_RELOCK = "write the lock again with `nox -s lock`"


class _LockLine(Protocol):
    """A line of a lock; `size` is 0 where it isn't known."""

    @property
    def file_name(self) -> str:
        """Its name in the cache."""

    @property
    def sha256(self) -> str:
        """Its hash; empty where the lock has none."""

    @property
    def size(self) -> int:
        """Bytes."""


def pinned(file: _LockLine, *, max_size: int = 0, md5: str = "") -> PinnedFile:
    """Return the download of a file.

    Args:
        max_size: in bytes, where its size isn't known.
        md5: where the lock has no SHA-256.
    """
    return PinnedFile(
        name=file.file_name,
        sha256=file.sha256,
        md5=md5,
        max_size=file.size or max_size,
        size=file.size or None,
        pinned_by="the lock",
        repin=_RELOCK,
        regrow=_RELOCK,
    )


def missing_bytes(files: Iterable[PinnedFile], cache: Path) -> int:
    """Return the bytes of files that the cache lacks; those of unknown size count nothing."""
    return sum(file.size or 0 for file in files if not cached_path(cache, file).is_file())


def fetch_locked(  # noqa: PLR0913 - what, where, and its messages
    downloads: Sequence[tuple[PinnedFile, Callable[[], str]]],
    workspace: Workspace,
    *,
    needed: int,
    offline: bool,
    title: str,
    origin: str = "",
    fix: str,
    mirror_options: str = "",
) -> tuple[Path, ...]:
    """Return the files, in their order; download those that aren't in the cache.

    Args:
        downloads: each with a function that finds its address.
        needed: bytes of disk, for these and what they are unpacked to.
        title: of the files, for messages.
        origin: `from …: `, for messages.
        fix: where they can't be reached.
        mirror_options: of the `mirror` command that would hold them.

    Raises:
        DownloadError: one can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        DiskFullError: there is too little space.
    """
    check_free_disk(workspace.cache, needed)
    try:
        return fetch_all(
            downloads,
            cache=workspace.cache,
            console=workspace.console,
            offline=offline,
            title=title,
            fix=f"run without --offline, or {fix}" if offline else fix,
        )
    except DownloadError as problem:
        fix = f"run without --offline, or {fix}" if offline else fix
        if configured_mirror(workspace.environ, offline=offline):
            fix = (
                f"the mirror in {MIRROR_VARIABLE} doesn't have everything for this target; "
                "complete it on a machine with a network: `nox -s mirror -- RECIPE-TOOLKIT"
                f"{mirror_options} --to DIR`, docs/how-to/offline.md; or {fix}"
            )
        raise DownloadError(
            f"{title} could not be downloaded",
            why=f"{origin}{problem.what}: {problem.why}",
            fix=fix,
        ) from problem
