"""The session `diagnose`."""

from __future__ import annotations

import argparse
from functools import partial

from cuwheel.base.caller import Caller
from cuwheel.base.system.console import Console
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.check.diagnose.diagnose import (
    DiagnoseOptions,
    FitTargets,
    callers_environment,
    diagnose_session,
)
from cuwheel.check.diagnose.verdict import FAILS_ON
from cuwheel.cli.parser import ENVIRONMENT, JSON_TEXT, Option, Parser, new_parser


def diagnose_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "diagnose",
        "Check whether GPU packages work on this machine, and if not, say why.",
        {
            "packages PACKAGE*": "packages to check; default: all packages of the environment with "
            "GPU code",
            **ENVIRONMENT,
            "--verify-files": "verify every file of the packages against its hash in RECORD",
            "--targets": "show which of the recipes' targets fit this machine",
            f"--fail-on {{{','.join(FAILS_ON)}}}": Option(
                "the lowest verdict that makes the session fail; default: broken", default="broken"
            ),
            "--quiet": "print only problems, and the verdict",
            "--verbose": "list every package with GPU code",
            "--json": JSON_TEXT,
        },
    )


def run_diagnose(args: argparse.Namespace, console: Console, caller: Caller) -> int:
    """Diagnose the machine; return the exit code."""
    options = DiagnoseOptions(
        packages=tuple(args.packages),
        python=args.python,
        verifies_files=args.verify_files,
        start=caller.path("."),
        project=caller.project,
        fails_on=args.fail_on,
        as_json=args.json,
    )
    environ = callers_environment(caller.environ)
    entries = load_catalogue(caller.roots)
    fit = _fit_targets(entries, console, caller) if args.targets else None
    recipes = [entry.recipe for entry in entries if entry.recipe]
    return diagnose_session(options, console, environ, recipes, fit)


def _fit_targets(
    entries: tuple[CatalogueEntry, ...], console: Console, caller: Caller
) -> FitTargets:
    # A build's checks import many modules, for this option alone.
    from cuwheel.build.pipeline.target_fit import fit_targets  # noqa: PLC0415
    from cuwheel.build.workspace.workspace import bare_workspace  # noqa: PLC0415

    return partial(fit_targets, entries, bare_workspace(console, caller))
