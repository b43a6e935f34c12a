"""Wheels with one planted defect: real libraries made by gcc, judged as wheels of others are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuwheel.audit.verdict import audit_wheel
from cuwheel.wheel.archive import pack, unpack_wheel
from tests.support.factories import EPOCH, compile_library, write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.audit.supply import Supply
    from cuwheel.audit.verdict import AuditResult

CODE = "int answer(void) { return 42; }\n"
MEMBER = "pkg/libtiny.so"
TAG = "py3-none-manylinux_2_39_x86_64"
CU13 = "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib"


def make_library(
    folder: Path, *sonames: str, flags: tuple[str, ...] = (), code: str = CODE
) -> Path:
    """A library that needs these sonames, each supplied by a stub when it is linked."""
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


def judged(folder: Path, files: dict[str, Path | bytes], **wheel: Any) -> AuditResult:
    """The judgement of a wheel with these files."""
    path = write_wheel(folder / "dist", files, **{"name": "pkg", "tag": TAG, **wheel})
    return audit_wheel(path)


def told(result: AuditResult) -> list[str]:
    """The findings, one a line, with their severity."""
    return [f"{finding.severity}: {finding}" for finding in result.findings]


def rewrite(wheel: Path, folder: Path, member: str, old: str, new: str) -> None:
    """Change a file of a wheel's `.dist-info`, with RECORD."""
    folder.mkdir()
    unpack_wheel(wheel, folder)
    (path,) = folder.glob(f"*.dist-info/{member}")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    pack(folder, wheel, epoch=EPOCH)


def supply_of(result: AuditResult, soname: str) -> Supply:
    """Who supplies a library of the wheel."""
    (found,) = {supply for supply in result.supplies if supply.soname == soname}
    return found
