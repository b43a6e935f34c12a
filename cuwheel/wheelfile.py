"""Wheels as archives: read, check, unpack, change, and pack so that equal content is equal bytes.

The form is the one of the specifications "Binary distribution format" and "Recording installed
projects" (packaging.python.org). Why this is not left to a library: docs/adr/0007.
"""

from __future__ import annotations

import base64
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

import packaging.requirements
import packaging.tags
import packaging.utils

from cuwheel.errors import UnsafeArchiveError
from cuwheel.files import list_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# The bytes of a deflate stream depend on who made it (zlib, zlib-ng), so this choice and the name
# of that library (`COMPRESSOR`, which goes into the provenance) stand here and nowhere else.
_COMPRESSION = zipfile.ZIP_DEFLATED
COMPRESSOR = ("zlib", zlib.ZLIB_RUNTIME_VERSION)

_CHUNK = 1 << 20  # bytes
_ZIP_EPOCH = 315532800  # 1980-01-01, the earliest time that a zip archive can hold
_UNIX = 3  # "version made by", .ZIP File Format Specification 4.4.2
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")  # not listed in RECORD, void once it is written anew
_SHARED_LIBRARY = re.compile(r"\.so(\.\d+)*$")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file in a wheel: its name, its size in bytes unpacked."""

    name: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Content:
    """What reading a member to its end told: its SHA-256 as RECORD writes it, its size in bytes."""

    digest: str
    size: int


class Wheel:
    """An open wheel; a context manager.

    Args:
        path: the `.whl` file.

    Raises:
        UnsafeArchiveError: it isn't a zip archive, or holds no single `.dist-info` folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile as problem:
            raise UnsafeArchiveError(
                f"{path.name} is not a zip archive", why=str(problem), fix="build the wheel again"
            ) from problem
        self.entries = tuple(self._zip.infolist())
        self.members = tuple(
            Member(name=entry.filename, size=entry.file_size)
            for entry in self.entries
            if not entry.is_dir()
        )
        self.dist_info = _find_dist_info(path, (member.name for member in self.members))

    def __enter__(self) -> Wheel:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def open(self, name: str) -> IO[bytes]:
        """A member as a stream."""
        return self._zip.open(name)

    def read_text(self, name: str) -> str:
        """A file of the `.dist-info` folder; empty where it isn't there."""
        try:
            return self._zip.read(f"{self.dist_info}/{name}").decode("utf-8", "replace")
        except KeyError:
            return ""


def headers(text: str) -> tuple[tuple[str, str], ...]:
    """Names (lower case) and values of the header lines of METADATA or WHEEL."""
    blocks, _ = _split_headers(text.encode())
    pairs = (block.decode("utf-8", "replace").partition(":") for block in blocks)
    return tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)


def header(text: str, name: str) -> tuple[str, ...]:
    """All values of one header, in order."""
    return tuple(value for key, value in headers(text) if key == name.lower())


def digest_of(stream: IO[bytes], *, into: Callable[[bytes], object] = lambda _: None) -> Content:
    """Read a stream to its end; each piece of it goes through `into` as well."""
    digest, size = hashlib.sha256(), 0
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        into(chunk)
    text = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    return Content(digest=f"sha256={text}", size=size)


def record_faults(wheel: Wheel, contents: Mapping[str, Content]) -> tuple[tuple[str, str], ...]:
    """Everything in which RECORD differs from what the wheel holds, as file and fact.

    Args:
        wheel: the open wheel.
        contents: each member's name, with what reading it told.
    """
    own = f"{wheel.dist_info}/RECORD"
    rows = list(csv.reader(io.StringIO(wheel.read_text("RECORD"))))
    if not rows:
        return ((own, "it is missing or empty"),)
    signatures = {f"{wheel.dist_info}/{name}" for name in _SIGNATURES}
    listed = [row[0] for row in rows if row]
    faults = [(name, "RECORD lists it twice") for name in sorted(_repeated(listed))]
    faults += [
        (name, "it is in the wheel and not in RECORD")
        for name in sorted(set(contents) - set(listed) - signatures)
    ]
    for row in rows:
        faults += [(row[0], fault) for fault in _row_faults(row, own, contents)] if row else []
    return tuple(faults)


def member_faults(wheel: Wheel) -> tuple[tuple[str, str], ...]:
    """Members that no installer should take: unsafe names, links, names that come twice."""
    faults = [
        (name, "it is in the archive twice")
        for name in sorted(_repeated(entry.filename for entry in wheel.entries))
    ]
    faults += [(entry.filename, why) for entry in wheel.entries if (why := _refusal(entry))]
    return tuple(faults)


def unpack(path: Path, folder: Path) -> None:
    """Unpack a wheel into an existing folder: files 644 or 755, whatever the umask.

    Raises:
        UnsafeArchiveError: it isn't a wheel, is damaged, or a member's place would be outside.
    """
    with Wheel(path) as wheel:
        if faults := member_faults(wheel):
            raise UnsafeArchiveError(
                f"{path.name} can't be unpacked safely",
                why="; ".join(f"{name}: {fault}" for name, fault in faults),
                fix="look at what made this wheel; a real one holds no such file",
            )
        try:
            for entry in wheel.entries:
                if not entry.is_dir():
                    _unpack_member(wheel, entry, folder / entry.filename)
        except (zipfile.BadZipFile, zlib.error, EOFError) as problem:
            raise UnsafeArchiveError(
                f"{path.name} is damaged", why=str(problem), fix="build the wheel again"
            ) from problem


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
    record = f"{dist_info_of(folder).name}/RECORD"
    names = [name.as_posix() for name in list_tree(folder)]
    void = {record, *(f"{record[:-6]}{name}" for name in _SIGNATURES)}
    names = sorted((n for n in names if n not in void), key=lambda n: (".dist-info/" in n, n))
    rows = []
    with zipfile.ZipFile(path, "w", _COMPRESSION) as archive:
        for name in names:
            entry = _entry(name, _mode(folder / name), epoch)
            entry.file_size = (folder / name).stat().st_size
            with (folder / name).open("rb") as source, archive.open(entry, "w") as packed:
                content = digest_of(source, into=packed.write)
            rows.append((name, content.digest, content.size))
        archive.writestr(_entry(record, 0o644, epoch), _record_text([*rows, (record, "", "")]))


def dist_info_of(folder: Path) -> Path:
    """The `.dist-info` folder of an unpacked wheel.

    Raises:
        UnsafeArchiveError: there is none, or several.
    """
    names = (name.as_posix() for name in list_tree(folder))
    return folder / _find_dist_info(folder, names)


def change_version(folder: Path, version: str) -> None:
    """Give an unpacked wheel another version: METADATA, `.dist-info` and `.data` follow."""
    old = dist_info_of(folder)
    stem = old.name.removesuffix(".dist-info")
    new_stem = f"{stem.rpartition('-')[0]}-{version.replace('-', '_')}"
    _edit_headers(old / "METADATA", "version", lambda _: [version])
    for suffix in (".dist-info", ".data"):
        if (folder / f"{stem}{suffix}").exists():
            (folder / f"{stem}{suffix}").rename(folder / f"{new_stem}{suffix}")


def require(folder: Path, requirements: Iterable[str]) -> None:
    """Make an unpacked wheel require something, in place of what it said of the same projects.

    Requirements of other projects stay as they are, and so does one of the same project that only
    an extra brings in. A replaced one keeps its place; new ones follow at the end.
    """
    wanted = {_project(text): text for text in requirements}

    def merge(old: list[str]) -> list[str]:
        replaced = [line if _is_extra(line) else wanted.get(_project(line), line) for line in old]
        return list(dict.fromkeys([*replaced, *wanted.values()]))

    _edit_headers(dist_info_of(folder) / "METADATA", "requires-dist", merge)


def set_tags(folder: Path, tags: Iterable[str]) -> None:
    """Write the tags of an unpacked wheel (`cp312-cp312-manylinux_2_28_x86_64`); it isn't pure."""
    path = dist_info_of(folder) / "WHEEL"
    _edit_headers(path, "tag", lambda _: list(tags))
    _edit_headers(path, "root-is-purelib", lambda _: ["false"])


def file_name(folder: Path) -> str:
    """The file name that an unpacked wheel's `.dist-info` and tags ask for."""
    dist_info = dist_info_of(folder)
    text = (dist_info / "WHEEL").read_text("utf-8")
    parts = (sorted(set(part)) for part in zip(*(t.split("-") for t in header(text, "tag"))))
    words = [dist_info.name.removesuffix(".dist-info"), *header(text, "build")]
    return "-".join([*words, *(".".join(part) for part in parts)]) + ".whl"


def installed_path(name: str) -> PurePosixPath | None:
    """Where a member goes, relative to site-packages; None when it goes elsewhere (scripts, data)."""
    first, *rest = PurePosixPath(name).parts
    if not first.endswith(".data") or len(rest) < 2:  # noqa: PLR2004 - scheme and file
        return PurePosixPath(name)
    return PurePosixPath(*rest[1:]) if rest[0] in ("purelib", "platlib") else None


def _find_dist_info(path: Path, names: Iterable[str]) -> str:
    found = sorted(
        {
            first
            for name in names
            for first, slash, _ in [name.partition("/")]
            if slash and first.endswith(".dist-info")
        }
    )
    if len(found) != 1:
        raise UnsafeArchiveError(
            f"{path.name} is not a wheel",
            why=f"it holds {', '.join(found) or 'no .dist-info folder'}; a wheel holds one",
            fix="build the wheel again",
        )
    return found[0]


def _refusal(entry: zipfile.ZipInfo) -> str:
    path = PurePosixPath(entry.filename)
    # `orig_filename` is what the archive says; zipfile cuts `filename` at a zero byte.
    if path.is_absolute() or ".." in path.parts or set("\\\0") & set(entry.orig_filename):
        return "its name leads out of the folder"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "it is a link"
    return ""


def _unpack_member(wheel: Wheel, entry: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with wheel.open(entry.filename) as source, target.open("wb") as written:
        shutil.copyfileobj(source, written, _CHUNK)
    target.chmod(0o755 if entry.external_attr >> 16 & 0o111 else 0o644)


def _entry(name: str, mode: int, epoch: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, time.gmtime(max(epoch, _ZIP_EPOCH))[:6])
    entry.create_system = _UNIX
    entry.compress_type = _COMPRESSION
    entry.external_attr = (stat.S_IFREG | mode) << 16
    return entry


def _mode(path: Path) -> int:
    # A grafted library has the mode that it had on the build machine; linkers write 755.
    is_library = _SHARED_LIBRARY.search(path.name)
    return 0o755 if is_library or path.stat().st_mode & 0o100 else 0o644


def _record_text(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _row_faults(row: list[str], own: str, contents: Mapping[str, Content]) -> Iterator[str]:
    name, digest, size = (*row, "", "")[:3]
    if name not in contents:
        yield "RECORD lists it and the wheel doesn't hold it"
    elif name == own:
        if digest or size:
            yield "RECORD gives a hash or size of itself"
    else:
        if digest != contents[name].digest:
            yield f"RECORD gives its hash as {digest or 'none'}, it is {contents[name].digest}"
        if size != str(contents[name].size):
            yield f"RECORD gives its size as {size or 'none'}, it is {contents[name].size}"


def _repeated(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def _project(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    return packaging.utils.canonicalize_name(name[0]) if name else ""


def _is_extra(requirement: str) -> bool:
    marker = packaging.requirements.Requirement(requirement).marker
    return "extra ==" in str(marker)


def _edit_headers(path: Path, name: str, edit: Callable[[list[str]], list[str]]) -> None:
    """Change the values of one header; every other byte of the file stays."""
    blocks, rest = _split_headers(path.read_bytes())
    ours = [index for index, block in enumerate(blocks) if _is_header(block, name)]
    values = edit([blocks[index].decode().partition(":")[2].strip() for index in ours])
    label = blocks[ours[0]].partition(b":")[0].decode() if ours else name.title()
    lines = [f"{label}: {value}\n".encode() for value in values]
    # The nth value takes the place of the nth line; what is left follows the last of them.
    last = ours[-1] if ours else len(blocks) - 1
    written = []
    for index, block in enumerate(blocks):
        written += lines[:1] if index in ours else [block]
        lines = lines[1:] if index in ours else lines
        if index == last:
            written += lines
            lines = []
    path.write_bytes(b"".join(written) + rest)


def _is_header(block: bytes, name: str) -> bool:
    return block.partition(b":")[0].strip().lower() == name.encode()


def _split_headers(content: bytes) -> tuple[list[bytes], bytes]:
    """Each header with its continuation lines, and everything from the first empty line on."""
    blocks: list[bytes] = []
    stream = io.BytesIO(content)
    while line := stream.readline():
        if not line.strip():
            return blocks, line + stream.read()
        if line[:1] in b" \t" and blocks:
            blocks[-1] += line
        else:
            blocks.append(line)
    return blocks, b""
