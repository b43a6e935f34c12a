"""Symbol look-ups, held against `nm`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from cuwheel import limits
from cuwheel.binaries.elf_image import ElfFormatError
from cuwheel.binaries.elf_symbols import Symbols
from cuwheel.diagnose.facts.torch_symbols import find_missing
from cuwheel.system.process import run
from tests.support.factories import compile_library

if TYPE_CHECKING:
    from pathlib import Path

_CODE = """
extern void far(void);
extern void perhaps(void) __attribute__((weak));
static void inner(void) {}
void near(void) { far(); inner(); if (perhaps) perhaps(); }
void NUMBER(void) {}
"""
_STYLES = ("gnu", "sysv", "both")


def make_library(folder: Path, style: str) -> Path:
    source = folder / "code.c"
    names = [f"f{number}" for number in range(200)]  # several to a bucket
    source.write_text(_CODE + "".join(f"void {name}(void) {{}}\n" for name in names))
    flags = (f"-Wl,--hash-style={style}", "-Wl,-rpath,$ORIGIN/x::/y", "-Wl,--no-as-needed", "-lm")
    return compile_library(folder / f"lib{style}.so", "gcc", "-fPIC", source, *flags)


@pytest.mark.parametrize("style", _STYLES)
def test_defines_what_nm_says(tmp_path: Path, style: str) -> None:
    library = make_library(tmp_path, style)
    told = run(["nm", "-D", "--defined-only", library], env={"PATH": "/usr/bin:/bin"}).output
    names = {line.split()[-1] for line in told.splitlines()}

    with library.open("rb") as stream:
        lacking = Symbols(stream).lacking({*names, "far", "inner", "f200"})

    assert len(names) > 200
    assert lacking == {"far", "inner", "f200"}


def test_asks_for_what_has_to_be_there(tmp_path: Path) -> None:
    with make_library(tmp_path, "gnu").open("rb") as stream:
        found = set(Symbols(stream).undefined())

    assert "far" in found
    assert "perhaps" not in found


def test_reads_ways_to_others(tmp_path: Path) -> None:
    with make_library(tmp_path, "gnu").open("rb") as stream:
        links = Symbols(stream).links

    assert links.runpath == ("$ORIGIN/x", "", "/y")
    assert links.needed == ("libm.so.6", "libc.so.6")


def test_refuses_damaged_library(tmp_path: Path) -> None:
    content = make_library(tmp_path, "gnu").read_bytes()

    for size in (0, 3, 40, 70, 500):
        with pytest.raises(ElfFormatError):
            list(Symbols(io.BytesIO(content[:size])).undefined())


def test_needs_no_torch(tmp_path: Path) -> None:
    with make_library(tmp_path, "gnu").open("rb") as stream:
        assert find_missing(stream, tmp_path, ()) is None


@pytest.mark.parametrize("style", _STYLES)
def test_knows_exports_by_their_hashes(tmp_path: Path, style: str) -> None:
    with make_library(tmp_path, style).open("rb") as stream:
        exports = Symbols(stream).exports()

    assert all(name in exports for name in ("near", "NUMBER", "f0", "f199"))
    assert not any(name in exports for name in ("far", "perhaps", "inner", "f200", "cos"))


@pytest.mark.parametrize("style", _STYLES)
def test_asks_for_what_says_no_version(tmp_path: Path, style: str) -> None:
    source = tmp_path / "code.c"
    source.write_text(
        "double cos(double); void far(void); double f(void) { far(); return cos(1); }"
    )
    flags = (f"-Wl,--hash-style={style}", "-fno-builtin", "-lm")
    library = compile_library(tmp_path / "lib.so", "gcc", "-fPIC", source, *flags)

    with library.open("rb") as stream:
        assert Symbols(stream).unversioned() == ("far",)


def test_lists_what_it_defines(tmp_path: Path) -> None:
    with make_library(tmp_path, "gnu").open("rb") as stream:
        found = set(Symbols(stream).defined())

    assert {"near", "NUMBER", "f199"} <= found
    assert found.isdisjoint({"far", "inner", "perhaps"})


@pytest.mark.parametrize(("name", "limit"), [("ELF_SYMBOLS", 100), ("ELF_NAMES", 2)])
@pytest.mark.parametrize("style", _STYLES)
def test_reads_no_more_than_the_limits(
    tmp_path: Path, style: str, name: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, name, limit)

    with make_library(tmp_path, style).open("rb") as stream:
        symbols = Symbols(stream)
        with pytest.raises(ElfFormatError):
            (symbols.unversioned(), symbols.exports())
