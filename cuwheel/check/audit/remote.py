"""Facts of a wheel on a server, from parts of it, without a download of the whole.

Read are its table of members, METADATA, the first bytes of each library, which have its symbols,
then the smallest libraries whole, and as much as the budget allows of the next one. How much these
parts show of real wheels: docs/evidence/2026-11-30-parts-of-wheels.md. No hash covers parts.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import struct
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.base.errors import HashMismatchError
from cuwheel.base.fetch.remote_file import PartialCopy
from cuwheel.base.fetch.urls import redact_url
from cuwheel.base.formats.binaries.archs import DeviceCode, is_arch
from cuwheel.base.formats.binaries.elf import Elf, machine_name
from cuwheel.base.formats.binaries.elf_head import ElfHead, read_head
from cuwheel.base.formats.binaries.fatbin import Fatbin, FatbinFinder, code_of
from cuwheel.base.formats.binaries.windows import Windows
from cuwheel.base.formats.wheel.archive import Wheel, check_table, open_wheel
from cuwheel.base.formats.wheel.metadata import is_library
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.quantities import show_size
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import finding
from cuwheel.check.audit.leaked_paths import LeakFinder
from cuwheel.check.audit.rules.library import device_codes
from cuwheel.check.audit.scan import ScannedLibrary, WheelScan, join_codes, read_members
from cuwheel.check.audit.symbols import SymbolNeeds
from cuwheel.check.audit.verdict import AuditResult, ReadParts, audit_wheel

if TYPE_CHECKING:
    from cuwheel.base.formats.wheel.zip_reader import SeekableMember

MOST = 16 << 20  # bytes that are requested of a wheel; a smaller one is read whole
_HASH = re.compile(r"#(?:.*&)?sha256=([0-9a-fA-F]{64})(?:&|$)")
_HEADS = (1 << 16, 1 << 20)  # bytes, packed; the tables of nearly all libraries are in the first
_MOST_LIBRARIES = 32  # each costs requests, and the facts are those of all
_UNPACKED = 256 << 20  # bytes that the parts may unpack to: deflate makes a thousand of one
_HEADER = 1024  # bytes before a member's content, beyond its name; seldom more
_LENGTHS = struct.Struct("<26xHH")  # a member's header: those of its name and of the extra field
# Device code may be in any file but these.
_TEXTS = re.compile(
    r"\.(cc?|cfg|cmake|cpp|css|csv|cuh?|h|hpp|html|inl|ipynb|j2|js|json|md|pc|pxd|pyi?|pyx|rst|sh"
    r"|svg|toml|txt|typed|xml|ya?ml)"
)


def audit_remote(
    url: str, name: str, read_whole: Callable[[Path], AuditResult] = audit_wheel
) -> AuditResult:
    """Read the facts of a wheel on a server; a small one is audited.

    Args:
        url: may end in `#sha256=…`, which a wheel that is read whole is compared with.
        read_whole: reads a small wheel.

    Raises:
        DownloadError: the server can't be read in parts, or fails.
        HashMismatchError: it isn't the file of that hash.
        UnsafeArchiveError: it isn't a wheel, or is damaged.
        OSError: there is no space for the parts.
    """
    with temporary_folder() as folder:
        path = folder / PurePosixPath(name).name
        with contextlib.closing(PartialCopy(url, path, MOST)) as copy:
            if copy.cost(0, copy.size) <= copy.left:
                copy.fetch(0, copy.size)
                _check_hash(path, url)
                return read_whole(path)
            with open_wheel(path, io.BufferedReader(copy)) as wheel:
                check_table(wheel)
                return _PartlyReadWheel(wheel, copy).result()


def _check_hash(path: Path, url: str) -> None:
    """Compare a file with the hash in its address, as index pages give them."""
    if (stated := _HASH.search(url)) and (found := sha256_of_file(path)) != stated[1].lower():
        raise HashMismatchError(
            f"{redact_url(url.partition('#')[0])} is not the file of its hash",
            why=f"its SHA-256 is {found}, the address ends in {stated[1]}",
            fix="take the address from the index once more; if they still differ, don't use the "
            "file, and tell whoever owns the index",
        )


@dataclass
class _Member:
    """A file of the wheel that may hold device code.

    Attributes:
        packed: bytes in the archive.
        head: the tables in its first bytes; None: they weren't found.
        code: of the part that was read.
        is_whole: it was read from end to end.
        library: None if it isn't one, or isn't known.
    """

    content: SeekableMember
    entry: zipfile.ZipInfo
    head: ElfHead | None = None
    code: DeviceCode | None = None
    is_whole: bool = False
    library: ScannedLibrary | None = None

    @property
    def packed(self) -> int:
        return self.entry.compress_size

    @property
    def is_library(self) -> bool:
        return is_library(self.content.name)


@dataclass
class _PartlyReadWheel:
    wheel: Wheel
    copy: PartialCopy
    members: list[_Member] = field(default_factory=list)
    unpacked: int = 0

    def result(self) -> AuditResult:
        """Read what the budget allows, and return what it shows."""
        scan = WheelScan(
            file_name=self.wheel.path.name,
            size=self.copy.size,
            dist_info=self.wheel.dist_info,
            names=self.wheel.names,
            metadata=self.wheel.read_text("METADATA"),
            tags_text=self.wheel.read_text("WHEEL"),
        )
        members = (
            _Member(content=member, entry=self.wheel.archive.getinfo(member.name))
            for member in self.wheel.members(self.copy.fileno())
            if not self._is_text(member.name)
        )
        self.members = sorted(members, key=lambda member: (not member.is_library, member.packed))
        if sum(member.is_library for member in self.members) <= _MOST_LIBRARIES:
            for size in _HEADS:
                self._read_heads(size)
            self._read_whole()
            self._read_code()
        return self._judge(scan)

    def _is_text(self, name: str) -> bool:
        path = PurePosixPath(name)
        return bool(_TEXTS.fullmatch(path.suffix)) or path.parts[0] == self.wheel.dist_info

    def _fetch(self, member: _Member, packed: int) -> bool:
        """Copy the first bytes of a member; return False where that is too much."""
        begin, size = member.entry.header_offset, min(packed, member.packed)
        guess = len(member.entry.orig_filename) + _HEADER + size
        if not self._copy(begin, guess):
            return False
        lengths = _LENGTHS.unpack(os.pread(self.copy.fileno(), _LENGTHS.size, begin))
        return self._copy(begin, _LENGTHS.size + sum(lengths) + size)

    def _copy(self, begin: int, size: int) -> bool:
        """Copy a part; return False where that is too much."""
        if self.copy.cost(begin, size) > self.copy.left:
            return False
        self.copy.fetch(begin, size)
        return True

    def _head(self, member: _Member, packed: int) -> bytes:
        content = member.content.head(packed, max(0, _UNPACKED - self.unpacked))
        self.unpacked += len(content)
        return content

    def _read_heads(self, packed: int) -> None:
        for member in self.members:
            if member.is_library and not member.head and self._fetch(member, packed):
                member.head = read_head(self._head(member, packed))

    def _read_whole(self) -> None:
        for member in self.members:
            size = member.content.size
            if self.unpacked + size > _UNPACKED or not self._fetch(member, member.packed):
                return
            self.unpacked += size
            for reading in read_members([member.content], LeakFinder(())):
                member.library, member.code = reading.library, reading.code
                member.is_whole = True

    def _read_code(self) -> None:
        """Read the first unread library as far as the budget goes."""
        member = next((one for one in self.members if not one.is_whole and one.is_library), None)
        packed = self.copy.left - self.copy.left % _HEADS[0] - _HEADS[0]
        if member is None or packed <= 0 or not self._fetch(member, packed):
            return
        finder = FatbinFinder(member.content.size)
        for window in Windows().feed(self._head(member, packed)):
            finder.search(window)
        code = code_of([*finder.found, Fatbin(0, 0, finder.unfinished)])
        # Which section it is in isn't known: PTX and the packing may be those of the device link's
        # input alone, and no GPU runs that.
        sass = tuple(filter(is_arch, code.sass))
        member.code = DeviceCode(sass=sass) if sass else None

    def _judge(self, scan: WheelScan) -> AuditResult:
        libraries = [library for member in self.members if (library := _library_of(member))]
        files = {
            member.content.name: member.code
            for member in self.members
            if member.code and not member.is_library
        }
        scan = WheelScan(
            **{**vars(scan), "libraries": tuple(libraries), "device_files": files},
        )
        case = AuditCase(scan=scan, contract=None)
        named = [member for member in self.members if member.is_library]
        has_symbols = all(member.is_whole or member.head for member in named)
        is_cuda_known = has_symbols and all(
            member.is_whole or case.majors.get(member.content.name) for member in named
        )
        parts = ReadParts(
            received=self.copy.received,
            size=self.copy.size,
            is_all_code_known=all(member.is_whole for member in self.members),
        )
        amount = f"{show_size(parts.received)} of {show_size(parts.size)}"
        fact = f"{amount} were read for the facts, and no hash covers parts"
        return AuditResult(
            case=case,
            findings=(finding(scan.file_name, "not checked", fact, "note"),),
            majors=case.cuda if is_cuda_known else (),
            code=join_codes(code for _, code in device_codes(case)),
            min_driver=case.drivers if is_cuda_known else (),
            torch=SymbolNeeds(case=case).loads_with() if case.is_read and has_symbols else None,
            parts=parts,
        )


def _library_of(member: _Member) -> ScannedLibrary | None:
    if member.is_whole or not member.is_library:
        return member.library
    elf = _elf_of(member.head) if member.head else None
    return ScannedLibrary(
        name=member.content.name,
        elf=elf,
        device_code=member.code,
        undefined=member.head.undefined if member.head else (),
        exports=member.head.exports if member.head else None,
    )


def _elf_of(head: ElfHead) -> Elf:
    """Return the facts of a library's first bytes; `needed` has libraries with versions alone."""
    return Elf(
        machine=machine_name(head.machine),
        abi=0,
        flags=0,
        is_linked=True,
        is_dynamic=True,
        soname="",
        needed=_distinct(library for library, _ in head.versions),
        rpath=(),
        runpath=(),
        versions=head.versions,
        defined_versions=(),
        sections=(),
        has_executable_stack=False,
        has_text_relocations=False,
        relro="none",
        python_modules=(),
        uses_dlopen=False,
        driver_functions=(),
        torch_symbols=(),
        nvjitlink_functions=(),
        runtime_functions=(),
        is_program=False,
        interpreter="",
        refuses_import="",
        has_writable_code=False,
        static_tls=0,
        instruction_set="",
        page_size=0,
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
