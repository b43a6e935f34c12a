"""The session `index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.errors import UsageError
from cuwheel.paths import ROOT, given_path
from cuwheel.wheel.index import write_index

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console


def index_parser() -> Parser:
    """What the session understands."""
    parser = new_parser("index", "Write the package index of a folder of wheels.")
    parser.add_argument("--dist", metavar="DIR", help="default: dist/ in the checkout")
    return parser


def run_index(given: argparse.Namespace, console: Console) -> None:
    """Write the package index."""
    dist = given_path(given.dist) if given.dist else ROOT / "dist"
    if given.dist and not dist.is_dir():
        raise UsageError(
            f"there is no folder {dist}",
            why="--dist names it, as seen from the folder in which nox was started",
            fix="name the folder that holds the wheels",
        )
    console.note(f"wrote {write_index(dist)}")
