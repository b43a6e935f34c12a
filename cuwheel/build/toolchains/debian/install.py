"""The download of a Debian lock's packages, and their unpacking into a folder.

No script of a package is run, and nothing of dpkg or apt is needed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.store import cached_path, find_mirrored
from cuwheel.build.inputs.locked_files import fetch_locked, missing_bytes, pinned
from cuwheel.build.toolchains.debian.archives import (
    SETTING_FIX,
    DebianArchive,
    address_of,
    configured_archives,
    find_url,
)
from cuwheel.build.toolchains.debian.deb_file import Unpacking
from cuwheel.build.toolchains.debian.lock_file import DebianLock, DebianPackage, read_debian_lock
from cuwheel.build.toolchains.debian.source_file import ARCHITECTURES
from cuwheel.build.workspace.workspace import Workspace

_REQUESTS = 8  # at once
_UNPACKED = 4  # times the download: GCC 10 and its C library take 3.9 times as much


def unpack_packages(  # noqa: PLR0913 - source, destination and report
    lock: DebianLock,
    root: Path,
    workspace: Workspace,
    *,
    machine: str,
    offline: bool,
    title: str,
    only: Callable[[str], bool] | None = None,
    unpacked: int = _UNPACKED,
) -> None:
    """Download the packages of a lock and unpack them into a folder.

    Args:
        root: the empty folder to fill.
        machine: `x86_64` or `aarch64`.
        title: of the packages, for messages.
        only: chooses members by path, `usr/bin/gcc`; None for all.
        unpacked: as for `needed_disk`.

    Raises:
        LockError: the lock has no packages for the machine.
        DownloadError: a package can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: a package can't be unpacked.
        DiskFullError: there is too little space for the packages.
    """
    packages = lock.packages_for(machine)
    files = fetch_packages(packages, workspace, offline=offline, title=title, unpacked=unpacked)
    unpacking = Unpacking(folder=root, title=title, only=only)
    with workspace.console.live("unpacking") as line:
        for package, file in zip(packages, files, strict=True):
            line.show(package.name)
            unpacking.add(file)


def fetch_packages(
    packages: Iterable[DebianPackage],
    workspace: Workspace,
    *,
    offline: bool,
    title: str,
    unpacked: int = 0,
) -> tuple[Path, ...]:
    """Return the files of packages, in their order; download those that aren't in the cache.

    Args:
        unpacked: as for `needed_disk`.

    Raises:
        DownloadError: one can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        DiskFullError: there is too little space.
    """
    packages = tuple(packages)
    return fetch_locked(
        downloads_of(packages, workspace, offline=offline),
        workspace,
        needed=needed_disk(packages, workspace.cache, unpacked=unpacked),
        offline=offline,
        title=title,
        fix=SETTING_FIX,
    )


@lru_cache
def is_reachable(
    lock: Path,
    cache: Path,
    archives: tuple[DebianArchive, ...],
    *,
    offline: bool,
) -> bool:
    """Return True if cache, mirror or archives have a lock's packages for this kind of machine.

    A server that doesn't answer counts as one that has them: the download names it.

    Raises:
        LockError: the lock can't be used.
    """
    packages = read_debian_lock(lock).packages.get(ARCHITECTURES.get(platform.machine(), ""), ())
    try:
        return bool(packages) and not any(
            missing_packages(part, cache, archives, offline=offline, most=1)
            for part in (packages[:1], packages)
        )
    except DownloadError:
        return True


def missing_packages(
    packages: Sequence[DebianPackage],
    cache: Path,
    archives: Sequence[DebianArchive],
    *,
    offline: bool,
    most: int | None = None,
) -> tuple[DebianPackage, ...]:
    """Return the packages that neither cache, mirror nor a Debian archive has, by HEAD requests.

    Args:
        most: attempts at each server; None: as many as for a download.

    Raises:
        DownloadError: a server can't be reached.
    """

    def is_there(package: DebianPackage) -> bool:
        path = cached_path(cache, pinned(package))
        return (
            path.is_file()
            or find_mirrored(path, Attempts(most=most), offline=offline) is not None
            or address_of(package, archives, offline=offline, most=most) is not None
        )

    with ThreadPoolExecutor(_REQUESTS) as pool:
        found = list(pool.map(is_there, packages))
    return tuple(package for package, there in zip(packages, found, strict=True) if not there)


def needed_disk(
    packages: Iterable[DebianPackage], cache: Path, *, unpacked: int = _UNPACKED
) -> int:
    """Return the bytes that packages add to the cache.

    Args:
        unpacked: how many bytes each byte of a package takes once it is unpacked, 0 if it isn't.
    """
    packages = tuple(packages)
    download = missing_bytes(map(pinned, packages), cache)
    return download + unpacked * sum(package.size for package in packages)


def downloads_of(
    packages: Iterable[DebianPackage], workspace: Workspace, *, offline: bool = False
) -> list[tuple[PinnedFile, Callable[[], str]]]:
    """Return the downloads of packages, each with a function that finds its address.

    Raises:
        UsageError: the variable with the archives' addresses is malformed.
    """
    archives = configured_archives(workspace.environ)
    return [
        (
            pinned(package),
            partial(find_url, package, archives, offline=offline),
        )
        for package in packages
    ]
