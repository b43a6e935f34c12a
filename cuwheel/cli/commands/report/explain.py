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
    """What the session understands."""
    parser = new_parser("explain", "Read logs, of any tool, and say what went wrong.")
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG|DIR|-", help="files, folders of them, - for standard input")
    add_report_options(
        parser,
        quiet="print one line for each cause: what it is, and what to do",
        verbose="show every line of the log that shows a cause, and links",
    )
    add(
        "--jsonl",
        action="store_true",
        help='take one {"id": …, "log": …} per line, answer one {"id": …, "causes": […]} per line',
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
            "--json and --jsonl are both given",
            why="they are two forms of the same answer",
            fix="name one: --jsonl for many logs in one file, one in each line",
        )
    if given.jsonl:
        explain_lines(given.logs, folder, console)
    else:
        explain_session(given.logs, folder, console, as_json=given.json)
