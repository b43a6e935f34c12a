"""The session `audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.audit.session import AuditOptions, audit_session
from cuwheel.binaries.archs import is_arch, sorted_archs
from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.errors import UsageError
from cuwheel.model.catalogue import load_catalogue
from cuwheel.paths import given_path, project_roots

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console


def audit_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "audit", "Check wheels, of this project or of others, and report what is wrong."
    )
    add = parser.add_argument
    add("wheels", nargs="+", metavar="WHEEL|DIR", help="files, or folders with wheels")
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a pattern passed to auditwheel by the wheel's publisher, repeatable; reported if "
        "nothing matches it",
    )
    add(
        "--arch",
        action="append",
        default=[],
        metavar="90",
        help="for wheels of a recipe here: the expected archs of the device code, repeatable; "
        "default: the recipe's list",
    )
    add(
        "--any-wheel",
        action="store_true",
        help="check wheels of recipes here by the general rules, not against their recipe",
    )
    add(
        "--fail-on",
        choices=("error", "warning", "never"),
        default="warning",
        help="the lowest severity that makes the session fail; default: warning",
    )
    add_report_options(
        parser,
        quiet="print only errors, warnings and one line for each wheel",
        verbose="list every finding, also when many are alike",
    )
    return parser


def run_audit(given: argparse.Namespace, console: Console) -> None:
    """Audit wheels."""
    for arch in given.arch:
        if not is_arch(arch):
            raise UsageError(
                f"--arch {arch} is not a compute capability",
                why="write it without dot and without sm_: 90, 90a, 100f",
                fix="nox -s audit -- --arch 90 --arch 100 WHEEL",
            )
    asked = AuditOptions(
        archs=sorted_archs(given.arch),
        excludes=tuple(given.exclude),
        ignores_recipes=given.any_wheel,
        fails_on=given.fail_on,
        as_json=given.json,
    )
    wheels = [given_path(text) for text in given.wheels]
    audit_session(wheels, load_catalogue(project_roots()), console, asked)
