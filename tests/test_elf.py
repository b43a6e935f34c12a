from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from cuwheel import process
from cuwheel.elf import Elf, ElfFormatError, is_elf, read_elf
from tests.factories import compile_library

if TYPE_CHECKING:
    from pathlib import Path

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


def test_reads_runpath_entries(tmp_path: Path, source: Path) -> None:
    elf = _compile(tmp_path, source, "-Wl,--enable-new-dtags,-rpath,$ORIGIN/a:/opt/b")

    assert (elf.runpath, elf.rpath) == (("$ORIGIN/a", "/opt/b"), ())


def test_reads_old_rpath_entries(tmp_path: Path, source: Path) -> None:
    elf = _compile(tmp_path, source, "-Wl,--disable-new-dtags,-rpath,$ORIGIN/a")

    assert (elf.runpath, elf.rpath, elf.search_path) == ((), ("$ORIGIN/a",), ("$ORIGIN/a",))


def test_reads_symbol_versions(tmp_path: Path, source: Path) -> None:
    elf = _compile(tmp_path, source)

    assert ("libc.so.6", "GLIBC_2.14") in elf.versions  # memcpy of x86-64


def test_tells_executable_stack(tmp_path: Path, source: Path) -> None:
    asked = _compile(tmp_path, source, "-Wl,-z,execstack")

    assert asked.has_executable_stack
    assert not _compile(tmp_path, source).has_executable_stack


def test_gives_place_of_section(tmp_path: Path, source: Path) -> None:
    section = _compile(tmp_path, source).section(".comment")

    assert section is not None
    content = (tmp_path / "libcopy.so").read_bytes()[section.offset :][: section.size]
    assert content.startswith(b"GCC: ")


def test_leaves_object_files_alone(tmp_path: Path, source: Path) -> None:
    made = tmp_path / "copy.o"
    process.run(["gcc", "-c", source, "-o", made], env={"PATH": os.environ["PATH"]})

    with made.open("rb") as stream:
        assert not read_elf(stream).is_host_code


def test_knows_elf_by_its_start() -> None:
    assert is_elf(io.BytesIO(b"\x7fELF..."))
    assert not is_elf(io.BytesIO(b"#!/bin/sh"))


@pytest.mark.parametrize("size", [4, 40, 70, 5000])
def test_refuses_truncated_file(tmp_path: Path, source: Path, size: int) -> None:
    _compile(tmp_path, source)
    start = (tmp_path / "libcopy.so").read_bytes()[:size]

    with pytest.raises(ElfFormatError, match="not a sound ELF file"):
        read_elf(io.BytesIO(start))
