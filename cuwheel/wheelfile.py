"""Wheels as archives: read, check, unpack, and pack so that equal content gives equal bytes.

The form is the one of the specifications "Binary distribution format" and "Recording installed
projects" (packaging.python.org). Why this is not left to a library: docs/adr/0007.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import re
import shutil
import stat
import time
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from cuwheel.errors import UnsafeArchiveError
from cuwheel.files import list_tree
from cuwheel.wheelmeta import dist_info_of, find_dist_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# The bytes of a deflate stream depend on who made it (zlib, zlib-ng), so this choice and the name
# of that library (`COMPRESSOR`, which goes into the provenance) stand here and nowhere else.
_COMPRESSION = zipfile.ZIP_DEFLATED
COMPRESSOR = ("zlib", zlib.ZLIB_RUNTIME_VERSION)

_CHUNK = 1 << 20  # bytes
_ZIP_EPOCH = 315532800  # 1980-01-01, the earliest time that a zip archive can hold
_UNIX = 3  # "version made by", .ZIP File Format Specification 4.4.2
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")  # never listed in RECORD, void once that is rewritten
_SHARED_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
_ENCRYPTED = 1  # general purpose bit 0, .ZIP File Format Specification 4.4.4


@dataclass(frozen=True, kw_only=True)
class Content:
    """What reading a member told: its SHA-256 as RECORD writes it, its size in bytes."""

    digest: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A wheel opened for reading.

    Attributes:
        path: the file.
        dist_info: the name of its `.dist-info` folder.
        archive: the open archive.
    """

    path: Path
    dist_info: str
    archive: zipfile.ZipFile

    @property
    def names(self) -> tuple[str, ...]:
        """Its files, in the archive's order; entries for folders are left out."""
        return tuple(entry.filename for entry in self.archive.infolist() if not entry.is_dir())

    def read_text(self, name: str) -> str:
        """A file of the `.dist-info` folder; empty where it isn't there."""
        try:
            return self.archive.read(f"{self.dist_info}/{name}").decode("utf-8", "replace")
        except KeyError:
            return ""


@contextlib.contextmanager
def open_wheel(path: Path) -> Iterator[Wheel]:
    """Open a wheel for reading.

    Raises:
        UnsafeArchiveError: it isn't a zip archive, holds no single `.dist-info` folder, or turns
            out damaged while the block reads it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            dist_info = find_dist_info(path, archive.namelist())
            yield Wheel(path=path, dist_info=dist_info, archive=archive)
    except _DAMAGE as problem:
        raise UnsafeArchiveError(
            f"{path.name} is damaged", why=str(problem), fix="build the wheel again"
        ) from problem


def read_through(stream: IO[bytes], into: Callable[[bytes], object]) -> Content:
    """Read a stream to its end in pieces, hand each piece to `into`, and hash them all."""
    digest, size = hashlib.sha256(), 0
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        into(chunk)
    text = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    return Content(digest=f"sha256={text}", size=size)


def member_faults(wheel: Wheel) -> tuple[tuple[str, str], ...]:
    """Members that no installer should take, as file and fact: unsafe names, links, doubles."""
    entries = wheel.archive.infolist()
    doubles = _repeated(entry.filename for entry in entries)
    faults = [(name, "it is in the archive twice") for name in doubles]
    faults += [(entry.filename, why) for entry in entries if (why := _refusal(entry))]
    return tuple(faults)


def record_faults(wheel: Wheel, contents: Mapping[str, Content]) -> tuple[tuple[str, str], ...]:
    """Everything in which RECORD differs from what the wheel holds, as file and fact.

    Args:
        wheel: the open wheel.
        contents: each member's name, with what reading it told.
    """
    own = f"{wheel.dist_info}/RECORD"
    rows = [row for row in csv.reader(io.StringIO(wheel.read_text("RECORD"))) if row]
    if not rows:
        return ((own, "it is missing or empty"),)
    listed = [row[0] for row in rows]
    unlisted = {f"{wheel.dist_info}/{name}" for name in _SIGNATURES}.union(listed)
    faults = [(name, "RECORD lists it twice") for name in _repeated(listed)]
    faults += [(name, "RECORD doesn't list it") for name in sorted(set(contents) - unlisted)]
    faults += [(row[0], fault) for row in rows for fault in _row_faults(row, own, contents)]
    return tuple(faults)


def unpack(path: Path, folder: Path) -> None:
    """Unpack a wheel into an existing folder: files 644 or 755, whatever the umask.

    Raises:
        UnsafeArchiveError: it isn't a wheel, is damaged, or a member's place would be outside.
    """
    with open_wheel(path) as wheel:
        if faults := member_faults(wheel):
            raise UnsafeArchiveError(
                f"{path.name} can't be unpacked safely",
                why="; ".join(f"{name}: {fault}" for name, fault in faults),
                fix="look at what made this wheel; a real one holds no such file",
            )
        for entry in wheel.archive.infolist():
            if not entry.is_dir():
                _unpack_member(wheel.archive, entry, folder / entry.filename)


def pack(folder: Path, path: Path, *, epoch: int) -> None:
    """Write a folder as a wheel; only names, contents and execute bits decide its bytes.

    Members are sorted, `.dist-info` comes last and RECORD, written anew, very last. Packing what
    was unpacked from such a wheel gives the same file.

    Args:
        folder: a wheel's content.
        path: the file to write.
        epoch: the time that every member gets, seconds since 1970; 1980 is the earliest.

    Raises:
        OSError: something can't be read or written.
    """
    dist_info = dist_info_of(folder).name
    record = f"{dist_info}/RECORD"
    void = {f"{dist_info}/{name}" for name in ("RECORD", *_SIGNATURES)}
    names = {name.as_posix() for name in list_tree(folder)} - void
    with zipfile.ZipFile(path, "w", _COMPRESSION) as archive:
        rows: list[tuple[object, ...]] = []
        for name in sorted(names, key=lambda name: (name.startswith(f"{dist_info}/"), name)):
            content = _pack_member(archive, folder / name, name, epoch)
            rows.append((name, content.digest, content.size))
        rows.append((record, "", ""))
        archive.writestr(_entry(record, 0o644, epoch), _record_text(rows))


def _refusal(entry: zipfile.ZipInfo) -> str:
    name = PurePosixPath(entry.filename)
    # zipfile cuts `filename` at a zero byte; `orig_filename` is what the archive says.
    if name.is_absolute() or ".." in name.parts or {"\\", "\0"} & set(entry.orig_filename):
        return "its name is not a plain path below the wheel's root"
    if entry.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    return "it is a link" if stat.S_ISLNK(entry.external_attr >> 16) else ""


def _unpack_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as source, target.open("wb") as written:
        shutil.copyfileobj(source, written, _CHUNK)
    target.chmod(0o755 if entry.external_attr >> 16 & 0o111 else 0o644)


def _pack_member(archive: zipfile.ZipFile, file: Path, name: str, epoch: int) -> Content:
    status = file.stat()
    # A grafted library has the mode that it had on the build machine; linkers write 755.
    is_executable = _SHARED_LIBRARY.search(file.name) or status.st_mode & stat.S_IXUSR
    entry = _entry(name, 0o755 if is_executable else 0o644, epoch)
    entry.file_size = status.st_size  # decides on zip64 before the first byte
    with file.open("rb") as source, archive.open(entry, "w") as packed:
        return read_through(source, packed.write)


def _entry(name: str, mode: int, epoch: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, time.gmtime(max(epoch, _ZIP_EPOCH))[:6])
    entry.create_system = _UNIX
    entry.compress_type = _COMPRESSION
    entry.external_attr = (stat.S_IFREG | mode) << 16
    return entry


def _record_text(rows: Iterable[tuple[object, ...]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _row_faults(row: list[str], own: str, contents: Mapping[str, Content]) -> Iterator[str]:
    name, digest, size = (*row, "", "")[:3]
    if name not in contents:
        yield "RECORD lists it and it isn't there"
    elif name == own:
        if digest or size:
            yield "RECORD gives a hash or size of itself"
    else:
        content = contents[name]
        if digest != content.digest:
            yield f"RECORD says its hash is {digest or 'nothing'}, it is {content.digest}"
        if size != str(content.size):
            yield f"RECORD says its size is {size or 'nothing'}, it is {content.size}"


def _repeated(names: Iterable[str]) -> list[str]:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return sorted(name for name, count in seen.items() if count > 1)
