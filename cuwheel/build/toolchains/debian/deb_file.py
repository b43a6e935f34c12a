"""A Debian package as an archive, deb(5), unpacked so that nothing lands outside of a folder.

It is an `ar` archive of three members. Only `data.tar` is read: the maintainer scripts are in
`control.tar`. No member may be below a link or replace another, so each folder that a name goes
through is a real one, as in `inputs/archives`; `tarfile`'s own filter (PEP 706) is applied in
addition. It removes the bits setuid, setgid and sticky: a toolchain needs no privilege, and a
package like `login` may be among those that a compiler depends on, so these aren't refused.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

import zstandard

from cuwheel.base.errors import InstallError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.regular_files import open_file
from cuwheel.build.inputs.archives import check_filters, fault_of_path, stays_inside

_MAGIC = b"!<arch>\n"
_HEADER = 60  # bytes before a member: name 16, time 12, owner 6, group 6, mode 8, size 10, end 2
_NAME, _SIZE, _END = slice(16), slice(48, 58), slice(58, 60)
_HEADER_END = b"`\n"
_FIRST, _FORMAT = "debian-binary", b"2."  # the first member, and the start of its content
_DATA = "data.tar"
_CHUNK = 1 << 20  # bytes
_DAMAGE = (
    *(tarfile.TarError, lzma.LZMAError, zlib.error, zstandard.ZstdError),
    *(EOFError, ValueError, OverflowError),
)


class _RefusedError(Exception):
    """A package is refused; the text is the reason."""


@dataclass(kw_only=True)
class Unpacking:
    """A folder that packages are unpacked into, one after the other.

    Attributes:
        folder: empty at first.
        title: of the packages, for messages.
        only: chooses members by path, `usr/bin/gcc`; None for all.
        entries: kind and package of each path; kinds are `folder`, `file`, `link to <target>`.
    """

    folder: Path
    title: str
    only: Callable[[str], bool] | None = None
    entries: dict[PurePosixPath, tuple[str, str]] = field(default_factory=dict)

    def add(self, file: Path) -> None:
        """Unpack a package.

        Raises:
            InstallError: it is damaged, or holds something that is refused.
            OSError: the folder can't be written.
        """
        check_filters()
        try:
            with _naming_damage(), open_file(file) as stream:
                self._unpack(stream, file.name)
        except _RefusedError as problem:
            raise InstallError(
                f"{self.title} could not be unpacked: {file.name} is refused",
                why=str(problem),
                fix=f"{file} has the hash that the lock names, so the archive itself holds it in "
                "this form: name another version in debian.yml, and write the lock again with "
                "`nox -s lock`",
            ) from problem

    def _unpack(self, stream: BinaryIO, package: str) -> None:
        data = _find_data(stream)
        with tarfile.open(fileobj=data, mode="r|", encoding="utf-8", errors="strict") as tar:
            for member in tar:
                self._take(tar, member, package)
            # tarfile ends at a damaged header as at the end, and before the stream's checksum.
            while block := cast("BinaryIO", tar.fileobj).read(_CHUNK):
                if block.strip(b"\0"):
                    raise tarfile.ReadError("a member's header is damaged")

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo, package: str) -> None:
        path = PurePosixPath(member.name)
        if path == PurePosixPath():
            return
        if fault := fault_of_path(path):
            raise _RefusedError(f"{member.name}: {fault}")
        if self.only and (member.isdir() or not self.only(str(path))):
            return
        member = member.replace(
            name=str(path), linkname=self._checked_target(member, path), deep=False
        )
        kind = _kind(member)
        self._check_parents(path)
        known, owner = self.entries.get(path, (kind, ""))
        if known != kind:
            raise _RefusedError(f"{path} is a {kind}, and a {known} in {owner or 'others'}")
        if owner and kind == "file":
            self._check_equal(tar, member, owner)
        elif not owner:
            tar.extract(member, self.folder, filter="data")
            self.entries[path] = (kind, package)

    def _checked_target(self, member: tarfile.TarInfo, path: PurePosixPath) -> str:
        """Return the target of a link, relative to the link; empty for all that is no link."""
        if member.islnk():
            original = PurePosixPath(member.linkname)
            if self.entries.get(original, ("", ""))[0] != "file":
                raise _RefusedError(f"{path} is a hard link to {original}, no file before it")
            return str(original)
        if not member.issym():
            return ""
        target = member.linkname
        if target.startswith("/"):
            target = os.path.relpath(target.lstrip("/") or ".", path.parent)
        if not stays_inside(target, len(path.parent.parts)):
            raise _RefusedError(f"{path} is a link to {member.linkname}, which leaves the folder")
        return target

    def _check_parents(self, path: PurePosixPath) -> None:
        """Refuse a path below something else than folders; note its folders."""
        for parent in [*path.parents][:-1]:
            kind, owner = self.entries.setdefault(parent, ("folder", ""))
            if kind != "folder":
                raise _RefusedError(f"{path} is below {parent}, a {kind} in {owner}")

    def _check_equal(self, tar: tarfile.TarFile, member: tarfile.TarInfo, owner: str) -> None:
        """Refuse a file that another package has with other content."""
        digest = hashlib.sha256()
        if member.islnk():
            content: IO[bytes] = open_file(self.folder / member.linkname)
        else:
            content = cast("IO[bytes]", tar.extractfile(member))
        with content:
            while block := content.read(_CHUNK):
                digest.update(block)
        if digest.hexdigest() != sha256_of_file(self.folder / member.name):
            raise _RefusedError(f"{member.name} differs from the file in {owner}")


def _kind(member: tarfile.TarInfo) -> str:
    if member.isdir():
        return "folder"
    if member.isreg() or member.islnk():
        return "file"
    if member.issym():
        return f"link to {member.linkname}"
    kind = "FIFO" if member.isfifo() else "device" if member.isdev() else "special file"
    raise _RefusedError(f"{member.name} is a {kind}")


@contextlib.contextmanager
def _naming_damage() -> Iterator[None]:
    try:
        yield
    except (*_DAMAGE, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # gzip's has none
            raise
        reason = " ".join(str(problem).split()) or type(problem).__name__
        raise _RefusedError(f"it is truncated or damaged ({reason})") from problem


def _find_data(stream: BinaryIO) -> BinaryIO:
    """Return the content of the member `data.tar`, decompressed."""
    total = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise _RefusedError("it is not a Debian package: it is no `ar` archive")
    is_first = True
    while header := stream.read(_HEADER):
        if header[_END] != _HEADER_END:
            raise _RefusedError("it is truncated or damaged (a member's header)")
        name, size = header[_NAME].decode("ascii").rstrip(" ").rstrip("/"), int(header[_SIZE])
        if stream.tell() + size > total:
            raise _RefusedError(f"it is truncated: {name} has {size} bytes")
        if is_first and not (name == _FIRST and stream.read(size).startswith(_FORMAT)):
            raise _RefusedError(f"it is not a Debian package of format {_FORMAT.decode()}x")
        if name.startswith(_DATA):
            return _decompressed(cast("BinaryIO", _Part(stream, size)), name)
        stream.seek(size % 2 + (0 if is_first else size), io.SEEK_CUR)
        is_first = False
    raise _RefusedError(f"it has no {_DATA}")


def _decompressed(stream: BinaryIO, name: str) -> BinaryIO:
    openers: dict[str, Callable[[BinaryIO], object]] = {
        "": lambda stream: stream,
        ".gz": gzip.open,
        ".xz": lzma.open,
        ".zst": lambda stream: zstandard.ZstdDecompressor().stream_reader(
            stream, read_across_frames=True
        ),
    }
    suffix = name.removeprefix(_DATA)
    if suffix not in openers:
        raise _RefusedError(f"its {name} has an unknown compression")
    return cast("BinaryIO", openers[suffix](stream))


class _Part(io.RawIOBase):
    """The next bytes of a file, as a file."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._stream.read(min(len(buffer), self._left))
        buffer[: len(block)] = block
        self._left -= len(block)
        return len(block)
