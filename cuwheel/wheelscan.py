"""Everything the audit wants to know of a wheel, from one reading of it in bounded memory."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from cuwheel.elf import Elf, ElfFormatError, is_elf, read_elf
from cuwheel.fatbin import LOADED_SECTION, DeviceCode, FatbinFormatError, read_device_code
from cuwheel.files import sha256_of_file
from cuwheel.wheelfile import Content, member_faults, open_wheel, read_through, record_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PATH_MAX = 4096  # bytes, the longest path that Linux takes
# A compiler leaves the names of sources (`__FILE__`, debug information). Only names below these
# folders, and only of sources: programs have good reasons to hold `/tmp/` or `/root/.cache`.
_SOURCE = re.compile(
    rb"/(?:home/[\w.-]+|root|tmp)/[\x21-\x7e]*?\.(?:cuh?|c|cc|cpp|cxx|h|hh|hpp|hxx|inl|ipp)\b"
)
_FOLDERS = (b"/home/", b"/root/", b"/tmp/")
_NAME = re.compile(rb"[\w-]")
_PRINTABLE = re.compile(rb"[\x20-\x7e]*")


@dataclass(frozen=True, kw_only=True)
class Library:
    """An ELF file in a wheel.

    Attributes:
        name: of the member.
        elf: what it says; None where it is damaged.
        device_code: archs of its device code; None where it has none.
        damage: why it, or its device code, can't be read; empty for a sound one.
    """

    name: str
    elf: Elf | None
    device_code: DeviceCode | None
    damage: str = ""


@dataclass(frozen=True, kw_only=True)
class Leak:
    """A path of the build machine in a member, and how many paths of its folder there are."""

    name: str
    text: str
    count: int


@dataclass(frozen=True, kw_only=True)
class WheelScan:
    """A wheel that was read from end to end.

    Attributes:
        file_name: of the wheel.
        sha256: of the wheel.
        size: of the wheel, bytes.
        dist_info: name of its `.dist-info` folder.
        names: its members.
        metadata: text of METADATA.
        tags_text: text of WHEEL.
        libraries: its ELF files.
        leaks: paths of the build machine.
        archive_faults: member and fact: unsafe names, and where RECORD is wrong.
    """

    file_name: str
    sha256: str
    size: int
    dist_info: str
    names: tuple[str, ...]
    metadata: str
    tags_text: str
    libraries: tuple[Library, ...]
    leaks: tuple[Leak, ...]
    archive_faults: tuple[tuple[str, str], ...]


def scan_wheel(path: Path, *, private_paths: tuple[str, ...], scratch: Path) -> WheelScan:
    """Read a wheel once: hashes, libraries, device code, leaked paths.

    Args:
        path: the wheel.
        private_paths: folders of the build machine whose names must not be in it.
        scratch: a folder for temporary copies of single libraries.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
    """
    contents: dict[str, Content] = {}
    libraries: list[Library] = []
    leaks: list[Leak] = []
    with open_wheel(path) as wheel:
        for name in dict.fromkeys(wheel.names):
            with wheel.archive.open(name) as stream, _copy_for_elf(stream, scratch) as copy:
                finder = _LeakFinder(private_paths, looks_for_sources=copy is not None)
                contents[name] = read_through(stream, _both(finder.feed, copy))
                leaks += [Leak(name=name, text=text, count=n) for text, n in finder.finish()]
                libraries += [_read_library(name, copy)] if copy else []
        return WheelScan(
            file_name=path.name,
            sha256=sha256_of_file(path),
            size=path.stat().st_size,
            dist_info=wheel.dist_info,
            names=wheel.names,
            metadata=wheel.read_text("METADATA"),
            tags_text=wheel.read_text("WHEEL"),
            libraries=tuple(libraries),
            leaks=tuple(leaks),
            archive_faults=(*member_faults(wheel), *record_faults(wheel, contents)),
        )


@contextlib.contextmanager
def _copy_for_elf(stream: IO[bytes], scratch: Path) -> Iterator[IO[bytes] | None]:
    """A temporary file for a member that is ELF, since its reader jumps about; else None."""
    if is_elf(stream):
        with tempfile.TemporaryFile(dir=scratch) as copy:
            yield copy
    else:
        yield None


def _both(feed: Callable[[bytes], object], copy: IO[bytes] | None) -> Callable[[bytes], object]:
    return lambda chunk: (feed(chunk), copy.write(chunk) if copy else 0)


def _read_library(name: str, stream: IO[bytes]) -> Library:
    elf = None
    try:
        elf = read_elf(stream)
        section = elf.section(LOADED_SECTION)
        code = (
            read_device_code(stream, section.offset, section.size)
            if section and section.size
            else None
        )
    except (ElfFormatError, FatbinFormatError) as problem:
        return Library(name=name, elf=elf, device_code=None, damage=str(problem))
    return Library(name=name, elf=elf, device_code=code)


class _LeakFinder:
    """Finds paths in a stream that comes in pieces; a path may lie across two of them."""

    def __init__(self, private_paths: tuple[str, ...], *, looks_for_sources: bool) -> None:
        self._looks_for_sources = looks_for_sources
        self._paths = [os.fsencode(path) for path in _outermost(private_paths)]
        self._window = b"\0"  # begins with one byte that was looked at before
        self._found: dict[bytes, tuple[str, int]] = {}

    def feed(self, chunk: bytes) -> None:
        """Take the next piece; its last bytes are looked at with the piece after it."""
        self._window += chunk
        self._search(max(1, len(self._window) - _PATH_MAX))

    def finish(self) -> list[tuple[str, int]]:
        """Look at the rest; every leak once, with the number of times that its folder came."""
        self._search(len(self._window))
        return list(self._found.values())

    def _search(self, end: int) -> None:
        """Note every path that begins before `end`, then let go of what is before it."""
        for path in self._paths:
            for place in self._places(path, end):
                if not _continues(self._window, place + len(path)):
                    self._note(path, place)
        for folder in _FOLDERS if self._looks_for_sources else ():
            for place in self._places(folder, end):
                begins = not _continues(self._window, place - 1)
                if begins and _SOURCE.match(self._window, place) and not self._is_known(place):
                    self._note(folder, place)
        self._window = self._window[end - 1 :]

    def _places(self, text: bytes, end: int) -> Iterator[int]:
        place = self._window.find(text, 1)
        while 0 <= place < end:
            yield place
            place = self._window.find(text, place + 1)

    def _is_known(self, place: int) -> bool:
        return any(self._window.startswith(path, place) for path in self._paths)

    def _note(self, folder: bytes, place: int) -> None:
        printable = _PRINTABLE.match(self._window, place)
        text = printable[0].decode() if printable else ""
        first, count = self._found.get(folder, (text, 0))
        self._found[folder] = (first, count + 1)


def _outermost(paths: tuple[str, ...]) -> list[str]:
    """Those that lie in no other of them, so that a leak is told once."""
    own = {path.rstrip("/") for path in paths} - {""}
    return sorted(path for path in own if not any(path.startswith(f"{top}/") for top in own))


def _continues(window: bytes, place: int) -> bool:
    """Whether a name goes on there: `/work` is only a part of `/workshop` and of `/home/work`."""
    return _NAME.match(window, place) is not None
