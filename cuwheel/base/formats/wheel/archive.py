"""Wheel archives: read, check, unpack, and pack so that equal content gives equal bytes.

The form is the one of the specification "Binary distribution format" (packaging.python.org). Why
this is not left to a library: docs/adr/0007. How members are packed: `zip_writer`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from zlib_ng import zlib_ng

from cuwheel.base import limits
from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.formats.wheel.metadata import dist_info_of, find_dist_info, is_library
from cuwheel.base.formats.wheel.record import (
    SIGNATURES,
    Content,
    ContentHash,
    record_digest,
    record_text,
    repeated,
)
from cuwheel.base.formats.wheel.zip_reader import SeekableMember, has_one_table
from cuwheel.base.formats.wheel.zip_writer import LEVEL, ZipWriter
from cuwheel.base.system.files import list_tree
from cuwheel.base.system.quantities import show_size
from cuwheel.base.system.regular_files import open_descriptor

_CHUNK = 1 << 20  # bytes
_NAME_MAX = 255  # bytes of a file's name, NAME_MAX
_SHOWN = 5  # faults that a message names
# zlib-ng's own types call its error class an exception, not a kind of one.
_DAMAGE: tuple[Any, ...] = (
    zipfile.BadZipFile,
    zlib.error,
    zlib_ng.error,
    EOFError,
    NotImplementedError,
)
_EXECUTE = 0o111  # anybody's
_UNUSUAL = 0o7002  # rights of another user, writable for everybody
# Folders of `.data` that installers know: the specification "Binary distribution format".
_SCHEMES = ("data", "headers", "platlib", "purelib", "scripts")
_LOCAL_HEADER = 30  # bytes before a member's name, specification 4.3.7
_ENCRYPTED = 1  # general purpose bit 0, .ZIP File Format Specification 4.4.4
# Limits in bytes of the files of the `.dist-info` folder that are read whole.
_TEXTS = {
    "METADATA": limits.METADATA,
    "WHEEL": limits.METADATA,
    "RECORD": limits.RECORD,
    "entry_points.txt": limits.METADATA,
    "variant.json": limits.VARIANT,
}


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """Wheel opened for reading.

    Attributes:
        dist_info: the name of its `.dist-info` folder.
    """

    path: Path
    dist_info: str
    archive: zipfile.ZipFile

    @property
    def names(self) -> tuple[str, ...]:
        """Its files, in the archive's order, without folders."""
        return tuple(entry.filename for entry in self.archive.infolist() if not entry.is_dir())

    @property
    def executables(self) -> frozenset[str]:
        """Its files that installers make executable."""
        entries = self.archive.infolist()
        return frozenset(e.filename for e in entries if e.external_attr >> 16 & _EXECUTE)

    @property
    def odd_modes(self) -> tuple[str, ...]:
        """Its files that not everybody could read, or that others could write or run as another."""
        entries = ((e.filename, e.external_attr >> 16) for e in self.archive.infolist())
        return tuple(
            name
            for name, mode in entries
            if mode and stat.S_IFMT(mode) in (0, stat.S_IFREG)  # Windows notes none
            if mode & _UNUSUAL or not mode & stat.S_IRUSR
        )

    def members(self, archive: int) -> Iterator[SeekableMember]:
        """Yield its files for reading from a descriptor of `path`, in order, without doubles."""
        entries = (self.archive.getinfo(name) for name in dict.fromkeys(self.names))
        for entry in sorted(entries, key=lambda entry: entry.header_offset):
            yield SeekableMember(archive, entry)

    def read(self, name: str) -> bytes | None:
        """Read METADATA, WHEEL or RECORD; None where it isn't there.

        Its size was checked when the wheel was opened, and zipfile reads no more than that.
        """
        try:
            return self.archive.read(f"{self.dist_info}/{name}")
        except KeyError:
            return None

    def read_text(self, name: str) -> str:
        """Read the same as text; empty where it isn't there."""
        return (self.read(name) or b"").decode("utf-8", "replace")

    def is_text(self, name: str) -> bool:
        """Return True if METADATA, WHEEL or RECORD is UTF-8, or isn't there."""
        try:
            (self.read(name) or b"").decode()
        except UnicodeDecodeError:
            return False
        return True

    def digest(self, name: str, algorithm: str) -> str:
        """Return a member's hash in RECORD's form."""
        digest = hashlib.new(algorithm)
        with self.archive.open(name) as stream:
            while piece := stream.read(_CHUNK):
                digest.update(piece)
        return record_digest(algorithm, digest.digest())


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
        raw = stream or io.FileIO(path, opener=open_descriptor)
        with _Archive(raw) as file, zipfile.ZipFile(file) as archive:  # type: ignore[arg-type]
            dist_info = find_dist_info(path, archive.namelist())
            _check_sizes(path, dist_info, archive)
            yield Wheel(path=path, dist_info=dist_info, archive=archive)
    except _DAMAGE as problem:
        raise UnsafeArchiveError(
            f"{path.name} is damaged", why=str(problem), fix="download it again, or build it again"
        ) from problem


class _Archive(io.BufferedReader):
    """Zip archive; zipfile reads its table of members at once, of any size it may claim."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > limits.ARCHIVE_TABLE:
            raise zipfile.BadZipFile(
                f"{show_size(size)} would be read at once; the limit for its table of members is "
                f"{show_size(limits.ARCHIVE_TABLE)}"
            )
        return super().read(size)


def _check_sizes(path: Path, dist_info: str, archive: zipfile.ZipFile) -> None:
    """Raise an error where a size that the archive states is beyond `limits`."""
    sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    limits_by_name = {f"{dist_info}/{name}": limit for name, limit in _TEXTS.items()}
    faults = [
        f"{name} has {show_size(size)} unpacked, and the limit is {show_size(limit)}"
        for name, size in sizes.items()
        if size > (limit := limits_by_name.get(name, limits.MEMBER))
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


def check_archive(path: Path) -> None:
    """Raise UnsafeArchiveError where readers of a wheel may find different files in it."""
    with open_wheel(path) as wheel:
        check_table(wheel)


def check_table(wheel: Wheel) -> None:
    """Do the same for an open wheel, by reading only its table of members."""
    _refuse(wheel, _table_faults(wheel))


def _table_faults(wheel: Wheel) -> tuple[tuple[str, str], ...]:
    """Return entries that zip readers interpret differently, or that lead out of a folder."""
    entries = wheel.archive.infolist()
    doubles = repeated(entry.filename for entry in entries)
    faults = [(name, "it is in the archive twice") for name in doubles]
    faults += [(entry.filename, why) for entry in entries if (why := _refusal(entry))]
    folders = {str(folder) for name in wheel.names for folder in PurePosixPath(name).parents}
    faults += [(name, "it is a file and a folder") for name in sorted(folders & {*wheel.names})]
    starts = sorted(entries, key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in starts[1:]), wheel.archive.start_dir]
    faults += [
        (entry.filename, "it overlaps what follows")
        for entry, end in zip(starts, ends, strict=True)
        if entry.header_offset + _LOCAL_HEADER + len(entry.orig_filename) + entry.compress_size
        > end
    ]
    if not has_one_table(wheel.archive):
        faults.append((wheel.path.name, "its end names another table of members"))
    return tuple(faults)


def member_faults(wheel: Wheel) -> tuple[tuple[str, str], ...]:
    """Return members that no installer should take, as file and fact."""
    faults = [*_table_faults(wheel)]
    texts = (name for name in ("METADATA", "WHEEL", "RECORD") if not wheel.is_text(name))
    faults += [(f"{wheel.dist_info}/{name}", "it isn't UTF-8") for name in texts]
    long = (name for name in wheel.names if max(map(len, name.encode().split(b"/"))) > _NAME_MAX)
    faults += [(name, f"no system has names of more than {_NAME_MAX} bytes") for name in long]
    return (*faults, *_scheme_faults(wheel.names))


def _scheme_faults(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield folders of `.data` that no installer knows: each stops at the first."""
    parts = (PurePosixPath(name).parts for name in names if ".data/" in name)
    unknown = {
        f"{first}/{scheme}"
        for first, scheme, *_ in (path for path in parts if len(path) > 1)
        if first.endswith(".data") and scheme not in _SCHEMES
    }
    for folder in sorted(unknown):
        yield folder, f"installers don't know this folder of .data, only {', '.join(_SCHEMES)}"


def unpack_wheel(path: Path, folder: Path) -> None:
    """Unpack a wheel into an existing folder: files 644 or 755, under any umask.

    Raises:
        UnsafeArchiveError: it isn't a wheel, is damaged, or a member's path leads outside.
    """
    with open_wheel(path) as wheel:
        _refuse(wheel, member_faults(wheel))
        for entry in wheel.archive.infolist():
            if entry.is_dir():
                continue
            target = folder / entry.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with wheel.archive.open(entry) as source, target.open("wb") as stream:
                shutil.copyfileobj(source, stream, _CHUNK)
            target.chmod(0o755 if entry.external_attr >> 16 & _EXECUTE else 0o644)


def pack(folder: Path, path: Path, *, epoch: int, level: int = LEVEL) -> None:
    """Write a folder as a wheel; its bytes depend only on names, contents and execute bits.

    Members are sorted, `.dist-info` comes last and RECORD, which is generated, very last. Packing
    an unpacked wheel of this form gives the same file. All published wheels have the same level.

    Args:
        epoch: the time of every member, seconds since 1970; 1980 is the earliest.
    """
    sources = (
        _Source(
            name=name.as_posix(),
            is_executable=bool((folder / name).stat().st_mode & stat.S_IXUSR),
            size=(folder / name).stat().st_size,
            pieces=_pieces_of((folder / name).open, "rb"),
        )
        for name in list_tree(folder)
    )
    _write(path, dist_info_of(folder).name, sources, epoch, level)


def normalise(wheel: Path, path: Path, *, epoch: int) -> None:
    """Write a wheel again as `unpack_wheel` and `pack` would, without a folder in between.

    Raises UnsafeArchiveError where it holds what no installer should take.
    """
    with open_wheel(wheel) as opened:
        _refuse(opened, member_faults(opened))
        archive = opened.archive
        sources = (
            _Source(
                name=entry.filename,
                is_executable=bool(entry.external_attr >> 16 & _EXECUTE),
                size=entry.file_size,
                pieces=_pieces_of(archive.open, entry),
            )
            for entry in map(archive.getinfo, opened.names)
        )
        _write(path, opened.dist_info, sources, epoch, LEVEL)


@dataclass(frozen=True, kw_only=True)
class _Source:
    name: str
    is_executable: bool
    size: int
    pieces: Iterable[bytes]


def _pieces_of(opener: Callable[[Any], IO[bytes]], argument: object) -> Iterator[bytes]:
    """Yield the content of a file, which is opened only for the first piece."""
    with opener(argument) as stream:
        while piece := stream.read(_CHUNK):
            yield piece


def _write(path: Path, dist_info: str, sources: Iterable[_Source], epoch: int, level: int) -> None:
    record = f"{dist_info}/RECORD"
    dropped = {f"{dist_info}/{name}" for name in ("RECORD", *SIGNATURES)}
    members = [source for source in sources if source.name not in dropped]
    contents: dict[str, Content] = {}

    def hashing(pieces: Iterable[bytes], content_hash: ContentHash) -> Iterator[bytes]:
        for piece in pieces:
            content_hash.update(piece)
            yield piece

    with path.open("wb") as stream:
        archive = ZipWriter(stream, epoch=epoch, level=level)
        for source in sorted(
            members, key=lambda source: (source.name.startswith(f"{dist_info}/"), source.name)
        ):
            # A grafted library has its mode on the build machine; linkers write 755.
            is_executable = source.is_executable or is_library(source.name)
            hashed = ContentHash()
            archive.add(
                source.name,
                hashing(source.pieces, hashed),
                mode=0o755 if is_executable else 0o644,
                size=source.size,
            )
            contents[source.name] = hashed.content()
        text = record_text(contents, dist_info).encode()
        archive.add(record, [text], mode=0o644, size=len(text))
        archive.finish()


def _refuse(wheel: Wheel, faults: Sequence[tuple[str, str]]) -> None:
    if faults:
        raise UnsafeArchiveError(
            f"{wheel.path.name} could not be unpacked safely",
            why="; ".join(f"{name}: {fault}" for name, fault in faults[:_SHOWN]),
            fix="check what made this wheel; a real one contains no such file",
        )


def _refusal(entry: zipfile.ZipInfo) -> str:
    name, full = entry.filename, entry.orig_filename
    # zipfile cuts `filename` at a zero byte; `orig_filename` is the one in the archive.
    parts = {*name.removesuffix("/").split("/")}
    if parts & {"", ".", ".."} or "\\" in full or "\0" in full:
        return "its name is not a plain path inside the wheel"
    if entry.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    return "it is a link" if stat.S_ISLNK(entry.external_attr >> 16) else ""
