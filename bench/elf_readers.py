"""The same facts of an ELF file, by cuwheel's reader and by pyelftools."""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Facts(NamedTuple):
    """What an audit asks a library for; fields of `cuwheel.base.formats.binaries.elf.Elf`."""

    soname: str
    needed: tuple[str, ...]
    runpath: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    sections: tuple[tuple[str, int, int], ...]
    python_modules: tuple[str, ...]
    uses_dlopen: bool


def with_cuwheel(path: Path) -> Facts:
    """Look for the names that matter in the table of names, then compare places."""
    from cuwheel.base.formats.binaries.elf import read_elf  # noqa: PLC0415 - timed with the rest

    with path.open("rb") as stream:
        elf = read_elf(stream)
    return Facts(
        soname=elf.soname,
        needed=elf.needed,
        runpath=elf.runpath,
        versions=tuple(sorted(elf.versions)),
        sections=tuple((one.name, one.offset, one.size) for one in elf.sections),
        python_modules=elf.python_modules,
        uses_dlopen=elf.uses_dlopen,
    )


def with_pyelftools(path: Path) -> Facts:
    """Go through tags, versions and symbols, each an object."""
    from elftools.elf.dynamic import DynamicSection  # noqa: PLC0415 - timed with the rest
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415
    from elftools.elf.gnuversions import GNUVerNeedSection  # noqa: PLC0415
    from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415

    with path.open("rb") as stream:
        sections = list(ELFFile(stream).iter_sections())
        [dynamic] = [one for one in sections if isinstance(one, DynamicSection)]
        tags: list[Any] = list(dynamic.iter_tags())
        tables = [one for one in sections if isinstance(one, SymbolTableSection)]
        [symbols] = [one for one in tables if one.name == ".dynsym"]
        names = [(one.name, one.entry.st_shndx == "SHN_UNDEF") for one in symbols.iter_symbols()]
        return Facts(
            soname="".join(tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"),
            needed=tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
            runpath=tuple(
                folder
                for tag in tags
                if tag.entry.d_tag == "DT_RUNPATH"
                for folder in tag.runpath.split(":")
            ),
            versions=tuple(
                sorted(
                    (str(library.name), version.name)
                    for section in sections
                    if isinstance(section, GNUVerNeedSection)
                    for library, versions in section.iter_versions()
                    for version in versions
                )
            ),
            sections=tuple(
                (one.name, one["sh_offset"], one["sh_size"])
                for one in sections
                if one["sh_type"] not in {"SHT_NULL", "SHT_NOBITS"}
            ),
            python_modules=tuple(_modules(names)),
            uses_dlopen=bool({("dlopen", True), ("dlmopen", True)} & {*names}),
        )


def _modules(names: Iterable[tuple[str, bool]]) -> list[str]:
    start = "PyInit_"
    defined = (name for name, is_undefined in names if not is_undefined)
    return sorted(name.removeprefix(start) for name in defined if name.startswith(start))
