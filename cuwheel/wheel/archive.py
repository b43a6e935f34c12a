"""Wheels as archives: read, check, unpack, and pack so that equal content gives equal bytes.

The form is the one of the specification "Binary distribution format" (packaging.python.org). Why
this is not left to a library: docs/adr/0007. How members are packed: `zip_writer`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import shutil
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from zlib_ng import zlib_ng

from cuwheel import limits
from cuwheel.errors import UnsafeArchiveError
from cuwheel.system.files import list_tree
from cuwheel.system.quantities import show_size
from cuwheel.wheel.metadata import dist_info_of, find_dist_info
from cuwheel.wheel.record import (
    SIGNATURES,
    ContentHash,
    record_digest,
    record_text,
    repeated,
)
from cuwheel.wheel.zip_reader import SeekableMember
from cuwheel.wheel.zip_writer import LEVEL, ZipWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_CHUNK = 1 << 20  # bytes
_SHOWN = 5  # faults that a message names
_SHARED_LIBRARY = re.compile(r"\.so(\.\d+)*$")
# zlib-ng's own types call its error class an exception, not a kind of one.
_DAMAGE: tuple[Any, ...] = (
    zipfile.BadZipFile,
    zlib.error,
    zlib_ng.error,
    EOFError,
    NotImplementedError,
)
_EXECUTE = 0o111  # anybody's
# Folders of `.data` that installers know: the specification "Binary distribution format".
_SCHEMES = ("data", "headers", "platlib", "purelib", "scripts")
_ENCRYPTED = 1  # general purpose bit 0, .ZIP File Format Specification 4.4.4
# Bytes of those files of the `.dist-info` folder that are read whole.
_TEXTS = {
    "METADATA": limits.METADATA,
    "WHEEL": limits.METADATA,
    "RECORD": limits.RECORD,
    "variant.json": limits.VARIANT,
}


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

    def members(self, archive: int) -> Iterator[SeekableMember]:
        """Its files to be read, as they lie in the archive; of two with one name, the last.

        Args:
            archive: a file descriptor of `path`.
        """
        entries = (self.archive.getinfo(name) for name in dict.fromkeys(self.names))
        for entry in sorted(entries, key=lambda entry: entry.header_offset):
            yield SeekableMember(archive, entry)

    def read(self, name: str) -> bytes | None:
        """METADATA, WHEEL or RECORD; None where it isn't there.

        Its size was checked when the wheel was opened, and zipfile reads no more than that.
        """
        try:
            return self.archive.read(f"{self.dist_info}/{name}")
        except KeyError:
            return None

    def read_text(self, name: str) -> str:
        """The same as text; empty where it isn't there."""
        return (self.read(name) or b"").decode("utf-8", "replace")

    def is_text(self, name: str) -> bool:
        """Whether METADATA, WHEEL or RECORD is UTF-8; one that isn't there is."""
        try:
            (self.read(name) or b"").decode()
        except UnicodeDecodeError:
            return False
        return True

    def digest(self, name: str, algorithm: str) -> str:
        """A member's hash as RECORD writes it."""
        found = hashlib.new(algorithm)
        with self.archive.open(name) as stream:
            while piece := stream.read(_CHUNK):
                found.update(piece)
        return record_digest(algorithm, found.digest())


@contextlib.contextmanager
def open_wheel(path: Path, stream: IO[bytes] | None = None) -> Iterator[Wheel]:
    """Open a wheel for reading.

    Args:
        path: the file; where it is elsewhere, only its name counts.
        stream: the file's content, seekable, if it isn't at `path`.

    Raises:
        UnsafeArchiveError: it isn't a zip archive, holds no single `.dist-info` folder, is larger
            inside than any wheel, or turns out damaged while the block reads it.
    """
    try:
        raw = _ArchiveStream(stream) if stream else _ArchiveFile(path)
        with raw as file, zipfile.ZipFile(file) as archive:
            dist_info = find_dist_info(path, archive.namelist())
            _check_sizes(path, dist_info, archive)
            yield Wheel(path=path, dist_info=dist_info, archive=archive)
    except _DAMAGE as problem:
        raise UnsafeArchiveError(
            f"{path.name} is damaged", why=str(problem), fix="build the wheel again"
        ) from problem


class _ArchiveFile(io.FileIO):
    """A zip archive; zipfile reads its table of members at once, however long that says it is."""

    def read(self, size: int | None = -1, /) -> bytes:
        _check_table(size)
        return super().read(size) or b""


class _ArchiveStream(io.BufferedReader):
    """The same of an archive that is elsewhere."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)  # type: ignore[arg-type]

    def read(self, size: int | None = -1, /) -> bytes:
        _check_table(size)
        return super().read(size)


def _check_table(size: int | None) -> None:
    """See that nothing is read at once that is longer than a table of members.

    Raises:
        zipfile.BadZipFile: it is.
    """
    if size is not None and size > limits.ARCHIVE_TABLE:
        limit = show_size(limits.ARCHIVE_TABLE)
        raise zipfile.BadZipFile(
            f"{show_size(size)} would be read at once; the limit for its table of members is "
            f"{limit}"
        )


def _check_sizes(path: Path, dist_info: str, archive: zipfile.ZipFile) -> None:
    """See that no size that the archive states is beyond those of wheels: cuwheel/limits.py."""
    sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    most = {f"{dist_info}/{name}": limit for name, limit in _TEXTS.items()}
    faults = [
        f"{name} has {show_size(size)} unpacked, and the limit is {show_size(limit)}"
        for name, size in sizes.items()
        if size > (limit := most.get(name, limits.MEMBER))
    ]
    if any(entry.header_offset < 0 for entry in archive.infolist()):
        raise zipfile.BadZipFile("its table of members points outside of the file")
    if not all(entry.filename for entry in archive.infolist()):
        raise zipfile.BadZipFile("a member has no name")
    total = sum(entry.file_size for entry in archive.infolist())
    if total > limits.WHEEL:
        most_of_all = show_size(limits.WHEEL)
        faults.append(f"all members have {show_size(total)}, and the limit is {most_of_all}")
    if faults:
        raise UnsafeArchiveError(
            f"{path.name} unpacks to more than any real wheel",
            why="; ".join(faults[:_SHOWN]),
            fix="check what made this wheel; reading it would use up the machine's memory",
        )


def member_faults(wheel: Wheel) -> tuple[tuple[str, str], ...]:
    """Members that no installer should take, as file and fact: unsafe names, links, doubles."""
    entries = wheel.archive.infolist()
    doubles = repeated(entry.filename for entry in entries)
    faults = [(name, "it is in the archive twice") for name in doubles]
    faults += [(entry.filename, why) for entry in entries if (why := _refusal(entry))]
    texts = (name for name in ("METADATA", "WHEEL", "RECORD") if not wheel.is_text(name))
    faults += [(f"{wheel.dist_info}/{name}", "it isn't UTF-8") for name in texts]
    return (*faults, *_scheme_faults(wheel.names))


def _scheme_faults(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Folders of `.data` that no installer knows: each stops at the first."""
    parts = (PurePosixPath(name).parts for name in names if ".data/" in name)
    unknown = {
        f"{first}/{scheme}"
        for first, scheme, *_ in (one for one in parts if len(one) > 1)
        if first.endswith(".data") and scheme not in _SCHEMES
    }
    for folder in sorted(unknown):
        yield folder, f"installers don't know this folder of .data, only {', '.join(_SCHEMES)}"


def unpack_wheel(path: Path, folder: Path) -> None:
    """Unpack a wheel into an existing folder: files 644 or 755, whatever the umask.

    Raises:
        UnsafeArchiveError: it isn't a wheel, is damaged, or a member's path leads outside.
    """
    with open_wheel(path) as wheel:
        _check_members(wheel)
        for entry in wheel.archive.infolist():
            if entry.is_dir():
                continue
            target = folder / entry.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with wheel.archive.open(entry) as source, target.open("wb") as written:
                shutil.copyfileobj(source, written, _CHUNK)
            target.chmod(0o755 if entry.external_attr >> 16 & _EXECUTE else 0o644)


def pack(folder: Path, path: Path, *, epoch: int, level: int = LEVEL) -> None:
    """Write a folder as a wheel; only names, contents and execute bits decide its bytes.

    Members are sorted, `.dist-info` comes last and RECORD, written anew, very last. Packing what
    was unpacked from such a wheel gives the same file.

    Args:
        folder: a wheel's content.
        path: the file to write.
        epoch: the time that every member gets, seconds since 1970; 1980 is the earliest.
        level: of compression, 0 (none) to 9; a published wheel has the one that all have.

    Raises:
        OSError: something can't be read or written.
    """
    dist_info = dist_info_of(folder).name
    sources = (_source_of_file(folder, name) for name in list_tree(folder))
    _write(path, dist_info, sources, epoch, level)


def normalise(wheel: Path, path: Path, *, epoch: int) -> None:
    """Write a wheel again as `unpack_wheel` and `pack` would, without a folder in between.

    Args:
        wheel: anybody's wheel.
        path: the file to write, another one.
        epoch: as for `pack`.

    Raises:
        UnsafeArchiveError: it isn't a wheel, is damaged, or holds what no installer should take.
        OSError: something can't be read or written.
    """
    with open_wheel(wheel) as opened:
        _check_members(opened)
        archive = opened.archive
        sources = (_source_of_member(archive, archive.getinfo(name)) for name in opened.names)
        _write(path, opened.dist_info, sources, epoch, LEVEL)


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A member to be packed: its name, whether it can be run, its size in bytes, its content."""

    name: str
    is_executable: bool
    size: int
    pieces: Iterable[bytes]


def _source_of_file(folder: Path, name: Path) -> _Source:
    status = (folder / name).stat()
    return _Source(
        name=name.as_posix(),
        is_executable=bool(status.st_mode & stat.S_IXUSR),
        size=status.st_size,
        pieces=_pieces_of((folder / name).open, "rb"),
    )


def _source_of_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> _Source:
    return _Source(
        name=entry.filename,
        is_executable=bool(entry.external_attr >> 16 & _EXECUTE),
        size=entry.file_size,
        pieces=_pieces_of(archive.open, entry),
    )


def _pieces_of(opener: Callable[[Any], IO[bytes]], what: object) -> Iterator[bytes]:
    """The content of a file, which is opened only when the first piece is asked for."""
    with opener(what) as stream:
        while piece := stream.read(_CHUNK):
            yield piece


def _write(path: Path, dist_info: str, sources: Iterable[_Source], epoch: int, level: int) -> None:
    record = f"{dist_info}/RECORD"
    void = {f"{dist_info}/{name}" for name in ("RECORD", *SIGNATURES)}
    kept = [source for source in sources if source.name not in void]
    rows: list[tuple[object, ...]] = []
    with path.open("wb") as stream:
        archive = ZipWriter(stream, epoch=epoch, level=level)
        for source in sorted(
            kept, key=lambda one: (one.name.startswith(f"{dist_info}/"), one.name)
        ):
            # A grafted library has the mode that it had on the build machine; linkers write 755.
            is_executable = source.is_executable or _SHARED_LIBRARY.search(source.name)
            hashed = ContentHash()
            archive.add(
                source.name,
                _hashing(source.pieces, hashed),
                mode=0o755 if is_executable else 0o644,
                size=source.size,
            )
            content = hashed.content()
            rows.append((source.name, content.digest, content.size))
        text = record_text([*rows, (record, "", "")]).encode()
        archive.add(record, [text], mode=0o644, size=len(text))
        archive.finish()


def _hashing(pieces: Iterable[bytes], hashed: ContentHash) -> Iterator[bytes]:
    for piece in pieces:
        hashed.update(piece)
        yield piece


def _check_members(wheel: Wheel) -> None:
    if faults := member_faults(wheel):
        raise UnsafeArchiveError(
            f"{wheel.path.name} could not be unpacked safely",
            why="; ".join(f"{name}: {fault}" for name, fault in faults),
            fix="check what made this wheel; a real one contains no such file",
        )


def _refusal(entry: zipfile.ZipInfo) -> str:
    name, full = entry.filename, entry.orig_filename
    # zipfile cuts `filename` at a zero byte; `orig_filename` is what the archive says.
    if name.startswith("/") or ".." in name.split("/") or "\\" in full or "\0" in full:
        return "its name is not a plain path inside the wheel"
    if entry.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    return "it is a link" if stat.S_ISLNK(entry.external_attr >> 16) else ""
