"""What the dynamic loader and the auditor want to know of an ELF file, over pyelftools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"\x7fELF"
_LINKED_KINDS = ("ET_DYN", "ET_EXEC")
_CUDA_MACHINE = "EM_CUDA"
_FLAG_EXECUTE = 1  # PF_X, System V ABI, "Program Header"


class ElfFormatError(ValueError):
    """A file begins like an ELF file and can't be read as one."""


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
        is_linked: a shared library or a program, not an object file.
        is_dynamic: the dynamic loader has something to do for it.
        soname: `DT_SONAME`, empty where there is none.
        needed: `DT_NEEDED`, in the file's order.
        rpath: entries of `DT_RPATH`.
        runpath: entries of `DT_RUNPATH`; the loader ignores `DT_RPATH` where there is one.
        versions: library and symbol version that it needs, e.g. `("libc.so.6", "GLIBC_2.34")`.
        sections: every section that has a place in the file.
        has_executable_stack: it asks for a stack that can run code.
        has_text_relocations: the loader has to write into its code.
    """

    machine: str
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

    @property
    def search_path(self) -> tuple[str, ...]:
        """The entries that the loader really looks at."""
        return self.runpath or self.rpath

    @property
    def is_host_code(self) -> bool:
        """Whether strip and patchelf may touch it: linked, and not for the GPU."""
        return self.is_linked and self.machine != _CUDA_MACHINE

    def section(self, name: str) -> Section | None:
        """The section of that name, or None."""
        return next((section for section in self.sections if section.name == name), None)


def is_elf(stream: IO[bytes]) -> bool:
    """Whether a stream begins as an ELF file does; the stream is left at its start."""
    stream.seek(0)
    start = stream.read(len(_MAGIC))
    stream.seek(0)
    return start == _MAGIC


def read_elf(stream: IO[bytes]) -> Elf:
    """Read an ELF file from a seekable stream, without loading it into memory.

    Raises:
        ElfFormatError: it isn't ELF, or is damaged.
    """
    try:
        return _read(ELFFile(stream))
    # pyelftools lets the errors of its parsers through where a file is damaged.
    except (
        ELFError,
        AssertionError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        OverflowError,
    ) as problem:
        raise ElfFormatError(f"not a sound ELF file: {problem or type(problem).__name__}") from None


def _read(file: ELFFile) -> Elf:
    tags = list(_dynamic_tags(file))
    return Elf(
        machine=str(file["e_machine"]),
        is_linked=file["e_type"] in _LINKED_KINDS,
        is_dynamic=bool(tags),
        soname=next((value for tag, value in tags if tag == "DT_SONAME"), ""),
        needed=tuple(value for tag, value in tags if tag == "DT_NEEDED"),
        rpath=_entries(tags, "DT_RPATH"),
        runpath=_entries(tags, "DT_RUNPATH"),
        versions=tuple(_versions(file)),
        sections=tuple(_sections(file)),
        has_executable_stack=_has_executable_stack(file),
        has_text_relocations=any(tag == "DT_TEXTREL" for tag, _ in tags),
    )


def _dynamic_tags(file: ELFFile) -> Iterator[tuple[str, str]]:
    """Name and text of each dynamic tag; from the segment, as the loader reads it."""
    for segment in file.iter_segments():
        if isinstance(segment, DynamicSegment):
            for tag in segment.iter_tags():
                name = str(tag.entry.d_tag)
                text = getattr(tag, name[3:].lower(), "") if name in _TEXT_TAGS else ""
                yield name, str(text)


_TEXT_TAGS = ("DT_NEEDED", "DT_SONAME", "DT_RPATH", "DT_RUNPATH")


def _entries(tags: list[tuple[str, str]], name: str) -> tuple[str, ...]:
    texts = [value for tag, value in tags if tag == name]
    return tuple(entry for text in texts for entry in text.split(":") if entry)


def _versions(file: ELFFile) -> Iterator[tuple[str, str]]:
    for section in file.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for library, versions in section.iter_versions():
                yield from ((str(library.name), str(version.name)) for version in versions)


def _sections(file: ELFFile) -> Iterator[Section]:
    for section in file.iter_sections():
        if section["sh_type"] not in ("SHT_NULL", "SHT_NOBITS"):
            yield Section(name=section.name, offset=section["sh_offset"], size=section["sh_size"])


def _has_executable_stack(file: ELFFile) -> bool:
    return any(
        segment["p_type"] == "PT_GNU_STACK" and bool(segment["p_flags"] & _FLAG_EXECUTE)
        for segment in file.iter_segments()
    )
