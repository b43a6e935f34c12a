"""The session `audit`."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.fetch.urls import is_web
from cuwheel.base.formats.binaries.archs import sorted_archs
from cuwheel.base.system.console import Console
from cuwheel.base.system.folders.output_folder import check_output_file
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.cli.parser import JSON_TEXT, Option, Parser, check_archs, new_parser


def audit_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "audit",
        "Check wheels, of this project or of others, and report what is wrong.",
        {
            "wheels WHEEL|DIR|URL+": "files, folders with wheels, or addresses of wheels, of which "
            "large ones are read in parts",
            "--exclude PATTERN...": "a pattern passed to auditwheel by the wheel's publisher, "
            "repeatable; reported if nothing matches it",
            "--arch 90...": "for wheels of a recipe here: the expected archs of the device code, "
            "repeatable; default: the recipe's list",
            "--any-wheel": "check wheels of recipes here by the general rules, not against their "
            "recipe",
            "--fail-on {error,warning,never}": Option(
                "the lowest severity that makes the session fail; default: warning",
                default="warning",
            ),
            "--sarif FILE": "write the findings as SARIF 2.1.0 too, for code scanning",
            "--treemap FILE.svg": "draw one wheel: its libraries and their code by arch, and what "
            "`slim` would save",
            "--quiet": "print only errors, warnings and one line for each wheel",
            "--verbose": "list every finding, also when many are alike",
            "--json": JSON_TEXT,
        },
    )


def run_audit(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Audit wheels."""
    # What reads wheels loads slowly, and a wrong option needs none of it.
    from cuwheel.build.recipe.contract import contract_of_wheel  # noqa: PLC0415
    from cuwheel.check.audit.audit import AuditOptions, audit_session  # noqa: PLC0415

    check_archs(args.arch, "nox -s audit -- --arch 90 --arch 100 WHEEL")
    wheels = [text if is_web(text) else caller.path(text) for text in args.wheels]
    files = [wheel for wheel in wheels if isinstance(wheel, Path)]
    written: dict[str, Path] = {}
    for option, text in (("--sarif", args.sarif), ("--treemap", args.treemap)):
        if text:  # one file for both would hold only the last
            kept = (*files, *written.values())
            written[option] = check_output_file(caller.path(text), option, kept)
    options = AuditOptions(
        excludes=tuple(args.exclude),
        fails_on=args.fail_on,
        as_json=args.json,
        sarif=written.get("--sarif"),
        treemap=written.get("--treemap"),
        folder=caller.path("."),
    )
    entries = () if args.any_wheel else load_catalogue(caller.roots)
    archs = sorted_archs(args.arch)
    audit_session(wheels, lambda wheel: contract_of_wheel(wheel, entries, archs), console, options)
