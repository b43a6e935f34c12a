"""The session `diagnose`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.diagnose.session import DiagnoseOptions, diagnose_session
from cuwheel.diagnose.verdict import FAILS_ON
from cuwheel.model.catalogue import load_catalogue
from cuwheel.paths import given_path, project_roots

if TYPE_CHECKING:
    import argparse

    from cuwheel.diagnose.session import FitTargets
    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.system.console import Console


def diagnose_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "diagnose", "Check whether GPU packages work on this machine, and if not, say why."
    )
    add = parser.add_argument
    add(
        "packages",
        nargs="*",
        metavar="PACKAGE",
        help="packages to check; default: all packages of the environment with GPU code",
    )
    add(
        "--python",
        metavar="PATH|ENVIRONMENT",
        help="an interpreter, the folder of an environment, or a conda environment's name; "
        "default: the active environment, else the `python3` on PATH",
    )
    add(
        "--verify-files",
        action="store_true",
        help="verify every file of the packages against its hash in RECORD",
    )
    add(
        "--targets", action="store_true", help="show which of the recipes' targets fit this machine"
    )
    add(
        "--fail-on",
        choices=FAILS_ON,
        default="broken",
        help="the lowest verdict that makes the session fail; default: broken",
    )
    add_report_options(
        parser,
        quiet="print only problems, and the verdict",
        verbose="list every package with GPU code",
    )
    return parser


def run_diagnose(given: argparse.Namespace, console: Console) -> int:
    """Diagnose the machine; gives back the exit code."""
    asked = DiagnoseOptions(
        packages=tuple(given.packages),
        python=given.python,
        verifies_files=given.verify_files,
        start=given_path("."),
        fails_on=given.fail_on,
        as_json=given.json,
    )
    entries = load_catalogue(project_roots())
    fit = _fit_targets(entries, console) if given.targets else None
    recipes = [entry.recipe for entry in entries if entry.recipe]
    return diagnose_session(asked, console, recipes, fit)


def _fit_targets(entries: tuple[CatalogueEntry, ...], console: Console) -> FitTargets:
    # What a build needs of the machine is a long list of modules, for this option alone.
    from cuwheel.diagnose.rules.target_fit import fit_targets  # noqa: PLC0415
    from cuwheel.workspace.workspace import bare_workspace  # noqa: PLC0415

    return partial(fit_targets, entries, bare_workspace(console))
