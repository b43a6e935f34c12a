"""The command lines of the sessions that only look and tell: `audit`, `explain`, `diagnose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.options.parser import Parser, new_parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def parse_audit(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the `audit` session.

    Raises:
        UsageError: one is wrong, or no wheel is named.
    """
    return audit_parser().parse(arguments)


def audit_parser() -> Parser:
    """What the `audit` session understands."""
    parser = new_parser(
        "audit", "Read wheels, of this project or of others, and say what is wrong."
    )
    add = parser.add_argument
    add("wheels", nargs="+", metavar="WHEEL|DIR", help="files, or folders with wheels")
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a pattern that the wheel's maker gave to auditwheel, repeatable; said if it is dead",
    )
    add(
        "--arch",
        action="append",
        default=[],
        metavar="90",
        help="for wheels of a recipe here: what the device code is for, repeatable; default: the "
        "recipe's list",
    )
    add(
        "--any-wheel",
        action="store_true",
        help="hold wheels of recipes here to what any wheel has to keep, not to their recipe",
    )
    add(
        "--fail-on",
        choices=("error", "warning", "never"),
        default="warning",
        help="the least severity that makes the session fail; default: warning",
    )
    add("--json", action="store_true", help="print data to standard output instead of text")
    return parser


def parse_explain(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the `explain` session.

    Raises:
        UsageError: one is wrong, or no log is named.
    """
    return explain_parser().parse(arguments)


def explain_parser() -> Parser:
    """What the `explain` session understands."""
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


def parse_diagnose(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the `diagnose` session.

    Raises:
        UsageError: one is wrong.
    """
    return diagnose_parser().parse(arguments)


def diagnose_parser() -> Parser:
    """What the `diagnose` session understands."""
    parser = new_parser(
        "diagnose", "Say whether GPU packages work on this machine, and if not, why."
    )
    add = parser.add_argument
    add(
        "packages",
        nargs="*",
        metavar="PACKAGE",
        help="look at these; default: all of the environment that have GPU code",
    )
    add(
        "--python",
        metavar="PATH|ENVIRONMENT",
        help="an interpreter, the folder of an environment, or a conda environment's name; "
        "default: the active environment, else the `python3` on PATH",
    )
    add("--targets", action="store_true", help="say which of the recipes' targets fit this machine")
    add("--json", action="store_true", help="print data to standard output instead of text")
    return parser
