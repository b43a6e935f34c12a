"""The level of x86-64 in notes that a real linker wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.binaries.elf import read_elf
from tests.support.factories import compile_library

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ((), ""),
        (("-Wl,-z,x86-64-v2",), "x86-64-v2"),
        (("-Wl,-z,x86-64-v3",), "x86-64-v3"),
        (("-Wl,-z,x86-64-v4", "-Wl,--build-id", "-fcf-protection"), "x86-64-v4"),
    ],
)
def test_reads_level_that_is_needed(tmp_path: Path, flags: tuple[str, ...], level: str) -> None:
    source = tmp_path / "code.c"
    source.write_text("int answer(void) { return 42; }\n")
    library = compile_library(tmp_path / "lib.so", "gcc", "-fPIC", source, *flags)

    with library.open("rb") as stream:
        assert read_elf(stream).instruction_set == level
