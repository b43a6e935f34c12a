from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.elf import Elf, ElfFormatError, is_elf, read_elf
from cuwheel.base.formats.binaries.elf_image import ElfImage
from cuwheel.base.system import process
from tests.support.factories import compile_library

_CODE = """
#include <string.h>
int copy(char *to, const char *from, unsigned long size) { return memcpy(to, from, size) != 0; }
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "copy.c"
    path.write_text(_CODE)
    return path


def _compile(folder: Path, source: Path, *flags: str) -> Elf:
    library = compile_library(folder / "libcopy.so", "gcc", "-fPIC", "-fno-builtin", source, *flags)
    with library.open("rb") as stream:
        return read_elf(stream)


def test_reads_soname_and_needed(tmp_path: Path, source: Path) -> None:
    elf = _compile(tmp_path, source, "-Wl,-soname,libcopy.so.7", "-Wl,--no-as-needed", "-lm")

    assert (elf.soname, elf.needed) == ("libcopy.so.7", ("libm.so.6", "libc.so.6"))


@pytest.mark.parametrize("soname", ["libcopy.so.7", ""])
def test_reads_soname_alone(soname: str, tmp_path: Path, source: Path) -> None:
    flags = (f"-Wl,-soname,{soname}",) if soname else ()
    _compile(tmp_path, source, *flags)

    with (tmp_path / "libcopy.so").open("rb") as stream:
        assert ElfImage(stream).soname == soname


@pytest.mark.parametrize(
    ("flag", "runpath", "rpath"),
    [
        ("-Wl,--enable-new-dtags,-rpath,$ORIGIN/a:/opt/b", ("$ORIGIN/a", "/opt/b"), ()),
        ("-Wl,--disable-new-dtags,-rpath,$ORIGIN/a", (), ("$ORIGIN/a",)),
        ("-Wl,-rpath,$ORIGIN:", ("$ORIGIN", ""), ()),  # the current folder
    ],
)
def test_reads_search_path(
    flag: str, runpath: tuple[str, ...], rpath: tuple[str, ...], tmp_path: Path, source: Path
) -> None:
    elf = _compile(tmp_path, source, flag)

    assert (elf.runpath, elf.rpath, elf.search_path) == (runpath, rpath, runpath or rpath)


def test_reads_symbol_versions(tmp_path: Path, source: Path) -> None:
    elf = _compile(tmp_path, source)

    assert ("libc.so.6", "GLIBC_2.14") in elf.versions  # memcpy of x86-64


@pytest.mark.parametrize(("flags", "expected"), [((), False), (("-Wl,-z,execstack",), True)])
def test_finds_executable_stack(
    tmp_path: Path, source: Path, flags: tuple[str, ...], *, expected: bool
) -> None:
    assert _compile(tmp_path, source, *flags).has_executable_stack is expected


def test_missing_entry_means_executable_stack(tmp_path: Path, source: Path) -> None:
    """Today's linkers always write the entry, so it is replaced by one of another kind."""
    library = compile_library(tmp_path / "libsilent.so", "gcc", "-fPIC", source)
    content = library.read_bytes()
    assert content.count(struct.pack("<I", 0x6474E551)) == 1
    library.write_bytes(content.replace(struct.pack("<I", 0x6474E551), struct.pack("<I", 0)))

    with library.open("rb") as stream:
        assert read_elf(stream).has_executable_stack


def test_locates_section(tmp_path: Path, source: Path) -> None:
    section = _compile(tmp_path, source).section(".comment")

    assert section is not None
    content = (tmp_path / "libcopy.so").read_bytes()[section.offset :][: section.size]
    assert content.startswith(b"GCC: ")


def test_leaves_object_files_alone(tmp_path: Path, source: Path) -> None:
    library = tmp_path / "copy.o"
    process.run(["gcc", "-c", source, "-o", library], env={"PATH": os.environ["PATH"]})

    with library.open("rb") as stream:
        assert not read_elf(stream).is_host_code


def test_knows_elf_by_its_start() -> None:
    assert is_elf(io.BytesIO(b"\x7fELF..."))
    assert not is_elf(io.BytesIO(b"#!/bin/sh"))


@pytest.mark.parametrize("size", [4, 40, 70, 5000])
def test_refuses_truncated_file(tmp_path: Path, source: Path, size: int) -> None:
    _compile(tmp_path, source)
    start = (tmp_path / "libcopy.so").read_bytes()[:size]

    with pytest.raises(ElfFormatError, match="not a valid ELF file"):
        read_elf(io.BytesIO(start))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("-Wl,-z,relro,-z,now",), "full"),
        (("-Wl,-z,relro,-z,lazy",), "partial"),
        (("-Wl,-z,norelro",), "none"),
    ],
)
def test_reads_relro(tmp_path: Path, source: Path, flags: tuple[str, ...], expected: str) -> None:
    assert _compile(tmp_path, source, *flags).relro == expected


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ((), ""),
        (("-Wl,-z,x86-64-v2",), "x86-64-v2"),
        (("-Wl,-z,x86-64-v3",), "x86-64-v3"),
        (("-Wl,-z,x86-64-v4", "-Wl,--build-id", "-fcf-protection"), "x86-64-v4"),
    ],
)
def test_reads_level_that_is_needed(
    tmp_path: Path, source: Path, flags: tuple[str, ...], level: str
) -> None:
    assert _compile(tmp_path, source, *flags).instruction_set == level


def test_finds_text_relocations(tmp_path: Path) -> None:
    source = tmp_path / "place.s"
    source.write_text(".text\n.globl place\nplace: .quad place\n")

    elf = _compile(tmp_path, source, "-Wl,-z,notext")

    assert elf.has_text_relocations


_MODULE = """
#include <dlfcn.h>
void *PyInit__C(void) { return dlopen("libm.so.6", RTLD_NOW); }
static void *PyInit_hidden(void) { return 0; }
void *not_PyInit_x(void) { return PyInit_hidden(); }
extern void *PyInit_other(void);
void *other(void) { return PyInit_other(); }
"""


def _module(folder: Path, *flags: str) -> Path:
    source = folder / "module.c"
    source.write_text(_MODULE)
    return compile_library(folder / "module.so", "gcc", "-fPIC", source, *flags)


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_finds_python_module_and_loader(tmp_path: Path, style: str) -> None:
    with _module(tmp_path, f"-Wl,--hash-style={style}").open("rb") as stream:
        elf = read_elf(stream)

    assert (elf.python_modules, elf.uses_dlopen) == (("_C",), True)


def test_takes_own_dlopen_for_no_use(tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text("int dlopen(void) { return 1; } int my_dlopen(void) { return dlopen(); }")

    assert not _compile(tmp_path, source).uses_dlopen


def test_reads_file_without_section_headers(tmp_path: Path) -> None:
    path = _module(tmp_path, "-Wl,-soname,libm.so,-rpath,$ORIGIN")
    content = bytearray(path.read_bytes())
    whole = read_elf(io.BytesIO(content))
    struct.pack_into("<Q", content, 40, 0)  # e_shoff
    struct.pack_into("<HHH", content, 58, 0, 0, 0)  # size, number, names

    elf = read_elf(io.BytesIO(content))

    assert elf == replace(whole, sections=())
    assert elf.versions


def test_reads_32_bits(tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    source.write_text("void *PyInit_one(void) { return 0; }")

    elf = _compile(tmp_path, source, "-m32", "-nostdlib", "-Wl,-soname,libone.so,-rpath,/opt/b")

    assert (elf.machine, elf.soname, elf.search_path) == ("EM_386", "libone.so", ("/opt/b",))
    assert (elf.python_modules, elf.relro) == (("one",), "partial")
    assert elf.section(".comment")


def test_reads_other_byte_order(tmp_path: Path) -> None:
    content = _module(tmp_path).read_bytes()

    swapped = read_elf(io.BytesIO(_swapped(content)))

    assert swapped == replace(read_elf(io.BytesIO(content)), machine=swapped.machine)
    assert swapped.python_modules == ("_C",)


@pytest.mark.e2e
def test_reads_thousands_of_sections(tmp_path: Path) -> None:
    lines = "\n".join(f".section s{number}\n.byte 1" for number in range(65_300))
    (tmp_path / "many.s").write_text(lines)
    library = tmp_path / "many.o"
    process.run(["as", tmp_path / "many.s", "-o", library], env={"PATH": os.environ["PATH"]})

    with library.open("rb") as stream:
        elf = read_elf(stream)

    assert elf.section("s65299")


def test_reads_sections_that_overlap(tmp_path: Path, source: Path) -> None:
    elf = _compile(tmp_path, source)
    content = bytearray((tmp_path / "libcopy.so").read_bytes())
    place, step = struct.unpack_from("<Q", content, 40)[0], 64
    comment, text = (
        next(n for n in range(1, 60) if _offset(content, place + n * step) == section.offset)
        for name in (".comment", ".text")
        if (section := elf.section(name))
    )
    struct.pack_into(
        "<Q", content, place + comment * step + 24, _offset(content, place + text * step)
    )

    assert read_elf(io.BytesIO(content)).needed == elf.needed


def test_reads_huge_file(tmp_path: Path, source: Path) -> None:
    elf = _compile(tmp_path, source)
    huge = tmp_path / "huge.so"
    content = bytearray((tmp_path / "libcopy.so").read_bytes())
    start = struct.unpack_from("<Q", content, 40)[0]
    far = 3 << 30
    struct.pack_into("<Q", content, 40, far)
    with huge.open("wb") as stream:
        stream.write(content[:start])
        stream.seek(far)  # a hole: nothing is written
        stream.write(content[start:])

    with huge.open("rb") as stream:
        assert read_elf(stream) == elf


def test_survives_any_damaged_byte(tmp_path: Path) -> None:
    content = _module(tmp_path).read_bytes()
    refused = 0
    for place in _interesting(content):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        try:
            read_elf(io.BytesIO(damaged))
        except ElfFormatError:
            refused += 1

    assert refused


def _offset(content: bytearray, header: int) -> int:
    return int(struct.unpack_from("<Q", content, header + 24)[0])


def _interesting(content: bytes) -> Iterator[int]:
    """Yield the places of headers, of what the loader reads, and of the section headers."""
    yield from range(4, 0x600, 3)
    sections = struct.unpack_from("<Q", content, 40)[0]
    yield from range(sections, len(content), 5)
    dynamic = read_elf(io.BytesIO(content)).section(".dynamic")
    assert dynamic
    yield from range(dynamic.offset, dynamic.offset + dynamic.size)


def _swapped(content: bytes) -> bytes:
    """Return a library of x86-64 with all tables in the other byte order."""
    swapped = bytearray(content)
    elf = read_elf(io.BytesIO(content))
    header = struct.unpack_from("<HHIQQQIHHHHHH", content, 16)
    tables = [("HHIQQQIHHHHHH", 16, 1), ("IIQQQQQQ", header[4], header[9])]
    tables += [("IIQQQQIIQQ", header[5], header[11])]
    for name, form in ((".dynamic", "QQ"), (".dynsym", "IBBHQQ")):
        section = elf.section(name)
        assert section
        tables.append((form, section.offset, section.size // struct.calcsize(f"<{form}")))
    versions = elf.section(".gnu.version_r")
    assert versions
    place = versions.offset
    while place < versions.offset + versions.size:
        tables.append(("HHIII", place, 1))
        count = struct.unpack_from("<H", content, place + 2)[0]
        tables.append(("IHHII", place + 16, count))
        place += 16 * (count + 1)
    for form, start, count in tables:
        size = struct.calcsize(f"<{form}")
        for at in range(start, start + count * size, size):
            struct.pack_into(f">{form}", swapped, at, *struct.unpack_from(f"<{form}", content, at))
    swapped[5] = 2  # ELFDATA2MSB
    return bytes(swapped)
