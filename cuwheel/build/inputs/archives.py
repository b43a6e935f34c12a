"""Source archives, unpacked so that nothing lands outside of their folder, or not at all.

A member's name has to lead downward, and none may be at or below the name of a link. A link may
first go up, as far as the archive's top, and then down. So each folder that a name goes through is
a real one, and by induction over the links no path in the tree leaves it. This is stricter than the
`data` filter of `tarfile`, which failed to ensure it (CVE-2025-4517), and is applied in addition.
"""

from __future__ import annotations

import calendar
import errno
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cuwheel.base import limits
from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.system.files import new_folder
from cuwheel.base.system.quantities import first_of, show_size
from cuwheel.base.system.regular_files import open_file

_MAX_DEPTH = 100  # folders in one another; sdists have 20 at most, Python's recursion ends at 1000
_SHOWN_NAME = 120  # characters of a member's name that the message shows
_SHOWN = 10  # refused members that the message names
_CHUNK = 1 << 20  # bytes

_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # zip's rarer compressions
    ValueError,
    OverflowError,
)
# Errors of members that contradict each other (a file that is a folder too) or have impossible
# names; None: gzip and bz2 raise OSError for damaged data.
_MEMBER_ERRORS = (
    *(None, errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.ENOTDIR, errno.ENOTEMPTY),
)


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """An archive on disk.

    Attributes:
        top: the one folder that all of it is in; of several entries, their parent.
        newest: the newest time stamp of its members, seconds since 1970.
    """

    top: Path
    newest: int


@dataclass(frozen=True, kw_only=True)
class _Member:
    """A member of either format; `target` is that of a link."""

    name: str
    kind: str
    size: int = 0
    time: int = 0
    target: str = ""


def unpack_archive(
    archive: Path, final: Path, *, max_unpacked: int = limits.SOURCE_UNPACKED
) -> Unpacked:
    """Unpack a `.tar.gz`, `.tar.bz2`, `.tar.xz` or `.zip`, recognised by content.

    All members are checked before the first is written.

    Args:
        final: the folder to make or replace.
        max_unpacked: bytes that all members may have together.

    Raises:
        UnsafeArchiveError: a member would land outside, is no file, folder or link, the archive
            is damaged, or it is too large; there is no new folder then.
        OSError: the archive can't be opened, or the folder not written.
    """
    check_filters()
    try:
        with new_folder(final) as folder:
            unpack = _unpack_zip if zipfile.is_zipfile(archive) else _unpack_tar
            members = unpack(archive, folder, max_unpacked)
            entries = list(folder.iterdir())
    except (*_UNREADABLE, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno not in _MEMBER_ERRORS:
            raise
        reason = str(problem).splitlines() or [type(problem).__name__]
        raise UnsafeArchiveError(
            f"{archive.name} could not be unpacked",
            why=f"it is truncated, damaged, or not an archive ({reason[0].rstrip(':')})",
            fix=f"get it again from its source; this file is {archive}",
        ) from problem
    tops = [final / entry.name for entry in entries]
    is_single = len(tops) == 1 and tops[0].is_dir() and not tops[0].is_symlink()
    newest = max((member.time for member in members), default=0)
    return Unpacked(top=tops[0] if is_single else final, newest=newest)


def check_filters() -> None:
    """Raise UnsafeArchiveError where this Python's tarfile has no filters."""
    if not hasattr(tarfile, "data_filter"):
        raise UnsafeArchiveError(
            "this Python can't unpack archives safely",
            why="its tarfile has no `data` filter (PEP 706), which came with 3.10.12 and 3.11.4",
            fix="run nox with a newer Python",
        )


def _unpack_tar(archive: Path, folder: Path, limit: int) -> list[_Member]:
    with open_file(archive) as stream, tarfile.open(fileobj=stream) as tar:
        members = _checked(archive, _read_tar(tar), limit)
        # The end of the compressed stream carries its checksum, and tarfile stops before it.
        while tar.fileobj and tar.fileobj.read(_CHUNK):
            pass
        tar.extractall(folder, filter="data")
    return members


def _read_tar(tar: tarfile.TarFile) -> Iterator[_Member]:
    for info in tar:
        kinds = {
            "folder": info.isdir(),
            "setuid file": info.isreg() and bool(info.mode & (stat.S_ISUID | stat.S_ISGID)),
            "file": info.isreg(),
            "symlink": info.issym(),
            "hard link": info.islnk(),
            "device": info.isdev(),
        }
        yield _Member(
            name=info.name,
            kind=next((kind for kind, matches in kinds.items() if matches), "special file"),
            size=info.size,
            time=int(info.mtime),
            target=info.linkname,
        )


def _unpack_zip(archive: Path, folder: Path, limit: int) -> list[_Member]:
    with open_file(archive) as stream, zipfile.ZipFile(stream) as content:
        infos = content.infolist()
        members = _checked(archive, map(_read_zip, infos), limit)
        for info in infos:
            path = Path(content.extract(info, folder))
            if info.external_attr >> 16 & stat.S_IXUSR:
                path.chmod(0o755)
    return members


def _read_zip(info: zipfile.ZipInfo) -> _Member:
    mode = info.external_attr >> 16
    kind = "folder" if info.is_dir() else "file"
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
        kind = "special file"  # symlinks too: zipfile would write their target as text
    # A zip names no time zone, and 0 for month and day when it has no time.
    year, month, day, *clock = info.date_time
    return _Member(
        name=info.orig_filename,
        kind="encrypted file" if info.flag_bits & 1 else kind,
        size=info.file_size,
        time=calendar.timegm((year, max(month, 1), max(day, 1), *clock, 0, 0, 0)),
    )


def _checked(archive: Path, members: Iterable[_Member], limit: int) -> list[_Member]:
    """Return all members if none can do harm."""
    checked = []
    size = 0
    for member in members:
        checked.append(member)
        size += member.size
        if size > limit or len(checked) > limits.SOURCE_MEMBERS:
            raise UnsafeArchiveError(
                f"{archive.name} is too large to unpack",
                why=f"up to {member.name} it has {show_size(size)} in {len(checked)} members",
                fix="no real source is that large: check what was downloaded",
            )
    faults = [f"{_shorten(member.name)}: {fault}" for member, fault in _faults(checked)]
    if faults:
        raise UnsafeArchiveError(
            f"{archive.name} is refused",
            why=first_of(faults, _SHOWN, "; "),
            fix=f"don't use {archive} until you know why it contains that; no real sdist does",
        )
    return checked


def _shorten(name: str) -> str:
    return name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}…"


def _faults(members: list[_Member]) -> Iterator[tuple[_Member, str]]:
    links = {PurePosixPath(member.name) for member in members if member.kind == "symlink"}
    files: set[PurePosixPath] = set()
    earlier: set[PurePosixPath] = set()
    for member in members:
        path = PurePosixPath(member.name)
        if fault := fault_of_path(path) or _fault_of_kind(member, files):
            yield member, fault
        elif not links.isdisjoint(path.parents) or (path in links and path in earlier):
            yield member, "would be written through a link"
        earlier.add(path)
        if member.kind == "file":
            files.add(path)


def fault_of_path(path: PurePosixPath) -> str:
    """Return why a member can't have this name; empty if it can."""
    if path.is_absolute():
        return "an absolute name"
    if "\0" in str(path):
        return "a name that other programs interpret differently"
    if len(path.parts) > _MAX_DEPTH:
        return f"{len(path.parts)} folders deep"
    return "leaves the folder with `..`" if ".." in path.parts else ""


def _fault_of_kind(member: _Member, files: set[PurePosixPath]) -> str:
    if member.kind == "symlink":
        depth = len(PurePosixPath(member.name).parent.parts)
        return "" if stays_inside(member.target, depth) else f"a link to {member.target}"
    if member.kind == "hard link":
        is_known = PurePosixPath(member.target) in files
        return "" if is_known else f"a hard link to {member.target}, which isn't a file before it"
    return "" if member.kind in {"file", "folder"} else f"a {member.kind}"


def stays_inside(target: str, depth: int) -> bool:
    """Return True if a link's target goes up at most `depth` folders, and only at its start."""
    path = PurePosixPath(target)
    ups = path.parts.count("..")
    leads_up_first = path.parts[:ups] == ("..",) * ups
    return not path.is_absolute() and bool(target) and leads_up_first and ups <= depth
