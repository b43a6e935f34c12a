"""Everything the audit needs to know of a wheel, from one reading of it in bounded memory.

One thread unpacks, one searches and hashes what was unpacked, a third hashes the wheel itself: zlib
and hashlib let go of Python's lock. Nothing is written: an ELF file's tables are read by unpacking
anew the few MiB around them. What is in memory at one time does not depend on the wheel's size,
but for 6 MB for each GiB of a member: docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, TYPE_CHECKING

from cuwheel import limits
from cuwheel.audit.leaked_paths import LeakFinder, LeakKind, LeakRules
from cuwheel.binaries.archs import DeviceCode, sort_archs
from cuwheel.binaries.cudart import CUDART_TEXT, linked_cudart
from cuwheel.binaries.elf import Elf, ElfFormatError, read_elf
from cuwheel.binaries.elf_image import MAGIC
from cuwheel.binaries.elf_symbols import Exports, Symbols
from cuwheel.binaries.fatbin import (
    RELOCATABLE_SECTION,
    FatbinFinder,
    FatbinFormatError,
    code_of,
    code_of_cubin,
    code_of_ptx,
    fatbins_of,
)
from cuwheel.binaries.windows import Windows
from cuwheel.cuda.suppliers import stem_of
from cuwheel.system.files import sha256_of_file
from cuwheel.wheel.archive import member_faults, open_wheel
from cuwheel.wheel.record import Content, ContentHash, record_faults

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping
    from pathlib import Path

    from cuwheel.binaries.windows import Window
    from cuwheel.wheel.zip_reader import SeekableMember


_BATCH = 1 << 20  # bytes that go from one thread to the other at once; less costs switches
_BATCH_LENGTH = 128  # pieces likewise: files can be empty, and each has zlib's state of 45 kB
_PREFETCH = 4  # batches that wait at most, each of up to `_BATCH` and a piece
_ARCHIVE = b"!<arch>\n"  # a static library
_LIBRARY_NAME = re.compile(r"\.so(\.\d+)*$")
# Beside ELF: static, of macOS (mach-o/loader.h, mach-o/fat.h), of Windows.
_OTHER_LIBRARIES = (
    _ARCHIVE,
    *(b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xbe\xba\xfe\xca"),
    b"MZ",
)
# Of ctypes, cffi and PyTorch; who sets the variable starts a program that needs it.
_LOADS = re.compile(rb"\b(CDLL|PyDLL|LoadLibrary|load_library|dlopen|RTLD_\w+|LD_LIBRARY_PATH)\b")
_TOO_MANY_FATBINS = "it has implausibly many fat binaries or kinds of code"
_LFS_POINTER = b"version https://git-lfs"
_LINKER_SCRIPT = (b"GNU ld script", b"INPUT", b"GROUP")  # a text that stands for libraries
_Batch = list[tuple["SeekableMember", bytes]]


@dataclass(frozen=True, kw_only=True)
class DevicePart:
    """Device code in one section of one member.

    Attributes:
        name: of the member.
        section: of the ELF file that it lies in; empty for a bare cubin, a file that isn't ELF and
            code outside of all sections.
        code: its archs.
    """

    name: str
    section: str
    code: DeviceCode


@dataclass(frozen=True, kw_only=True)
class ScannedLibrary:
    """An ELF file in a wheel.

    Attributes:
        name: of the member.
        elf: what it says; None where it is damaged.
        device_code: archs of the device code that a GPU can be given, in whatever section; None
            where it has none.
        damage: why it, or its device code, can't be read; empty for an intact one.
        cudart: the release of CUDA's runtime that is linked into it, `13.0`; empty: none is found.
        undefined: symbols that something loaded has to define, of no library and no version in
            particular; those that may be missing are left out.
        exports: what it defines itself; None where that can't be read, as of 32 bits.
    """

    name: str
    elf: Elf | None
    device_code: DeviceCode | None
    damage: str = ""
    cudart: str = ""
    undefined: tuple[str, ...] = field(default=(), compare=False, repr=False)
    exports: Exports | None = field(default=None, compare=False, repr=False)

    @property
    def runtime_major(self) -> int | None:
        """13 where the runtime of CUDA 13.0 is linked into it."""
        return int(self.cudart.partition(".")[0]) if self.cudart else None


@dataclass(frozen=True, kw_only=True)
class Leak:
    """A path of the build machine in a member, and how many paths of its folder there are.

    `kind` says whose folder: one that the caller named, somebody's home, or a build service's.
    """

    name: str
    text: str
    count: int
    kind: LeakKind


@dataclass(frozen=True, kw_only=True)
class WheelScan:
    """A wheel that was read from end to end.

    Attributes:
        file_name: of the wheel.
        sha256: of the wheel.
        size: of the wheel, bytes.
        dist_info: name of its `.dist-info` folder.
        names: its members.
        contents: each member's hash and size.
        metadata: text of METADATA.
        tags_text: text of WHEEL.
        libraries: its ELF files.
        leaks: paths of the build machine.
        archive_faults: member and fact: unsafe names, and where RECORD is wrong.
        device_parts: all device code, section by section, in ELF files and others.
        loaders: its Python files that seem to load libraries themselves.
    """

    file_name: str
    sha256: str
    size: int
    dist_info: str
    names: tuple[str, ...]
    contents: Mapping[str, Content]
    metadata: str
    tags_text: str
    libraries: tuple[ScannedLibrary, ...]
    leaks: tuple[Leak, ...]
    archive_faults: tuple[tuple[str, str], ...]
    device_parts: tuple[DevicePart, ...] = ()
    loaders: tuple[str, ...] = ()

    @property
    def device_files(self) -> dict[str, DeviceCode]:
        """Members that hold device code and are no library, by name: cubins, fat binaries, PTX."""
        hosts = {one.name for one in self.libraries if one.elf and not one.elf.is_cubin}
        found: dict[str, list[DeviceCode]] = {}
        for part in self.device_parts:
            if part.name not in hosts:
                found.setdefault(part.name, []).append(part.code)
        return {name: join_codes(codes) for name, codes in found.items()}


def scan_wheel(
    path: Path,
    *,
    private_paths: tuple[str, ...],
) -> WheelScan:
    """Read a wheel once: hashes, libraries, device code, leaked paths.

    Args:
        path: the wheel.
        private_paths: folders of the build machine whose names must not be in it.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
    """
    rules = LeakRules(private_paths)
    with ThreadPoolExecutor(1) as other, open_wheel(path) as wheel, path.open("rb") as archive:
        digest = other.submit(sha256_of_file, path)
        learnt = tuple(_read(wheel.members(archive.fileno()), rules))
        contents = {one.name: one.content for one in learnt}
        return WheelScan(
            file_name=path.name,
            sha256=digest.result(),
            size=path.stat().st_size,
            dist_info=wheel.dist_info,
            names=wheel.names,
            contents=contents,
            metadata=wheel.read_text("METADATA"),
            tags_text=wheel.read_text("WHEEL"),
            libraries=tuple(one.library for one in learnt if one.library),
            device_parts=tuple(chain.from_iterable(one.parts for one in learnt)),
            leaks=tuple(chain.from_iterable(one.leaks for one in learnt)),
            loaders=tuple(one.name for one in learnt if one.is_loader),
            archive_faults=(
                *_told(member_faults(wheel)),
                *_told(
                    record_faults(
                        wheel.read_text("RECORD"), wheel.dist_info, contents, wheel.digest
                    )
                ),
            ),
        )


def _told(faults: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The first of some faults, and how many more there are."""
    more = len(faults) - limits.FAULTS
    if more <= 0:
        return faults
    return *faults[: limits.FAULTS], (
        faults[-1][0],
        f"and {more:,} more errors, of which this is the last",
    )


@dataclass(frozen=True, kw_only=True)
class _MemberFacts:
    """What is known of a member once it has been read."""

    name: str
    content: Content
    leaks: tuple[Leak, ...]
    parts: tuple[DevicePart, ...]
    library: ScannedLibrary | None
    is_loader: bool


def _read(members: Iterable[SeekableMember], rules: LeakRules) -> Iterator[_MemberFacts]:
    """Read members one after another."""
    reading = None
    with contextlib.closing(_prefetched(_batches(members))) as batches:
        for member, piece in chain.from_iterable(batches):
            reading = reading or _Reading(member, rules)
            if piece:
                reading.feed(piece)
            else:
                yield reading.finish()
                reading = None


def _batches(members: Iterable[SeekableMember]) -> Iterator[_Batch]:
    """The pieces of all members; an empty one stands behind each member's last."""
    batch: _Batch = []
    size = 0
    for member in members:
        for piece in chain(member.pieces(), (b"",)):
            batch.append((member, piece))
            size += len(piece)
            if size >= _BATCH or len(batch) >= _BATCH_LENGTH:
                yield batch
                batch, size = [], 0
    yield batch


def _prefetched(batches: Iterator[_Batch]) -> Generator[_Batch, None, None]:
    """The same, made in a thread of its own a little ahead of who takes them."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, batches, None) for _ in range(_PREFETCH))
        try:
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, batches, None))
                yield batch
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Reading:
    """Learns all of a member while its pieces go by."""

    def __init__(self, member: SeekableMember, rules: LeakRules) -> None:
        self._member = member
        self._rules = rules
        self._hash = ContentHash()
        self._windows = Windows()
        self._fatbins = FatbinFinder(member.size)
        self._has_cudart = False
        self._is_loader = False
        self._start = b""
        self._leaks = LeakFinder(rules, is_library=False)

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        self._hash.update(piece)
        for window in self._windows.feed(piece):
            self._search(window)

    def finish(self) -> _MemberFacts:
        """All that there is to know, after the last piece."""
        self._search(self._windows.finish())
        name = self._member.name
        is_elf = self._start.startswith(MAGIC)
        library, parts = self._read_library() if is_elf else (None, self._other_parts())
        if library is None and (damage := self._damage()):
            library = ScannedLibrary(name=name, elf=None, device_code=None, damage=damage)
        return _MemberFacts(
            name=name,
            content=self._hash.content(),
            leaks=tuple(
                Leak(name=name, text=found.text, count=found.count, kind=found.kind)
                for found in self._leaks.found
            ),
            parts=tuple(parts),
            library=library,
            is_loader=self._is_loader,
        )

    def _search(self, window: Window) -> None:
        if not self._start:
            self._start = window.data[1:]
            is_library = self._start.startswith((MAGIC, _ARCHIVE))
            self._leaks = LeakFinder(self._rules, is_library=is_library)
        self._leaks.search(window)
        self._fatbins.search(window)
        self._has_cudart = self._has_cudart or CUDART_TEXT in window.data
        if self._member.name.endswith(".py") and not self._is_loader:
            self._is_loader = _LOADS.search(window.data) is not None

    def _damage(self) -> str:
        """Why a file isn't the library that it is called; empty: it is one, or none at all."""
        if self._fatbins.has_too_many:
            return _TOO_MANY_FATBINS
        is_called_so = _LIBRARY_NAME.search(self._member.name)
        if not is_called_so or self._start.startswith(_OTHER_LIBRARIES):
            return ""
        if not self._start:
            return "it has the name of a library, but is empty"
        if self._start.startswith(_LFS_POINTER):
            return (
                "it is a Git LFS pointer instead of a library: run `git lfs pull` before the build"
            )
        is_script = any(word in self._start for word in _LINKER_SCRIPT)
        return "" if is_script else "it has the name of a library, but is not an ELF file"

    def _other_parts(self) -> Iterator[DevicePart]:
        """Device code in a file that isn't ELF."""
        name = self._member.name
        if self._fatbins.found:
            yield DevicePart(name=name, section="", code=code_of(self._fatbins.found))
        elif name.endswith(".ptx"):
            yield DevicePart(name=name, section="", code=code_of_ptx(self._start))

    def _read_library(self) -> tuple[ScannedLibrary, tuple[DevicePart, ...]]:
        name, elf = self._member.name, None
        try:
            with self._member.open() as stream:
                elf = read_elf(stream)
                cudart = self._read_cudart(stream, elf)
                undefined, exports = _read_symbols(stream, elf)
            parts = tuple(_device_parts(name, elf, self._fatbins))
        except (ElfFormatError, FatbinFormatError) as problem:
            return ScannedLibrary(name=name, elf=elf, device_code=None, damage=str(problem)), ()
        loaded = [part.code for part in parts if part.section != RELOCATABLE_SECTION]
        code = join_codes(loaded) if loaded else None
        library = ScannedLibrary(
            name=name,
            elf=elf,
            device_code=code,
            cudart=cudart,
            undefined=undefined,
            exports=exports,
        )
        return library, parts

    def _read_cudart(self, stream: IO[bytes], elf: Elf) -> str:
        """The runtime in a library; `libcudart.so` itself is no other's."""
        code = elf.section(".text")
        if not self._has_cudart or code is None or stem_of(elf.soname) == "libcudart":
            return ""
        return linked_cudart(stream, code, elf.machine)


def _read_symbols(stream: IO[bytes], elf: Elf) -> tuple[tuple[str, ...], Exports | None]:
    """What a library of the host needs of others without saying of which, and what it defines."""
    if not (elf.is_host_code and elf.is_dynamic):
        return (), None
    try:
        symbols = Symbols(stream)
        return symbols.unversioned(), symbols.exports()
    except (ElfFormatError, struct.error):
        return (), None  # of 32 bits, big-endian, or with a table that is cut off


def join_codes(codes: Iterable[DeviceCode]) -> DeviceCode:
    """What several pieces of device code hold together."""
    codes = tuple(codes)
    return DeviceCode(
        sass=sort_archs(arch for code in codes for arch in code.sass),
        ptx=sort_archs(arch for code in codes for arch in code.ptx),
        lto=sort_archs(arch for code in codes for arch in code.lto),
        tile=sort_archs(arch for code in codes for arch in code.tile),
    )


def _device_parts(name: str, elf: Elf, finder: FatbinFinder) -> Iterator[DevicePart]:
    if finder.has_too_many:
        raise FatbinFormatError(_TOO_MANY_FATBINS)
    fatbins = finder.found
    if elf.is_cubin:
        yield DevicePart(name=name, section="", code=code_of_cubin(elf.abi, elf.flags))
    rest = set(fatbins)
    seen = 0
    for section in elf.sections:
        own = fatbins_of(section, fatbins)
        seen += len(own)
        if seen > 2 * len(fatbins):  # each would be looked at a hundred thousand times
            raise FatbinFormatError("its sections overlap")
        rest.difference_update(own)
        if any(fatbin.elements for fatbin in own):
            yield DevicePart(name=name, section=section.name, code=code_of(own))
    if any(fatbin.elements for fatbin in rest):
        yield DevicePart(name=name, section="", code=code_of(rest))
