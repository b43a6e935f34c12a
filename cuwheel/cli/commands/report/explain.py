"""The session `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.errors import UsageError
from cuwheel.explain.session import explain_lines, explain_session
from cuwheel.paths import given_path

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console


def explain_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser("explain", "Explain what went wrong in logs, of any tool.")
    add = parser.add_argument
    add(
        "logs",
        nargs="+",
        metavar="LOG|DIR|-",
        help="log files, folders with log files, or - for standard input",
    )
    add_report_options(
        parser,
        quiet="print one line for each cause, with its fix",
        verbose="show every log line that indicates a cause, and links",
    )
    add(
        "--jsonl",
        action="store_true",
        help='read one {"id": …, "log": …} per line, print one {"id": …, "causes": […]} per line',
    )
    return parser


def run_explain(given: argparse.Namespace, console: Console) -> None:
    """Explain logs.

    Raises:
        UsageError: of `--json` and `--jsonl` both are given.
    """
    folder = given_path(".")
    if given.jsonl and given.json:
        raise UsageError(
            "--json and --jsonl were both given",
            why="they are two forms of the same answer",
            fix="choose one: --jsonl is for many logs in one file, one per line",
        )
    if given.jsonl:
        explain_lines(given.logs, folder, console)
    else:
        explain_session(given.logs, folder, console, as_json=given.json)
