"""The session `docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.reference.write import write_documents
from cuwheel.paths import ROOT

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console


def docs_parser() -> Parser:
    """The command line of the session."""
    return new_parser("docs", "Write the pages that are generated from the code.")


def run_docs(_: argparse.Namespace, console: Console) -> None:
    """Write the generated pages."""
    for path in write_documents(ROOT):
        console.note(f"wrote {path.relative_to(ROOT)}")
