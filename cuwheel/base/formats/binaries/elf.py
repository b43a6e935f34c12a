"""Facts of an ELF file for the dynamic loader and the audit."""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import IO, Literal

from cuwheel.base import limits
from cuwheel.base.formats.binaries.elf_image import (
    MAGIC,
    NEEDED,
    RPATH,
    RUNPATH,
    STRINGS,
    STRINGS_SIZE,
    SYMBOLS,
    ElfFormatError,
    ElfImage,
    read_notes,
)

__all__ = ["Elf", "ElfFormatError", "Section", "is_elf", "machine_name", "read_elf"]

Relro = Literal["full", "partial", "none"]

_OBJECT = 1  # ET_REL
_LINKED_KINDS = (2, 3)  # ET_EXEC, ET_DYN
_PROGRAM = 2  # ET_EXEC
_CUDA_MACHINE = "EM_CUDA"
# Names of the ELF registry; other machines are named by their number.
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
_FLAG_EXECUTE, _FLAG_WRITE = 1, 2  # PF_X, PF_W, System V ABI, "Program Header"
_LOAD = 1  # PT_LOAD
_INTERPRETER = 3  # PT_INTERP
_TLS = 7  # PT_TLS
_STACK = 0x6474E551  # PT_GNU_STACK
_RELRO = 0x6474E552  # PT_GNU_RELRO
_NOTES = 4  # PT_NOTE
_X86_64 = 62
_CHECKED = (_X86_64, 183)  # machines of which the loader's OS ABIs are known
# ELFOSABI_NONE and ELFOSABI_GNU are accepted (glibc, sysdeps/gnu/ldsodefs.h).
_SYSTEMS = {0: "", 2: "NetBSD", 3: "", 6: "Solaris", 9: "FreeBSD", 12: "OpenBSD"}
_PROPERTIES = (b"GNU\0", 5)  # NT_GNU_PROPERTY_TYPE_0
_LEVEL_NEEDED = 0xC0008002  # GNU_PROPERTY_X86_ISA_1_NEEDED
_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))
_PROPERTY = struct.Struct("<II")
_PROPERTY_ALIGN = 8  # bytes, in files of 64 bits
_NOTES_MAX = 1 << 20  # bytes
_BOTH = _FLAG_EXECUTE | _FLAG_WRITE

# System V ABI, "Dynamic Section"; those of versions: Linux Standard Base, "Symbol Versioning".
_TEXT_RELOCATIONS, _BIND_NOW = 22, 24
_FLAGS, _FLAGS_1 = 30, 0x6FFFFFFB
_VERSIONS, _VERSIONS_COUNT = 0x6FFFFFFE, 0x6FFFFFFF
_DEFINED, _DEFINED_COUNT = 0x6FFFFFFC, 0x6FFFFFFD
_FLAG_TEXT_RELOCATIONS, _FLAG_BIND_NOW, _FLAG_1_NOW = 4, 8, 1
_FLAG_STATIC_TLS, _FLAG_1_PIE, _FLAG_1_NO_OPEN = 0x10, 0x08000000, 0x40
_FILTER = 0x7FFFFFFF
_INIT_ARRAY, _INIT_ARRAY_SIZE, _RELATIVE_TABLE = 25, 27, 36
_CONSTRUCTORS = 64  # of a file that are read
_CONSTRUCTOR = 48  # bytes of each
# `stmxcsr`, 0x8040 (FTZ and DAZ), `ldmxcsr`, on the stack; before it no return and no jump.
_FAST_MATH = re.compile(
    rb"[^\xc3\xe9\xeb]{0,12}\x0f\xae[\x58-\x5f].{1,16}\x40\x80\0\0.{0,12}?\x0f\xae[\x50-\x57]",
    re.DOTALL,
)

_MODULE_START = "PyInit_"  # PEP 489: the symbol that an import requires
_LOADERS = ("dlopen", "dlmopen")
# Each pattern begins with a constant, so that the search is fast; together they wouldn't.
_OWN_NAMES = (rb"(PyInit_[^\0]{0,%d})" % limits.ELF_NAME, rb"(dlm?open)(?=\0)")
# Functions of the driver, the runtime and nvJitLink, and mangled names in PyTorch's namespaces
# (Itanium C++ ABI, "External Names"): searched where a library with this start is needed.
_INTERFACES = (
    ("libcuda.so.1", rb"\0(cu[A-Z]\w*)(?=\0)"),
    (
        ("libtorch", "libc10"),
        rb"\0(_Z(?:T[VIST])?N?[VrK]*[RO]?(?:2at|3c10|5torch)\w*)(?=\0)",
    ),
    ("libnvJitLink.so", rb"\0(__nvJitLink\w+)(?=\0)"),
    ("libcudart.so", rb"\0(cuda[A-Z]\w*)(?=\0)"),
)
_CHUNK = 1 << 20  # bytes
_KEPT = 128  # bytes of memory for a name, in addition to its own
_ENTRY_SIZE = 16  # bytes, of an entry of either list of versions


@dataclass(frozen=True, kw_only=True)
class Section:
    """Section with its name, and its offset and size in the file, in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Elf:
    """An ELF file.

    Attributes:
        machine: e.g. `EM_X86_64`; `EM_CUDA` for a bare cubin.
        abi: version of the ABI, from the header; of interest in a cubin.
        flags: the machine's own, from the header; in a cubin they hold the arch.
        soname: `DT_SONAME`, empty where there is none.
        needed: `DT_NEEDED`, in the file's order, and `DT_FILTER`, which are opened likewise.
        rpath: entries of `DT_RPATH`.
        runpath: entries of `DT_RUNPATH`; the loader ignores `DT_RPATH` where there is one.
        versions: library and symbol version that it needs, e.g. `("libc.so.6", "GLIBC_2.34")`.
        defined_versions: symbol versions that it defines, its soname the first of them.
        sections: every section that has bytes in the file.
        has_executable_stack: it requires one, or doesn't state which stack it needs,
            which glibc takes for the same (`DEFAULT_STACK_PERMS`).
        relro: what the loader makes read-only after it has bound the symbols: all of its tables
            (`full`), all but those for calls (`partial`), nothing.
        python_modules: names under which Python can import it, from its `PyInit_` symbols.
        uses_dlopen: it calls `dlopen` or `dlmopen`, so `needed` may be incomplete.
        driver_functions: of the CUDA driver that it needs, `cuMemAlloc_v2`; searched where it
            needs `libcuda.so.1`.
        torch_symbols: of PyTorch's C++ interface that it needs, mangled; searched where it needs
            a library of PyTorch's.
        nvjitlink_functions: of nvJitLink that it needs, which have a release in their names.
        runtime_functions: of the CUDA runtime, `cudaMalloc`, likewise.
        is_program: it is started, not loaded.
        interpreter: the loader of a program; of some libraries too.
        refuses_import: why `dlopen` refuses it; empty: it doesn't.
        refuses_load: why the loader refuses it in any case; empty: it doesn't.
        has_writable_code: a part of its memory can be written and executed.
        static_tls: bytes of thread-local data that it needs in the block that a process reserves
            when it starts; 0 where it doesn't say so (`DF_STATIC_TLS`).
        instruction_set: the required level of x86-64, `x86-64-v3`; empty: none is stated.
        page_size: the largest pages of memory with which the loader maps it, bytes (glibc,
            elf/dl-map-segments.h and dl-load.c); 0 where there is nothing to map.
        has_relative_table: it has `DT_RELR`, which glibc ignores before 2.36 (its NEWS).
        is_fast_math: it sets denormal numbers to zero when it is loaded (gcc's crtfastmath.o).
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
    defined_versions: tuple[str, ...]
    sections: tuple[Section, ...]
    has_executable_stack: bool
    has_text_relocations: bool
    relro: Relro
    python_modules: tuple[str, ...]
    uses_dlopen: bool
    driver_functions: tuple[str, ...]
    torch_symbols: tuple[str, ...]
    nvjitlink_functions: tuple[str, ...]
    runtime_functions: tuple[str, ...]
    is_program: bool
    interpreter: str
    refuses_import: str
    has_writable_code: bool
    static_tls: int
    instruction_set: str
    page_size: int
    has_relative_table: bool = False
    is_fast_math: bool = False
    refuses_load: str = ""

    @property
    def search_path(self) -> tuple[str, ...]:
        """Entries that the loader searches."""
        return self.runpath or self.rpath

    @property
    def is_host_code(self) -> bool:
        """True if strip and patchelf may change it: linked, and not for the GPU."""
        return self.is_linked and self.machine not in (_CUDA_MACHINE, "EM_AMDGPU")

    @property
    def is_cubin(self) -> bool:
        """True if it is code for the GPU."""
        return self.machine == _CUDA_MACHINE

    def section(self, name: str) -> Section | None:
        """Return the section of that name, or None."""
        return next((section for section in self.sections if section.name == name), None)


def machine_name(number: int) -> str:
    """Return the name of a machine, by its number in the ELF registry."""
    return _MACHINES.get(number, str(number))


def is_elf(stream: IO[bytes]) -> bool:
    """Return True if a stream begins as an ELF file does; rewind it to its start."""
    stream.seek(0)
    start = stream.read(len(MAGIC))
    stream.seek(0)
    return start == MAGIC


def read_elf(stream: IO[bytes]) -> Elf:
    """Read an ELF file from a seekable stream, without loading it into memory.

    All facts for the loader are read as the loader reads them, from the program headers, so that a
    file without section headers gives the same.

    Raises:
        ElfFormatError: it isn't ELF, or is damaged.
    """
    try:
        return _read(ElfImage(stream))
    except ElfFormatError as problem:
        raise ElfFormatError(f"not a valid ELF file: {problem}") from None


def _read(image: ElfImage) -> Elf:
    tags = image.dynamic
    needed = (*image.texts(NEEDED), *image.texts(_FILTER))
    stack = [segment.flags for segment in image.segments if segment.kind == _STACK]
    modules, uses_dlopen, interfaces = _symbol_facts(image, needed)
    names = image.section_names()
    return Elf(
        machine=machine_name(image.machine),
        abi=image.abi,
        flags=image.flags,
        is_linked=image.kind in _LINKED_KINDS,
        is_dynamic=bool(tags),
        soname=image.soname,
        needed=needed,
        rpath=image.search_entries(RPATH),
        runpath=image.search_entries(RUNPATH),
        versions=tuple(_versions(image)),
        defined_versions=tuple(_defined_versions(image)),
        sections=tuple(
            Section(name=names.get(section.name, ""), offset=section.offset, size=section.size)
            for section in image.sections
            if section.is_in_file
        ),
        has_executable_stack=bool(tags) and (not stack or bool(stack[0] & _FLAG_EXECUTE)),
        has_text_relocations=bool(
            tags[_TEXT_RELOCATIONS] or image.first(_FLAGS) & _FLAG_TEXT_RELOCATIONS
        ),
        relro=_relro(image),
        python_modules=tuple(sorted(modules)),
        uses_dlopen=uses_dlopen,
        driver_functions=_named(interfaces, r"cu(?!da[A-Z])"),
        torch_symbols=_named(interfaces, "_Z"),
        nvjitlink_functions=_named(interfaces, "__nv"),
        runtime_functions=_named(interfaces, "cuda[A-Z]"),
        is_program=_is_program(image),
        interpreter=_interpreter(image),
        refuses_import=_refusal(image),
        has_writable_code=any(
            segment.kind == _LOAD and segment.flags & _BOTH == _BOTH for segment in image.segments
        ),
        static_tls=_static_tls(image),
        instruction_set=_instruction_set(image),
        page_size=_page_size(image),
        has_relative_table=bool(tags[_RELATIVE_TABLE]),
        is_fast_math=image.machine == _X86_64 and image.is_wide and _is_fast_math(image),
        refuses_load=_fault(image),
    )


def _named(names: Iterable[str], start: str) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if re.match(start, name)))


def _is_program(image: ElfImage) -> bool:
    """Return True for a program; some libraries have an interpreter too, which prints a version."""
    has_interpreter = any(segment.kind == _INTERPRETER for segment in image.segments)
    return image.kind == _PROGRAM or (has_interpreter and _is_executable(image))


def _is_executable(image: ElfImage) -> bool:
    return image.kind == _PROGRAM or bool(image.first(_FLAGS_1) & _FLAG_1_PIE)


def _interpreter(image: ElfImage) -> str:
    found = (segment for segment in image.segments if segment.kind == _INTERPRETER)
    return next((image.name(segment.offset) for segment in found), "")


def _refusal(image: ElfImage) -> str:
    """Return what of a file the loader refuses in `dlopen` (glibc, elf/dl-load.c)."""
    if image.first(_FLAGS_1) & _FLAG_1_NO_OPEN:
        return "it is linked with -z nodlopen"
    return "it is linked as a program (-pie), not with -shared" if _is_executable(image) else ""


def _fault(image: ElfImage) -> str:
    """Return why the loader maps no part of a file for the host (glibc, elf/dl-load.c)."""
    if image.machine not in _CHECKED:
        return ""
    if image.kind == _OBJECT:
        return "it is an object file (ET_REL), which was never linked"
    if not any(segment.kind == _LOAD for segment in image.segments):
        return "it has no loadable segments in its program headers"
    loads = [segment for segment in image.segments if segment.kind == _LOAD and segment.alignment]
    if any((segment.address - segment.offset) % segment.alignment for segment in loads):
        return "ELF load command address/offset not page-aligned"
    system = _SYSTEMS.get(image.system, str(image.system))
    return f"its OS ABI is that of {system}: ELF file OS ABI invalid" if system else ""


def _static_tls(image: ElfImage) -> int:
    if not image.first(_FLAGS) & _FLAG_STATIC_TLS:
        return 0
    return sum(segment.memory for segment in image.segments if segment.kind == _TLS)


def _is_fast_math(image: ElfImage) -> bool:
    """Return True if a constructor of the file sets the processor's modes for denormal numbers."""
    start = image.offset_of_tag(_INIT_ARRAY)
    size = min(image.first(_INIT_ARRAY_SIZE), _CONSTRUCTORS * 8)
    places = (place for (place,) in image.records("Q", start, size) if start)
    for place in filter(None, places):
        with contextlib.suppress(ElfFormatError):  # others are filled in by relocations
            if _FAST_MATH.match(image.read(image.offset_of(place), _CONSTRUCTOR)):
                return True
    return False


def _page_size(image: ElfImage) -> int:
    loads = [segment for segment in image.segments if segment.kind == _LOAD]
    sizes = [segment.alignment for segment in loads]
    # The distance of address and offset has to be a multiple too: `shift & -shift` is the largest
    # power of two that divides it.
    shifts = [segment.address - segment.offset for segment in loads]
    return min((*sizes, *(shift & -shift for shift in shifts if shift)), default=0)


def _relro(image: ElfImage) -> Relro:
    if not any(segment.kind == _RELRO for segment in image.segments):
        return "none"
    is_bound = (
        image.dynamic[_BIND_NOW]
        or image.first(_FLAGS) & _FLAG_BIND_NOW
        or image.first(_FLAGS_1) & _FLAG_1_NOW
    )
    return "full" if is_bound else "partial"


def _instruction_set(image: ElfImage) -> str:
    """Return the level of x86-64 in the notes that compilers and linkers leave.

    "Linux Extensions to gABI" and x86-64 psABI, chapters "Program Property".
    """
    needed = 0
    for segment in image.segments if image.machine == _X86_64 and image.is_wide else ():
        if segment.kind == _NOTES and segment.alignment == _PROPERTY_ALIGN:
            data = image.read(segment.offset, min(segment.size, _NOTES_MAX))
            for owner, kind, content in read_notes(data, _PROPERTY_ALIGN):
                if (owner, kind) == _PROPERTIES:
                    needed |= _needed_levels(content)
    return next((name for bit, name in _LEVELS if needed & bit), "")


def _needed_levels(properties: bytes) -> int:
    offset = 0
    while offset + _PROPERTY.size <= len(properties):
        kind, size = _PROPERTY.unpack_from(properties, offset)
        offset += _PROPERTY.size
        if kind == _LEVEL_NEEDED:
            return int.from_bytes(properties[offset : offset + min(size, 4)], "little")
        offset += -(-size // _PROPERTY_ALIGN) * _PROPERTY_ALIGN
    return 0


def _versions(image: ElfImage) -> Iterator[tuple[str, str]]:
    """Yield libraries with the versions that are needed of them, from two-level chained lists."""
    known = 0
    libraries = _chain(image, "HHIII", image.offset_of_tag(_VERSIONS), image.first(_VERSIONS_COUNT))
    for offset, (_, count, library, first, _) in libraries:
        name = image.name(image.strings + library)
        known += count + 1
        if known > limits.ELF_VERSIONS:  # lists can overlap, so that a small file names billions
            raise ElfFormatError(f"it needs more than {limits.ELF_VERSIONS:,} symbol versions")
        for _, (_, _, _, version, _) in _chain(image, "IHHII", offset + first, count):
            yield name, image.name(image.strings + version)


def _defined_versions(image: ElfImage) -> Iterator[str]:
    """Yield the versions that a file defines, each the first name of its entry."""
    count = min(image.first(_DEFINED_COUNT), limits.ELF_VERSIONS)
    entries = _chain(image, "HHHHIII", image.offset_of_tag(_DEFINED), count)
    for offset, (_, _, _, _, _, names, _) in entries:
        name, _ = image.unpack("II", offset + names)
        yield image.name(image.strings + name)


def _chain(
    image: ElfImage, form: str, offset: int, count: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the entries of a list, with their offsets; the last field leads to the next one."""
    for _ in range(count if offset else 0):
        entry = image.unpack(form, offset)
        yield offset, entry
        if entry[-1] < _ENTRY_SIZE:
            return
        offset += entry[-1]


def _symbol_facts(image: ElfImage, needed: tuple[str, ...]) -> tuple[set[str], bool, set[str]]:
    """Return the Python modules that a file defines, if it calls the loader, and its other needs.

    Few of a million names are of interest, so those are searched in the table of names, and the
    symbols are only compared by the offsets of their names.
    """
    modules: set[str] = set()
    others: set[str] = set()
    has_symbols = image.dynamic[SYMBOLS] and image.dynamic[STRINGS]
    names = _names_of_interest(image, needed) if has_symbols else {}
    for offset, section in image.symbols() if names else ():
        name = names.get(offset, "")
        if section and name.startswith(_MODULE_START):
            modules.add(name.removeprefix(_MODULE_START))
        elif not section and not name.startswith(_MODULE_START):
            others.add(name)
    return modules, not others.isdisjoint(_LOADERS), others - {"", *_LOADERS}


def _names_of_interest(image: ElfImage, needed: tuple[str, ...]) -> dict[int, str]:
    """Return names by their offset in the table of names; one may be the end of another."""
    interfaces = [
        pattern
        for libraries, pattern in _INTERFACES
        if any(soname.startswith(libraries) for soname in needed)
    ]
    patterns = [re.compile(pattern) for pattern in (*_OWN_NAMES, *interfaces)]
    size, memory, names = image.first(STRINGS_SIZE), 0, {}
    for offset in range(0, size, _CHUNK):
        text = image.read(image.strings + offset, min(_CHUNK + limits.ELF_NAME, size - offset))
        for match in chain.from_iterable(pattern.finditer(text) for pattern in patterns):
            names[offset + match.start(1)] = match[1].decode("utf-8", "replace")
            memory += len(match[1]) + _KEPT
            if memory > limits.ELF_NAMES:
                raise ElfFormatError(f"its names take more than {limits.ELF_NAMES} bytes")
    return names
