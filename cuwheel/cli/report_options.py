"""How much a session says, and whether to a person or to a program: the same words everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from cuwheel.cli.parser import Parser
    from cuwheel.system.console import Console


def add_report_options(
    parser: Parser,
    *,
    quiet: str,
    verbose: str,
    as_json: str = "print JSON to standard output instead of text",
) -> None:
    """Add `--quiet`, `--verbose` and `--json`.

    Args:
        parser: of a session that reports something.
        quiet: what it says beside warnings and errors then.
        verbose: what it says more.
        as_json: what the data are.
    """
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quiet", "-q", action="store_true", help=quiet)
    amount.add_argument("--verbose", "-v", action="store_true", help=verbose)
    parser.add_argument("--json", action="store_true", help=as_json)


def set_amount(given: argparse.Namespace, console: Console) -> None:
    """Let the console say as much as was asked for."""
    console.is_quiet = getattr(given, "quiet", False)
    console.is_verbose = getattr(given, "verbose", False)
