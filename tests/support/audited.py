"""Wheels with one library and nothing to find, audited as the session does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuwheel.audit.session import AuditOptions, audit_session
from tests.support.factories import compile_library, make_workspace, write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.catalogue import CatalogueEntry

TAG = "cp311-cp311-manylinux_2_39_x86_64"
SOUND = "int answer(void) { return 42; }\n"


def make_wheel(folder: Path, *flags: str, **wheel: Any) -> Path:
    """A wheel with one library and nothing to find."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "code.c"
    source.write_text(SOUND)
    library = compile_library(folder / "libtiny.so", "gcc", "-fPIC", source, *flags)
    return write_wheel(folder, {"tiny_cuda/libtiny.so": library}, **{"tag": TAG, **wheel})


def run_session(
    folder: Path, *paths: Path, entries: tuple[CatalogueEntry, ...] = (), **asked: Any
) -> None:
    """Audit these wheels, or those of these folders."""
    audit_session(paths, entries, make_workspace(folder).console, AuditOptions(**asked))
