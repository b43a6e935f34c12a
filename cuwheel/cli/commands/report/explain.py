"""The session `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
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
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--json", action="store_true", help="print data to standard output instead of text"
    )
    kind.add_argument(
        "--jsonl",
        action="store_true",
        help='take one {"id": …, "log": …} per line, answer one {"id": …, "causes": […]} per line',
    )
    return parser


def run_explain(given: argparse.Namespace, _: Console) -> None:
    """Explain logs."""
    folder = given_path(".")
    if given.jsonl:
        explain_lines(given.logs, folder)
    else:
        explain_session(given.logs, folder, as_json=given.json)
