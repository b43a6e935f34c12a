"""Download the packages of a conda lock and install them with py-rattler.

Downloads are cuwheel's own, so that they are resumed, checked and mirrored like all others; rattler
gets the files. It keeps them unpacked in `<cache>/conda/`, and a second installation links them.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import rattler

from cuwheel.condasolve import WAYS_OUT
from cuwheel.errors import DamagedPackagesError, DownloadError, InstallError
from cuwheel.fetch import Wanted, cached_path, fetch_all
from cuwheel.files import check_room, disk_full, empty, remove_tree, says_disk_full, sha256_of_file
from cuwheel.web import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from cuwheel.condalock import CondaPackage
    from cuwheel.console import Console
    from cuwheel.mirrors import Mirrors

_MAX_SIZE = 4 << 30  # bytes of a package whose size isn't known; the largest of CUDA is below 1 GiB
_UNPACKED = 3  # times the download: the archive, and what is in it, which is about twice as large


def fetch_packages(  # noqa: PLR0913 - what, from where, to where, and how
    packages: Sequence[CondaPackage],
    mirrors: Mirrors,
    *,
    cache: Path,
    console: Console,
    offline: bool,
    title: str,
) -> tuple[Path, ...]:
    """Give the files of the packages, in their order; download those that aren't in the cache.

    Args:
        packages: of a lock.
        mirrors: where the channels' files come from.
        cache: cuwheel's cache.
        console: shows progress.
        offline: read nothing over the network.
        title: what the progress is called.

    Raises:
        DownloadError: one can't be had.
        HashMismatchError: what came for one isn't the file that the lock names.
        DiskFullError: there is no room.
    """
    wanted = [_wanted(package) for package in packages]
    missing = [one for one in wanted if not cached_path(cache, one).is_file()]
    _check_room(packages, missing, cache)
    addresses = [partial(mirrors.url_for, package.url) for package in packages]
    try:
        return fetch_all(
            list(zip(wanted, addresses, strict=True)),
            cache=cache,
            console=console,
            offline=offline,
            title=title,
        )
    except DownloadError as problem:
        channels = sorted({shown(mirrors.url_for(package.channel)) for package in packages})
        raise DownloadError(
            f"{title} can't be downloaded",
            why=f"from the conda channel {', '.join(channels)}: {problem.what}: {problem.why}",
            fix=WAYS_OUT,
        ) from problem


def install_packages(  # noqa: PLR0913 - what, from where, to where, and how
    packages: Sequence[CondaPackage],
    aside: Path,
    final: Path,
    mirrors: Mirrors,
    *,
    cache: Path,
    console: Console,
    offline: bool,
) -> None:
    """Install packages into a folder that gets another name afterwards.

    No script of a package is run.

    Args:
        packages: of a lock.
        aside: the empty folder to fill.
        final: the name that it will get: packages hold their own place in some files.
        mirrors: where the channels' files come from.
        cache: cuwheel's cache; holds downloads, and the packages unpacked.
        console: shows progress.
        offline: read nothing over the network.

    Raises:
        DownloadError: a package can't be had.
        HashMismatchError: what came for one isn't the file that the lock names.
        InstallError: rattler can't install them.
        DamagedPackagesError: files differ from what the packages say, twice.
        DiskFullError: there is no room.
    """
    files = fetch_packages(
        packages,
        mirrors,
        cache=cache,
        console=console,
        offline=offline,
        title=f"the packages of {final.name}",
    )
    records = [_record(package, file) for package, file in zip(packages, files, strict=True)]
    _link(records, aside, final, cache, console)
    if wrong := _damaged(aside):
        # What damaged the unpacked packages damaged all that is linked to them.
        console.warn("unpacked packages in the cache are damaged and are unpacked again")
        for package in packages:
            _forget(package, cache)
        empty(aside)
        _link(records, aside, final, cache, console)
        wrong = _damaged(aside)
    if wrong:
        raise DamagedPackagesError(
            f"{len(wrong)} files of {final.name} are not what their packages say",
            why=", ".join(wrong[:3]),
            fix=f"remove {cache / 'conda'} and run the same command again",
        )


def _wanted(package: CondaPackage) -> Wanted:
    return Wanted(
        name=package.file_name,
        sha256=package.sha256,
        md5=package.md5,
        max_size=package.size or _MAX_SIZE,
    )


def _check_room(packages: Iterable[CondaPackage], missing: Sequence[Wanted], cache: Path) -> None:
    """Refuse before the first download what a full disk would end after the last."""
    names = {one.name for one in missing}
    size = sum(package.size for package in packages if package.file_name in names)
    check_room(cache, size * _UNPACKED)


def _record(package: CondaPackage, file: Path) -> rattler.RepoDataRecord:
    # The name, version and build alone don't tell rattler's cache which file it has unpacked, so
    # it always gets a SHA-256, also where the lock knows only an MD5.
    digest = package.sha256 or sha256_of_file(file)
    record = rattler.PackageRecord(
        name=package.name,
        version=package.version,
        build=rattler.BuildString(package.build),
        build_number=0,
        subdir=package.subdir,
        arch=None,
        platform=None,
        sha256=bytes.fromhex(digest),
        md5=bytes.fromhex(package.md5),
    )
    return rattler.RepoDataRecord(record, package.file_name, file.as_uri(), package.channel)


def _link(
    records: list[rattler.RepoDataRecord], aside: Path, final: Path, cache: Path, console: Console
) -> None:
    with console.live("unpacking and linking") as line:
        line.show(f"{len(records)} packages")
        try:
            asyncio.run(
                rattler.install(
                    records,
                    aside,
                    cache_dir=cache / "conda",
                    installed_packages=[],
                    execute_link_scripts=False,
                    show_progress=False,
                    alternative_target_prefix=final,
                )
            )
        except Exception as problem:  # rattler raises classes of its own, and plain ones
            said = str(problem)
            if says_disk_full([said]):
                raise disk_full(final.parent) from problem
            raise InstallError(
                f"the packages of {final.name} can't be installed",
                why=f"rattler says: {' '.join(said.split())}",
                fix=f"remove {cache / 'conda'} and run the same command again",
            ) from problem


def _forget(package: CondaPackage, cache: Path) -> None:
    name = package.file_name.removesuffix(".conda").removesuffix(".tar.bz2")
    for path in (cache / "conda").glob(f"{name}*"):
        remove_tree(path)


def _damaged(prefix: Path) -> list[str]:
    """Files that differ from what their packages say they are once they are installed."""
    stated = list(_stated(prefix))
    with ThreadPoolExecutor() as pool:
        actual = pool.map(lambda one: _digest(prefix / one[0]), stated)
        return [name for (name, wanted), is_ in zip(stated, actual, strict=True) if is_ != wanted]


def _stated(prefix: Path) -> Iterator[tuple[str, str]]:
    for record in sorted((prefix / "conda-meta").glob("*.json")):
        for entry in json.loads(record.read_text())["paths_data"]["paths"]:
            wanted = entry.get("sha256_in_prefix") or entry.get("sha256")
            if wanted and entry["path_type"] == "hardlink":
                yield entry["_path"], wanted


def _digest(path: Path) -> str:
    return sha256_of_file(path) if path.is_file() else "missing"
