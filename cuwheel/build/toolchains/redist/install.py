"""The archives of a lock: downloaded, unpacked, and merged into one CUDA home.

Each archive has one folder of the archive's name, with `bin`, `include`, `lib` and the like, and
licences beside these. Names of several archives fit together, as NVIDIA's own installer puts them
into one folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cuwheel.base.errors import InstallError, UnsafeArchiveError
from cuwheel.base.fetch.download import PinnedFile
from cuwheel.base.fetch.urls import redact_url
from cuwheel.base.system.files import describe_file, remove_tree
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.locked_files import fetch_locked, missing_bytes, pinned
from cuwheel.build.toolchains.redist.lock_file import RedistArchive
from cuwheel.build.toolchains.redist.manifest import UNREACHABLE_FIX, base_address
from cuwheel.build.workspace.workspace import Workspace

_MAX_SIZE = 8 << 30  # bytes of an archive whose size isn't known; the largest known is 950 MB
_MAX_UNPACKED = 32 << 30  # bytes
_UNPACKED = 4  # times the download: the archive, and its contents; xz makes a third of cuBLAS
_LICENSES = "licenses"


def pinned_archive(archive: RedistArchive) -> PinnedFile:
    """Return the download of an archive."""
    return pinned(archive, max_size=_MAX_SIZE)


def disk_for_archives(archives: Iterable[RedistArchive], cache: Path) -> int:
    """Return the bytes that archives add to the cache; those of unknown size count nothing."""
    return missing_bytes(map(pinned_archive, archives), cache) * _UNPACKED


def fetch_archives(
    archives: Sequence[RedistArchive], workspace: Workspace, *, offline: bool, owner: str
) -> tuple[Path, ...]:
    """Return the files of archives, in their order; download those that aren't in the cache.

    Raises:
        DownloadError: one can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        DiskFullError: the disk is full.
    """
    base = base_address(workspace.environ)
    return fetch_locked(
        [(pinned_archive(item), partial("{}/{}".format, base, item.path)) for item in archives],
        workspace,
        needed=disk_for_archives(archives, workspace.cache),
        offline=offline,
        title=f"the archives of {owner}",
        origin=f"from {redact_url(base)}: ",
        fix=UNREACHABLE_FIX,
        mirror_options=" --toolchain redist",
    )


def install_archives(
    archives: Sequence[RedistArchive],
    home: Path,
    workspace: Workspace,
    *,
    offline: bool,
    owner: str,
) -> None:
    """Fill an empty folder with the contents of archives.

    Args:
        owner: of the archives, for messages: `the lock cuda122/redist.lock`.

    Raises:
        DownloadError: an archive can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: an archive is damaged, would write outside of its folder, has another top
            folder than its name, or has a file that another one has with other content.
        DiskFullError: the disk is full.
    """
    files = fetch_archives(archives, workspace, offline=offline, owner=owner)
    owners: dict[Path, str] = {}  # components by path in the home
    for archive, file in zip(archives, files, strict=True):
        with workspace.console.live("unpacking") as line:
            line.show(archive.name)
            top = _unpack(archive, file, home / ".unpacked", owner)
            conflicts = list(_merge(top, home, archive.name, owners))
            remove_tree(home / ".unpacked")
        if conflicts:
            raise InstallError(
                f"components of {owner} contradict each other",
                why="; ".join(conflicts[:5]),
                fix="they are of several releases: write one release of each product into "
                "redist.in, then the lock again",
            )


def _unpack(archive: RedistArchive, file: Path, folder: Path, owner: str) -> Path:
    expected = archive.file_name.removesuffix(".tar.xz")
    try:
        top = unpack_archive(file, folder, max_unpacked=_MAX_UNPACKED).top
    except UnsafeArchiveError as problem:
        why = f"{problem.what}: {problem.why}"
    else:
        if top.name == expected:
            return top
        names = ", ".join(sorted(path.name for path in folder.iterdir())[:5])
        why = f"{archive.file_name} contains {names or 'nothing'}, not one folder {expected}"
    raise InstallError(
        f"{archive.name} of {owner} could not be installed",
        why=why,
        fix=f"the file has the hash that the lock names; examine {file}, and where the lock's "
        "hashes are from",
    )


def _merge(top: Path, home: Path, name: str, owners: dict[Path, str]) -> Iterator[str]:
    """Move an unpacked archive into the home; yield what the home has with other content."""
    for source in _files_below(top):
        parts = source.relative_to(top).parts
        if len(parts) == 1:
            if source.is_symlink():  # a second name of one of the folders
                continue
            parts = (_LICENSES, name, *parts)
        path = Path("lib", *parts[1:]) if parts[0] == "lib64" else Path(*parts)
        target = home / path
        below = target.is_dir() and not target.is_symlink()
        folder = path if below else next((part for part in path.parents if part in owners), None)
        if folder:
            other = next(known for known in owners if folder in (known, *known.parents))
            yield f"{folder} is a folder in one of {owners[other]} and {name}, but not in the other"
        elif path not in owners:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
            owners[path] = name
        elif describe_file(source) != describe_file(target):
            yield f"{path} of {name} differs from that of {owners[path]}"


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield each file and link, in the same order on every machine."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if Path(parent, name).is_symlink()]
        yield from (Path(parent, name) for name in sorted((*names, *links)))
