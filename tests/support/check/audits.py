"""Wheels with one library and nothing to find, and the session `audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.contract import contract_of_wheel
from cuwheel.check.audit.audit import AuditOptions, audit_session
from tests.support.factories import compile_library, make_workspace, write_wheel

TAG = "cp311-cp311-manylinux_2_39_x86_64"
SOUND = "int answer(void) { return 42; }\n"


def make_wheel(folder: Path, *flags: str, **wheel: Any) -> Path:
    """Write a wheel with one library and nothing to find."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "code.c"
    source.write_text(SOUND)
    library = compile_library(folder / "libtiny.so", "gcc", "-fPIC", source, *flags)
    return write_wheel(folder, {"tiny_cuda/libtiny.so": library}, **{"tag": TAG, **wheel})


def run_session(
    folder: Path,
    *paths: Path,
    entries: tuple[CatalogueEntry, ...] = (),
    archs: tuple[str, ...] = (),
    **options: Any,
) -> None:
    """Audit these wheels, or those of these folders."""
    audit_session(
        paths,
        lambda wheel: contract_of_wheel(wheel, entries, archs),
        make_workspace(folder).console,
        AuditOptions(**options),
    )
