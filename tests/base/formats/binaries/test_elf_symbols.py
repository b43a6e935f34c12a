"""Symbol look-ups, compared with `nm`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from cuwheel.base import limits
from cuwheel.base.formats.binaries.elf_image import ElfFormatError
from cuwheel.base.formats.binaries.elf_symbols import (
    Symbols,
    gnu_hash,
    has_old_string,
    plain_name,
)
from cuwheel.base.system.process import run
from cuwheel.check.diagnose.facts.torch_symbols import find_missing
from tests.support.factories import compile_library

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
def test_defines_symbols_of_nm(tmp_path: Path, style: str) -> None:
    library = make_library(tmp_path, style)
    output = run(["nm", "-D", "--defined-only", library], env={"PATH": "/usr/bin:/bin"}).output
    names = {line.split()[-1] for line in output.splitlines()}

    with library.open("rb") as stream:
        lacking = Symbols(stream).lacking({*names, "far", "inner", "f200"})

    assert len(names) > 200
    assert lacking == {"far", "inner", "f200"}


def test_lists_undefined_and_defined_symbols(tmp_path: Path) -> None:
    with make_library(tmp_path, "gnu").open("rb") as stream:
        undefined, defined = (
            set(Symbols(stream).undefined()),
            set(Symbols(stream).defined()),
        )

    assert "far" in undefined
    assert "perhaps" not in undefined
    assert {"near", "NUMBER", "f199"} <= defined
    assert defined.isdisjoint({"far", "inner", "perhaps"})


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
def test_lists_undefined_symbols_without_version(tmp_path: Path, style: str) -> None:
    source = tmp_path / "code.c"
    source.write_text(
        "double cos(double); void far(void); double f(void) { far(); return cos(1); }"
    )
    flags = (f"-Wl,--hash-style={style}", "-fno-builtin", "-lm")
    library = compile_library(tmp_path / "lib.so", "gcc", "-fPIC", source, *flags)

    with library.open("rb") as stream:
        assert Symbols(stream).unversioned() == ("far",)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('__asm__(".globl unused");', ()),
        ("extern int far; int *f(void) { return &far; }", ("far",)),
        ("extern int far; int *f = &far;", ("far",)),
        ("extern __thread int far; int f(void) { return far; }", ("far",)),
    ],
)
def test_leaves_out_symbols_without_relocation(
    tmp_path: Path, code: str, names: tuple[str, ...]
) -> None:
    source = tmp_path / "code.c"
    source.write_text(f"{code} int g(void) {{ return 1; }}")
    library = compile_library(tmp_path / "lib.so", "gcc", "-fPIC", source)

    with library.open("rb") as stream:
        assert Symbols(stream).unversioned() == names


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


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("_ZNK3c105Error4whatEv", "c10::Error::what"),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", "c10::detail::torchCheckFail"),
        ("_ZTVN2at18TensorIteratorBaseE", "at::TensorIteratorBase"),
        ("aoti_torch_zeros", "aoti_torch_zeros"),
    ],
)
def test_demangles_name(mangled: str, plain: str) -> None:
    assert plain_name(mangled) == plain


@pytest.mark.parametrize(
    ("mangled", "has_it"),
    [
        ("_ZN3c105ErrorC1ESsSsPKv", True),
        ("_ZN2at4viewERKSt6vectorISsSaISsEE", True),
        ("_ZN2at4fourILj4EEEvRA2_S1_Ss", True),
        ("_ZN2at5SsortEv", False),
        ("_ZN2at4viewES_s", False),
        ("_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", False),
    ],
)
def test_finds_old_string(mangled: str, *, has_it: bool) -> None:
    assert has_old_string(mangled) is has_it


def test_hashes_as_the_loader() -> None:
    # The examples of "GNU Hash ELF Sections" (Ali Bahrami).
    assert [gnu_hash(name) for name in ("", "printf", "exit")] == [0x1505, 0x156B2BB8, 0x7C967E3F]
