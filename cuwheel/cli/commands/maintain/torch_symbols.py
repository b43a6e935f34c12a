"""The session `torch-symbols`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.updates.torch_symbols import update_torch_symbols

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console


def torch_symbols_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "torch-symbols",
        "Read the exported symbols of PyTorch releases, for the audit: downloads 430 to 820 MB "
        "per release.",
    )
    parser.add_argument(
        "releases",
        nargs="*",
        metavar="2.16.0",
        help="PyTorch releases; default: the newest of each minor release missing in the table",
    )
    return parser


def run_torch_symbols(given: argparse.Namespace, console: Console) -> None:
    """Write the table."""
    update_torch_symbols(given.releases, console)
