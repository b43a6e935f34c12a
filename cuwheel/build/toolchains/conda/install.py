"""The download of a conda lock's packages, and their installation with py-rattler.

The downloads are cuwheel's own, so that they are resumed, checked and mirrored like all others;
rattler gets the files. It keeps them unpacked in `<cache>/conda/`, and a second installation links
them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from cuwheel.base.errors import DownloadError, InstallError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.private_files import make_private
from cuwheel.base.fetch.store import cached_path, fetch_all
from cuwheel.base.fetch.urls import MIRROR_VARIABLE, configured_mirror, redact_url
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import (
    check_free_disk,
    disk_full,
    empty,
    file_lock,
    has_disk_full_message,
    remove_tree,
    sha256_of_file,
)
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.build.toolchains.conda.link_process import REFUSED, LinkRequest
from cuwheel.build.toolchains.conda.lock_file import CondaPackage
from cuwheel.build.toolchains.conda.mirrors import Mirrors
from cuwheel.build.toolchains.conda.solve import UNREACHABLE_FIX
from cuwheel.build.workspace.serialization import to_json
from cuwheel.build.workspace.workspace import Workspace

_PROGRAM = "cuwheel.build.toolchains.conda.link_process"
_MAX_SIZE = 4 << 30  # bytes of a package whose size isn't known; the largest of CUDA is below 1 GiB
_UNPACKED = 3  # times the download: the archive, and its contents, which are about twice as large


def fetch_packages(
    packages: Sequence[CondaPackage],
    mirrors: Mirrors,
    workspace: Workspace,
    *,
    offline: bool,
    title: str,
) -> tuple[Path, ...]:
    """Return the files of the packages, in their order; download those that aren't in the cache.

    Raises:
        DownloadError: one can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        DiskFullError: the disk is full.
    """
    check_free_disk(workspace.cache, needed_disk(packages, workspace.cache))
    try:
        return fetch_all(
            [(pinned_file(package), partial(mirrors.url_for, package.url)) for package in packages],
            cache=workspace.cache,
            console=workspace.console,
            offline=offline,
            title=title,
        )
    except DownloadError as problem:
        fix = f"run without --offline, or {UNREACHABLE_FIX}" if offline else UNREACHABLE_FIX
        if configured_mirror(workspace.environ, offline=offline):
            fix = (
                f"the mirror in {MIRROR_VARIABLE} doesn't have everything for this target; "
                "complete it on a machine with a network: `nox -s mirror -- RECIPE-TOOLKIT --to "
                "DIR`, docs/how-to/offline.md"
            )
        channels = sorted({redact_url(mirrors.url_for(package.channel)) for package in packages})
        raise DownloadError(
            f"{title} could not be downloaded",
            why=f"from the conda channel {', '.join(channels)}: {problem.what}: {problem.why}",
            fix=fix,
        ) from problem


def needed_disk(packages: Iterable[CondaPackage], cache: Path) -> int:
    """Return the bytes that packages add to the cache; those of unknown size count nothing."""
    missing = (
        package for package in packages if not cached_path(cache, pinned_file(package)).is_file()
    )
    return sum(package.size for package in missing) * _UNPACKED


def install_packages(  # noqa: PLR0913 - source, destination and report
    packages: Sequence[CondaPackage],
    prefix: Path,
    final: Path,
    mirrors: Mirrors,
    workspace: Workspace,
    *,
    offline: bool,
    title: str,
) -> None:
    """Install packages into a folder that gets another name afterwards.

    No script of a package is run.

    Args:
        prefix: the empty folder to fill.
        final: the name that it will get: packages hold their own path in some files.
        workspace: its cache holds downloads, and the packages unpacked.

    Raises:
        DownloadError: a package can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: they can't be unpacked, or their files differ from their metadata, twice.
        DiskFullError: the disk is full.
    """
    cache, console = workspace.cache, workspace.console
    files = fetch_packages(packages, mirrors, workspace, offline=offline, title=title)
    request = LinkRequest(
        packages=tuple(
            replace(package, sha256=package.sha256 or sha256_of_file(file))
            for package, file in zip(packages, files, strict=True)
        ),
        files=files,
        prefix=prefix,
        final=final,
        cache=cache / "conda",
    )
    log = cache / "logs" / f"{final.name}.log"

    def note_wait() -> None:
        console.note("another cuwheel is unpacking conda packages; waiting for it")

    with file_lock(cache / "conda.lock", on_wait=note_wait):
        fault = _link(request, log, workspace)
        if fault:
            # The prefix has links to the damaged unpacked packages.
            console.warn(f"unpacked packages in the cache are damaged ({fault}); unpacking again")
            for package in packages:
                name = package.file_name.removesuffix(".conda").removesuffix(".tar.bz2")
                remove_tree(cache / "conda" / name)
                remove_tree(cache / "conda" / f"{name}.lock")
            empty(prefix)
            fault = _link(request, log, workspace)
        if not fault:
            make_private(prefix)
    if fault:
        raise InstallError(
            f"{title} could not be installed",
            why=fault,
            fix=f"the log is {log}; if the disk may be faulty, remove "
            f"{cache / 'conda'} and {cache / 'downloads'}",
        )


def pinned_file(package: CondaPackage) -> PinnedFile:
    """Return the download of a package of a lock."""
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


def _link(request: LinkRequest, log: Path, workspace: Workspace) -> str:
    """Fill a folder, and return what went wrong; empty if nothing did."""
    _remove_leftovers(request.cache)
    log.parent.mkdir(parents=True, exist_ok=True)
    environ = workspace.environ
    with workspace.console.live("unpacking and linking") as line, temporary_folder() as folder:
        line.show(f"{len(request.packages)} packages")
        file = folder / "request.json"
        file.write_text(to_json(request))
        env = {name: environ[name] for name in ("HOME", "PATH", "TMPDIR") if name in environ}
        try:
            process = run(
                [sys.executable, "-s", "-m", _PROGRAM, file],
                env={**env, "PYTHONPATH": str(ROOT)},
                log=log,
                check=False,
            )
        finally:
            _remove_leftovers(request.cache)
    output = process.output.strip()
    if has_disk_full_message([output]):
        raise disk_full(request.final.parent)
    if process.status == REFUSED:
        return f"rattler says: {output}"
    if process.status:
        last = (output.splitlines() or [f"it exited with status {process.status}"])[-1]
        raise InstallError(
            f"the program that unpacks the packages of {request.final.name} failed",
            why=last,
            fix=f"its whole output is in {log}; start it by nox or as `cuwheel`, which install "
            "what is needed",
        )
    wrong = _damaged(request.prefix)
    return f"{len(wrong)} files differ, {', '.join(wrong[:3])}" if wrong else ""


def _remove_leftovers(folder: Path) -> None:
    """Remove folders of an interrupted unpacking, which rattler names `.<name>…`."""
    for path in folder.glob(".*"):
        if path.is_dir():
            remove_tree(path)


def _damaged(prefix: Path) -> list[str]:
    """Return files that differ from their hashes in the packages' records."""
    expected: list[tuple[str, str]] = []
    for record in sorted((prefix / "conda-meta").glob("*.json")):
        for entry in parse_json(read_text(record))["paths_data"]["paths"]:
            sha256 = entry.get("sha256_in_prefix") or entry.get("sha256")
            if sha256 and entry["path_type"] == "hardlink":
                expected.append((entry["_path"], sha256))
    with ThreadPoolExecutor() as pool:
        actual = pool.map(
            lambda path: sha256_of_file(path) if path.is_file() else "missing",
            [prefix / name for name, _ in expected],
        )
        pairs = zip(expected, actual, strict=True)
        return [name for (name, sha256), digest in pairs if digest != sha256]
