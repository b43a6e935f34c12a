"""The download of a Debian lock's packages, and their unpacking into a folder.

No script of a package is run, and nothing of dpkg or apt is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.store import cached_path, fetch_all
from cuwheel.base.fetch.urls import MIRROR_VARIABLE, configured_mirror
from cuwheel.base.system.files import check_free_disk
from cuwheel.build.toolchains.debian.archives import SETTING_FIX, configured_archives, find_url
from cuwheel.build.toolchains.debian.deb_file import Unpacking
from cuwheel.build.toolchains.debian.lock_file import DebianLock, DebianPackage
from cuwheel.build.workspace.workspace import Workspace

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
) -> None:
    """Download the packages of a lock and unpack them into a folder.

    Args:
        root: the empty folder to fill.
        machine: `x86_64` or `aarch64`.
        title: of the packages, for messages.
        only: chooses members by path, `usr/bin/gcc`; None for all.

    Raises:
        LockError: the lock has no packages for the machine.
        DownloadError: a package can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: a package can't be unpacked.
        DiskFullError: there is too little space for the packages.
    """
    packages = lock.packages_for(machine)
    files = fetch_packages(
        packages, workspace, offline=offline, title=title, unpacked=0 if only else _UNPACKED
    )
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
    check_free_disk(workspace.cache, needed_disk(packages, workspace.cache, unpacked=unpacked))
    try:
        return fetch_all(
            downloads_of(packages, workspace, offline=offline),
            cache=workspace.cache,
            console=workspace.console,
            offline=offline,
            title=title,
            fix=f"run without --offline, or {SETTING_FIX}" if offline else SETTING_FIX,
        )
    except DownloadError as problem:
        fix = problem.fix
        if configured_mirror(workspace.environ, offline=offline):
            fix = (
                f"the mirror in {MIRROR_VARIABLE} doesn't have everything for this target; "
                "complete it on a machine with a network: `nox -s mirror -- RECIPE-TOOLKIT --to "
                f"DIR`, docs/how-to/offline.md; or {fix}"
            )
        raise DownloadError(
            f"{title} could not be downloaded", why=f"{problem.what}: {problem.why}", fix=fix
        ) from problem


def needed_disk(
    packages: Iterable[DebianPackage], cache: Path, *, unpacked: int = _UNPACKED
) -> int:
    """Return the bytes that packages add to the cache.

    Args:
        unpacked: how many bytes each byte of a package takes once it is unpacked, 0 if it isn't.
    """
    packages = tuple(packages)
    missing = (each for each in packages if not cached_path(cache, pinned_file(each)).is_file())
    download = sum(package.size for package in missing)
    return download + unpacked * sum(package.size for package in packages)


def pinned_file(package: DebianPackage) -> PinnedFile:
    """Return the download of a package of a lock."""
    relock = "write the lock again with `nox -s lock`"
    return PinnedFile(
        name=package.file_name,
        sha256=package.sha256,
        max_size=package.size,
        size=package.size,
        pinned_by="the lock",
        repin=relock,
        regrow=relock,
    )


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
            pinned_file(package),
            partial(find_url, package, archives, offline=offline),
        )
        for package in packages
    ]
