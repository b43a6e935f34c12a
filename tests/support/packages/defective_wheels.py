"""Wheels with one planted defect, made of real libraries by gcc, and their audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cuwheel.base.formats.wheel.archive import pack, unpack_wheel
from cuwheel.check.audit.supply import Supply
from cuwheel.check.audit.verdict import AuditResult, audit_wheel
from tests.support.factories import EPOCH, compile_library, write_wheel

CODE = "int answer(void) { return 42; }\n"
MEMBER = "pkg/libtiny.so"
TAG = "py3-none-manylinux_2_39_x86_64"
Breach = tuple[str, str, str]  # severity, rule, file
CU13 = "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib"


def make_library(
    folder: Path, *sonames: str, flags: tuple[str, ...] = (), code: str = CODE
) -> Path:
    """Link a library that needs these sonames, with a stub for each."""
    folder.mkdir(parents=True, exist_ok=True)
    source, stub_source = folder / "code.c", folder / "stub.c"
    source.write_text(code)
    stub_source.write_text(CODE)
    stubs = [
        compile_library(folder / soname, "gcc", "-fPIC", stub_source, f"-Wl,-soname,{soname}")
        for soname in sonames
    ]
    options = ("-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", *flags)
    return compile_library(folder / "libmade.so", "gcc", "-fPIC", source, *options, *stubs)


def audited(folder: Path, files: dict[str, Path | bytes], **wheel: Any) -> AuditResult:
    """Return the audit of a wheel with these files."""
    path = write_wheel(folder / "dist", files, **{"name": "pkg", "tag": TAG, **wheel})
    return audit_wheel(path)


def breaches(result: AuditResult) -> list[Breach]:
    """Return the findings without their texts."""
    return [(finding.severity, finding.rule, finding.file) for finding in result.findings]


def files_breaches(folder: Path, files: dict[str, Path | bytes], **wheel: Any) -> list[Breach]:
    """Return the findings about a wheel with these files."""
    return breaches(audited(folder, files, **wheel))


def audited_library(
    folder: Path,
    *sonames: str,
    flags: tuple[str, ...] = (),
    code: str = CODE,
    member: str = MEMBER,
    **wheel: Any,
) -> AuditResult:
    """Return the audit of a wheel with one library that needs these sonames."""
    library = make_library(folder / "made", *sonames, flags=flags, code=code)
    return audited(folder, {member: library}, **wheel)


def library_breaches(folder: Path, *sonames: str, **wheel: Any) -> list[Breach]:
    """Return the findings about a wheel with one library that needs these sonames."""
    return breaches(audited_library(folder, *sonames, **wheel))


def rpath(*folders: str, first: str = "") -> tuple[str]:
    """Return the linker's option for folders of site-packages, from one level below it.

    Args:
        first: another entry, as it is.
    """
    entries = [*([first] if first else []), *(f"$ORIGIN/../{folder}" for folder in folders)]
    return ("-Wl,-rpath," + ":".join(entries),)


def rewrite(wheel: Path, folder: Path, member: str, old: str, new: str) -> None:
    """Change a file of a wheel's `.dist-info`, with RECORD."""
    folder.mkdir()
    unpack_wheel(wheel, folder)
    (path,) = folder.glob(f"*.dist-info/{member}")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    pack(folder, wheel, epoch=EPOCH)


def supply_of(result: AuditResult, soname: str) -> Supply:
    """Return the supply of a library of the wheel."""
    (supply,) = {supply for supply in result.supplies if supply.soname == soname}
    return supply
