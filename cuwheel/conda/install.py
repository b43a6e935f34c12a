"""Download the packages of a conda lock and install them with py-rattler.

Downloads are cuwheel's own, so that they are resumed, checked and mirrored like all others; rattler
gets the files. It keeps them unpacked in `<cache>/conda/`, and a second installation links them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.conda.link_process import REFUSED, Unpackable, write_request
from cuwheel.conda.solve import UNREACHABLE_FIX
from cuwheel.errors import DownloadError, InstallError
from cuwheel.fetch.download import PinnedFile
from cuwheel.fetch.mirror import MIRROR_VARIABLE, configured_mirror
from cuwheel.fetch.private_files import make_private
from cuwheel.fetch.retry import RETRY_POLICY
from cuwheel.fetch.store import cached_path, fetch_all
from cuwheel.fetch.urls import redact_url
from cuwheel.paths import ROOT
from cuwheel.system.files import (
    check_free_disk,
    disk_full,
    empty,
    file_lock,
    remove_tree,
    says_disk_full,
    sha256_of_file,
)
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cuwheel.conda.mirrors import Mirrors
    from cuwheel.conda.records import CondaPackage
    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.system.console import Console


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
    retry_policy: RetryPolicy = RETRY_POLICY,
) -> tuple[Path, ...]:
    """Give the files of the packages, in their order; download those that aren't in the cache.

    Args:
        packages: of a lock.
        mirrors: where the channels' files come from.
        cache: cuwheel's cache.
        console: shows progress.
        offline: read nothing over the network.
        title: what the progress is called.
        retry_policy: how long to go on trying, for each.

    Raises:
        DownloadError: one can't be fetched.
        HashMismatchError: what came for one isn't the file that the lock names.
        DiskFullError: the disk is full.
    """
    files = [pinned_file(package) for package in packages]
    check_free_disk(cache, needed_disk(packages, cache))
    addresses = [partial(mirrors.url_for, package.url) for package in packages]
    try:
        return fetch_all(
            list(zip(files, addresses, strict=True)),
            cache=cache,
            console=console,
            offline=offline,
            title=title,
            retry_policy=retry_policy,
        )
    except DownloadError as problem:
        channels = sorted({redact_url(mirrors.url_for(package.channel)) for package in packages})
        raise DownloadError(
            f"{title} could not be downloaded",
            why=f"from the conda channel {', '.join(channels)}: {problem.what}: {problem.why}",
            fix=_download_fix(offline=offline),
        ) from problem


def needed_disk(packages: Iterable[CondaPackage], cache: Path) -> int:
    """Bytes that downloading and unpacking packages adds to the cache; 0 for those it has.

    Args:
        packages: of a lock; those of unknown size count nothing.
        cache: cuwheel's cache.
    """
    missing = (one for one in packages if not cached_path(cache, pinned_file(one)).is_file())
    return sum(package.size for package in missing) * _UNPACKED


def _download_fix(*, offline: bool) -> str:
    if configured_mirror(os.environ, offline=offline):
        return (
            f"the mirror in {MIRROR_VARIABLE} doesn't have everything for this target; complete it "
            "on a machine with a network: `nox -s mirror -- RECIPE-TOOLKIT --to DIR`, "
            "docs/how-to/offline.md"
        )
    return f"run without --offline, or {UNREACHABLE_FIX}" if offline else UNREACHABLE_FIX


def install_packages(  # noqa: PLR0913 - what, from where, to where, and how
    packages: Sequence[CondaPackage],
    aside: Path,
    final: Path,
    mirrors: Mirrors,
    *,
    cache: Path,
    console: Console,
    offline: bool,
    title: str,
    retry_policy: RetryPolicy = RETRY_POLICY,
) -> None:
    """Install packages into a folder that gets another name afterwards.

    No script of a package is run.

    Args:
        packages: of a lock.
        aside: the empty folder to fill.
        final: the name that it will get: packages hold their own path in some files.
        mirrors: where the channels' files come from.
        cache: cuwheel's cache; holds downloads, and the packages unpacked.
        console: shows progress.
        offline: read nothing over the network.
        title: what the progress and errors call them.
        retry_policy: how long to go on trying to download a package.

    Raises:
        DownloadError: a package can't be fetched.
        HashMismatchError: what came for one isn't the file that the lock names.
        InstallError: they can't be unpacked, or their files aren't what they say, twice.
        DiskFullError: the disk is full.
    """
    files = fetch_packages(
        packages,
        mirrors,
        cache=cache,
        console=console,
        offline=offline,
        title=title,
        retry_policy=retry_policy,
    )
    unpackable = [_unpackable(package, file) for package, file in zip(packages, files, strict=True)]

    def note_wait() -> None:
        console.note("another cuwheel is unpacking conda packages; waiting for it")

    with file_lock(cache / "conda.lock", on_wait=note_wait):
        fault = _link(unpackable, aside, final, cache, console)
        if fault:
            # What damaged the packages that are kept unpacked damaged all that is linked to them.
            console.warn(f"unpacked packages in the cache are damaged ({fault}); unpacking again")
            _remove_unpacked(packages, cache)
            empty(aside)
            fault = _link(unpackable, aside, final, cache, console)
        if not fault:
            make_private(aside)
    if fault:
        raise InstallError(
            f"{title} could not be installed",
            why=fault,
            fix=f"the log is {_log(final, cache)}; if the disk may be faulty, remove "
            f"{cache / 'conda'} and {cache / 'downloads'}",
        )


def pinned_file(package: CondaPackage) -> PinnedFile:
    """What to download for a package of a lock."""
    relock = "write the lock again with `nox -s lock`"
    return PinnedFile(
        name=package.file_name,
        sha256=package.sha256,
        md5=package.md5,
        max_size=package.size or _MAX_SIZE,
        size=package.size or None,
        pinned_by="the lock",
        repin=relock,
        regrow=relock,
    )


def _unpackable(package: CondaPackage, file: Path) -> Unpackable:
    return Unpackable(
        name=package.name,
        version=package.version,
        build=package.build,
        subdir=package.subdir,
        file_name=package.file_name,
        channel=package.channel,
        sha256=package.sha256 or sha256_of_file(file),
        url=file.as_uri(),
    )


def _log(final: Path, cache: Path) -> Path:
    return cache / "logs" / f"{final.name}.log"


def _link(
    packages: list[Unpackable], aside: Path, final: Path, cache: Path, console: Console
) -> str:
    """Fill a folder; gives back in words what went wrong, nothing when all is as it should be.

    Raises:
        DiskFullError: the disk is full.
        InstallError: the program that does it didn't start, or was ended.
    """
    _remove_leftovers(cache / "conda")
    log = _log(final, cache)
    log.parent.mkdir(parents=True, exist_ok=True)
    with console.live("unpacking and linking") as line, tempfile.TemporaryDirectory() as folder:
        line.show(f"{len(packages)} packages")
        request = Path(folder) / "request.json"
        write_request(request, packages, aside=aside, final=final, cache=cache / "conda")
        try:
            done = run(
                [sys.executable, "-s", "-m", "cuwheel.conda.link_process", request],
                env={**_inherited_environment(), "PYTHONPATH": str(ROOT)},
                log=log,
                check=False,
            )
        finally:
            _remove_leftovers(cache / "conda")
    if says_disk_full([done.output]):
        raise disk_full(final.parent)
    if done.status == REFUSED:
        return f"rattler says: {done.output.strip()}"
    if done.status:
        last = (done.output.strip().splitlines() or [f"it exited with status {done.status}"])[-1]
        raise InstallError(
            f"the program that unpacks the packages of {final.name} failed",
            why=last,
            fix=f"its whole output is in {log}; run cuwheel through nox, which installs what is "
            "needed",
        )
    wrong = _damaged(aside)
    return f"{len(wrong)} files differ, {', '.join(wrong[:3])}" if wrong else ""


def _inherited_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR") if name in os.environ}


def _remove_leftovers(folder: Path) -> None:
    """Remove what an unpacking that was cut off has left: rattler unpacks to `.<name>…`, aside."""
    for path in folder.glob(".*"):
        if path.is_dir():
            remove_tree(path)


def _remove_unpacked(packages: Iterable[CondaPackage], cache: Path) -> None:
    for package in packages:
        name = package.file_name.removesuffix(".conda").removesuffix(".tar.bz2")
        for path in (cache / "conda" / name, cache / "conda" / f"{name}.lock"):
            remove_tree(path)


def _damaged(prefix: Path) -> list[str]:
    """Files that differ from what their packages say they are once they are installed."""
    stated = list(_stated(prefix))
    with ThreadPoolExecutor() as pool:
        actual = pool.map(
            lambda path: sha256_of_file(path) if path.is_file() else "missing",
            [prefix / name for name, _ in stated],
        )
        pairs = zip(stated, actual, strict=True)
        return [name for (name, expected), digest in pairs if digest != expected]


def _stated(prefix: Path) -> Iterator[tuple[str, str]]:
    for record in sorted((prefix / "conda-meta").glob("*.json")):
        for entry in json.loads(read_text(record))["paths_data"]["paths"]:
            expected = entry.get("sha256_in_prefix") or entry.get("sha256")
            if expected and entry["path_type"] == "hardlink":
                yield entry["_path"], expected
