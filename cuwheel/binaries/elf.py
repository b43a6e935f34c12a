"""What the dynamic loader and the auditor need to know of an ELF file."""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

from cuwheel import limits
from cuwheel.binaries.elf_image import MAGIC, ElfFormatError, ElfImage, search_entries
from cuwheel.binaries.instruction_set import instruction_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


__all__ = ["Elf", "ElfFormatError", "Section", "is_elf", "read_elf", "read_soname"]

Relro = Literal["full", "partial", "none"]

_LINKED_KINDS = (2, 3)  # ET_EXEC, ET_DYN
_CUDA_MACHINE = "EM_CUDA"
# As the ELF registry has them; others are named by their number.
_MACHINES = {
    3: "EM_386",
    21: "EM_PPC64",
    22: "EM_S390",
    40: "EM_ARM",
    62: "EM_X86_64",
    183: "EM_AARCH64",
    190: _CUDA_MACHINE,
    224: "EM_AMDGPU",
    243: "EM_RISCV",
}
_FLAG_EXECUTE = 1  # PF_X, System V ABI, "Program Header"
_LOAD = 1  # PT_LOAD
_STACK = 0x6474E551  # PT_GNU_STACK
_RELRO = 0x6474E552  # PT_GNU_RELRO
_DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM

# System V ABI, "Dynamic Section"; those of versions: Linux Standard Base, "Symbol Versioning".
_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_STRINGS, _STRINGS_SIZE, _SYMBOLS = 5, 10, 6
_TEXT_RELOCATIONS, _BIND_NOW = 22, 24
_FLAGS, _FLAGS_1 = 30, 0x6FFFFFFB
_VERSIONS, _VERSIONS_COUNT = 0x6FFFFFFE, 0x6FFFFFFF
_FLAG_TEXT_RELOCATIONS, _FLAG_BIND_NOW, _FLAG_1_NOW = 4, 8, 1

_MODULE_START = b"PyInit_"  # PEP 489: the one symbol that an import looks for
_LOADERS = (b"dlopen", b"dlmopen")
_DRIVER_FUNCTION = re.compile(rb"(?<=\0)cu[A-Z]\w*(?=\0)")
# Mangled names in the namespaces of PyTorch (Itanium C++ ABI, "External Names").
_TORCH_SYMBOL = re.compile(rb"(?<=\0)_Z(?:T[VIST])?N?[VrK]*[RO]?(?:2at|3c10|5torch)\w*(?=\0)")
_INTERFACES = (("libcuda.so.1", _DRIVER_FUNCTION), (("libtorch", "libc10"), _TORCH_SYMBOL))
_CHUNK = 1 << 20  # bytes
_KEPT = 128  # bytes that a name takes in memory, beside its own
_ENTRY_SIZE = 16  # bytes, of an entry of either list of versions


@dataclass(frozen=True, kw_only=True)
class Section:
    """Where a section lies in its file: its name, and offset and size in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Elf:
    """An ELF file.

    Attributes:
        machine: e.g. `EM_X86_64`; a bare cubin says `EM_CUDA`.
        abi: version of the ABI, from the header; of interest in a cubin.
        flags: the machine's own, from the header; in a cubin they hold the arch.
        is_linked: a shared library or a program, not an object file.
        is_dynamic: the dynamic loader has something to do for it.
        soname: `DT_SONAME`, empty where there is none.
        needed: `DT_NEEDED`, in the file's order.
        rpath: entries of `DT_RPATH`.
        runpath: entries of `DT_RUNPATH`; the loader ignores `DT_RPATH` where there is one.
        versions: library and symbol version that it needs, e.g. `("libc.so.6", "GLIBC_2.34")`.
        sections: every section that has bytes in the file.
        has_executable_stack: it requires one, or doesn't state which stack it needs,
            which glibc takes for the same (`DEFAULT_STACK_PERMS`).
        has_text_relocations: the loader has to write into its code.
        relro: what the loader makes read-only after it has bound the symbols: all of its tables
            (`full`), all but those for calls (`partial`), nothing.
        python_modules: names under which Python can import it, from its `PyInit_` symbols.
        uses_dlopen: it calls `dlopen` or `dlmopen`, so it may need more than `needed` says.
        driver_functions: of the CUDA driver that it needs, `cuMemAlloc_v2`; searched where it
            needs `libcuda.so.1`.
        torch_symbols: of PyTorch's C++ interface that it needs, mangled; searched where it needs
            a library of PyTorch's.
        instruction_set: the level of x86-64 that it says it needs, `x86-64-v3`; empty: none.
        page_size: the largest pages of memory with which the loader maps it, bytes (glibc,
            elf/dl-map-segments.h and dl-load.c); 0 where there is nothing to map.
    """

    machine: str
    abi: int
    flags: int
    is_linked: bool
    is_dynamic: bool
    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    has_executable_stack: bool
    has_text_relocations: bool
    relro: Relro
    python_modules: tuple[str, ...]
    uses_dlopen: bool
    driver_functions: tuple[str, ...]
    torch_symbols: tuple[str, ...]
    instruction_set: str
    page_size: int

    @property
    def search_path(self) -> tuple[str, ...]:
        """The entries that the loader really searches."""
        return self.runpath or self.rpath

    @property
    def is_host_code(self) -> bool:
        """Whether strip and patchelf may touch it: linked, and not for the GPU."""
        return self.is_linked and self.machine != _CUDA_MACHINE

    @property
    def is_cubin(self) -> bool:
        """Whether it is code for the GPU."""
        return self.machine == _CUDA_MACHINE

    def section(self, name: str) -> Section | None:
        """The section of that name, or None."""
        return next((section for section in self.sections if section.name == name), None)


def is_elf(stream: IO[bytes]) -> bool:
    """Whether a stream begins as an ELF file does; the stream is left at its start."""
    stream.seek(0)
    start = stream.read(len(MAGIC))
    stream.seek(0)
    return start == MAGIC


def read_elf(stream: IO[bytes]) -> Elf:
    """Read an ELF file from a seekable stream, without loading it into memory.

    Everything that the loader uses is read as the loader reads it, from the program headers, so
    that a file without section headers gives the same.

    Raises:
        ElfFormatError: it isn't ELF, or is damaged.
    """
    try:
        return _read(ElfImage(stream))
    except (ElfFormatError, struct.error) as problem:
        raise ElfFormatError(f"not a valid ELF file: {problem}") from None


def read_soname(stream: IO[bytes]) -> str:
    """What a library calls itself, without reading its symbols; empty where it doesn't.

    Raises:
        ElfFormatError: it isn't ELF, or is damaged.
    """
    try:
        image = ElfImage(stream)
        tags = dict(image.tags())
        if _SONAME not in tags or _STRINGS not in tags:
            return ""
        return image.name(image.offset_of(tags[_STRINGS]) + tags[_SONAME])
    except (ElfFormatError, struct.error) as problem:
        raise ElfFormatError(f"not a valid ELF file: {problem}") from None


def _read(image: ElfImage) -> Elf:
    tags: defaultdict[int, list[int]] = defaultdict(list)
    for tag, value in image.tags():
        tags[tag].append(value)
    flags = _first(tags, _FLAGS)
    strings = image.offset_of(tags[_STRINGS][0]) if tags[_STRINGS] else 0

    def texts(tag: int) -> tuple[str, ...]:
        return tuple(image.name(strings + offset) for offset in tags[tag])

    needed = texts(_NEEDED)
    stack = [segment.flags for segment in image.segments if segment.kind == _STACK]
    patterns = [
        pattern
        for libraries, pattern in _INTERFACES
        if any(soname.startswith(libraries) for soname in needed)
    ]
    symbols = _symbol_facts(image, tags, strings, patterns)
    return Elf(
        machine=_MACHINES.get(image.machine, str(image.machine)),
        abi=image.abi,
        flags=image.flags,
        is_linked=image.kind in _LINKED_KINDS,
        is_dynamic=bool(tags),
        soname="".join(texts(_SONAME)[:1]),
        needed=needed,
        rpath=search_entries(texts(_RPATH)),
        runpath=search_entries(texts(_RUNPATH)),
        versions=tuple(_versions(image, tags, strings)),
        sections=tuple(_sections(image)),
        has_executable_stack=bool(tags) and (not stack or bool(stack[0] & _FLAG_EXECUTE)),
        has_text_relocations=bool(tags[_TEXT_RELOCATIONS] or flags & _FLAG_TEXT_RELOCATIONS),
        relro=_relro(image, tags),
        python_modules=symbols.modules,
        uses_dlopen=symbols.uses_dlopen,
        driver_functions=symbols.driver_functions,
        torch_symbols=symbols.torch_symbols,
        instruction_set=instruction_set(image),
        page_size=_page_size(image),
    )


def _first(tags: defaultdict[int, list[int]], tag: int) -> int:
    return next(iter(tags[tag]), 0)


def _page_size(image: ElfImage) -> int:
    """The loader wants each part aligned to a page, and as far from its place in the file."""
    loads = [segment for segment in image.segments if segment.kind == _LOAD]
    sizes = [segment.alignment for segment in loads]
    # The largest power of two that divides a distance.
    shifts = [segment.address - segment.offset for segment in loads]
    return min((*sizes, *(shift & -shift for shift in shifts if shift)), default=0)


def _relro(image: ElfImage, tags: defaultdict[int, list[int]]) -> Relro:
    if not any(segment.kind == _RELRO for segment in image.segments):
        return "none"
    is_bound = (
        tags[_BIND_NOW]
        or _first(tags, _FLAGS) & _FLAG_BIND_NOW
        or _first(tags, _FLAGS_1) & _FLAG_1_NOW
    )
    return "full" if is_bound else "partial"


def _versions(
    image: ElfImage, tags: defaultdict[int, list[int]], strings: int
) -> Iterator[tuple[str, str]]:
    """Two chained lists: libraries, and for each the versions that are needed of it."""
    if not tags[_VERSIONS]:
        return
    offset, known = image.offset_of(tags[_VERSIONS][0]), 0
    for _ in range(_first(tags, _VERSIONS_COUNT)):
        _, count, library, first, step = image.unpack("HHIII", offset)
        name = image.name(strings + library)
        known += count + 1
        if known > limits.ELF_VERSIONS:  # lists can overlap, so that a small file names billions
            raise ElfFormatError(f"it needs more than {limits.ELF_VERSIONS:,} symbol versions")
        for version in _chained_versions(image, offset + first, count):
            yield name, image.name(strings + version)
        if step < _ENTRY_SIZE:
            return
        offset += step


def _chained_versions(image: ElfImage, offset: int, count: int) -> Iterator[int]:
    for _ in range(count):
        _, _, _, version, step = image.unpack("IHHII", offset)
        yield version
        if step < _ENTRY_SIZE:
            return
        offset += step


def _sections(image: ElfImage) -> Iterator[Section]:
    names = image.section_names()
    for section in image.sections:
        if section.is_in_file:
            yield Section(
                name=names.get(section.name, ""), offset=section.offset, size=section.size
            )


class _SymbolFacts(NamedTuple):
    """Python modules that a file defines, and what it needs of the loader and of the driver."""

    modules: tuple[str, ...] = ()
    uses_dlopen: bool = False
    driver_functions: tuple[str, ...] = ()
    torch_symbols: tuple[str, ...] = ()


class _Names(NamedTuple):
    """Where names of interest lie in the table of names."""

    modules: dict[int, str]
    interfaces: dict[int, str]
    loaders: set[int]


def _symbol_facts(
    image: ElfImage,
    tags: defaultdict[int, list[int]],
    strings: int,
    patterns: Sequence[re.Pattern[bytes]],
) -> _SymbolFacts:
    """What the symbols state.

    Few of a million names are of interest, so those are searched in the table of names, and the
    symbols are only compared by where their names lie.
    """
    if not (tags[_SYMBOLS] and tags[_STRINGS]):
        return _SymbolFacts()
    size = _first(tags, _STRINGS_SIZE)
    names = _names_of_interest(image, strings, size, patterns)
    if not any(names):
        return _SymbolFacts()
    table = image.offset_of(tags[_SYMBOLS][0])
    modules: set[str] = set()
    needed: set[str] = set()
    uses_dlopen = False
    for name, section in image.symbols(table, symbols_size(image, table, strings)):
        if name in names.modules and section:
            modules.add(names.modules[name])
        elif name in names.loaders and not section:
            uses_dlopen = True
        elif name in names.interfaces and not section:
            needed.add(names.interfaces[name])
    return _SymbolFacts(
        modules=tuple(sorted(modules)),
        uses_dlopen=uses_dlopen,
        driver_functions=tuple(sorted(one for one in needed if not one.startswith("_Z"))),
        torch_symbols=tuple(sorted(one for one in needed if one.startswith("_Z"))),
    )


def _names_of_interest(
    image: ElfImage, start: int, size: int, patterns: Sequence[re.Pattern[bytes]]
) -> _Names:
    modules: dict[int, str] = {}
    interfaces: dict[int, str] = {}
    loaders: set[int] = set()
    kept = 0
    for offset in range(0, size, _CHUNK):
        text = image.read(start + offset, min(_CHUNK + limits.ELF_NAME, size - offset))
        for found in _offsets(text, _MODULE_START):
            end = text.find(b"\0", found, found + limits.ELF_NAME)
            name = text[found + len(_MODULE_START) : max(end, found)]
            modules[offset + found] = name.decode("utf-8", "replace")
            kept += len(name) + _KEPT
            _check_kept(kept)
        for loader in _LOADERS:
            # A linker lets a name be the end of another one.
            loaders.update(offset + found for found in _offsets(text, loader + b"\0"))
            kept += text.count(loader) * _KEPT
        for pattern in patterns:
            for match in pattern.finditer(text):
                interfaces[offset + match.start()] = match[0].decode()
                kept += len(match[0]) + _KEPT
                _check_kept(kept)
    return _Names(modules, interfaces, loaders)


def _check_kept(size: int) -> None:
    if size > limits.ELF_NAMES:
        raise ElfFormatError(f"its names take more than {limits.ELF_NAMES} bytes")


def _offsets(text: bytes, part: bytes) -> Iterator[int]:
    offset = text.find(part)
    while offset >= 0:
        yield offset
        offset = text.find(part, offset + 1)


def symbols_size(image: ElfImage, table: int, strings: int) -> int:
    """Bytes of the table of symbols; without section headers, up to the names behind it."""
    for section in image.sections:
        if section.kind == _DYNAMIC_SYMBOLS:
            return section.size
    return max(0, strings - table)
