"""The session `nightly`."""

from __future__ import annotations

import argparse
import sys

from cuwheel.base.caller import Caller
from cuwheel.base.system.console import Console, silent_console
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.workspace.request import OF_RUN, read_count
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.cli.cell_choice import CellChooser
from cuwheel.cli.parser import Option, Parser, new_parser
from cuwheel.cli.target_choice import (
    TARGETS,
    build_options,
    folder_of,
    request_of,
)
from cuwheel.lab.day_zero.day_zero import new_frameworks
from cuwheel.lab.nightly.cycle import NightlyOptions
from cuwheel.lab.nightly.nightly import CONTINUE, run_nightly_cycle
from cuwheel.lab.perf.sanitizer import find_sanitizer

_TIME_LIMIT = 300  # minutes
_KEEP = 30  # reports


def nightly_parser() -> Parser:
    """Return the parser of the session."""
    text = TARGETS["targets TARGET*"]
    return new_parser(
        "nightly",
        "Diagnose the machine, build missing and outdated wheels, test and measure all of them, "
        "and write a report; docs/how-to/nightly.md.",
        {
            "targets TARGET*": f"{text}; default: all that this machine can build",
            "--python 3.12...": "Python releases, repeatable; default: each that the recipe and "
            "its framework support",
            "--update": "run `git pull --ff-only` in the project first",
            "--quick": "measure less: `perf -- --quick`",
            "--to DIR": "folder of the reports, including `latest`; default: nightly/ in the "
            "checkout",
            "--time-limit MINUTES": Option(
                "for the whole cycle: what still runs then is terminated, and the report is "
                f"written; default: {_TIME_LIMIT}",
                read=read_count,
                default=_TIME_LIMIT,
            ),
            "--keep N": Option(
                f"number of newest reports to keep; default: {_KEEP}",
                read=read_count,
                default=_KEEP,
            ),
            "--on-failure COMMAND": Option(
                "shell command to run if a step failed or the time limit was reached: the "
                "summary is its input, CUWHEEL_NIGHTLY_REPORT the report's path",
                default="",
            ),
            "--no-wait": "fail if another nightly run uses the GPU, instead of waiting for it",
            f"{CONTINUE} DIR": argparse.SUPPRESS,
            "--quiet": "print only what failed",
            "--verbose": "print the last output of each step, and its log",
            "--json": "print the report as JSON to standard output",
            **build_options("arch", *OF_RUN),
        },
    )


def run_nightly(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Run the cycle."""
    request = request_of(
        args, caller, targets=(), python=(), quiet=False, verbose=False, json=False
    )
    # A target means all of its cells; cells may be named themselves.
    only = tuple(name for target in args.targets for name in (target, f"{target}-*"))
    python = tuple(args.python)
    options = NightlyOptions(
        choose=lambda output: CellChooser(
            request=request, console=output, caller=caller, only=only, python=python
        ).cells(),
        are_named=bool(args.targets),
        is_quick=args.quick,
        has_sanitizer=find_sanitizer(caller.environ) is not None,
        reports=folder_of(args.to, caller, "nightly"),
        time_limit=args.time_limit,
        keep=args.keep,
        on_failure=args.on_failure,
        waits=not args.no_wait,
        updates=args.update,
        as_json=args.json,
        arguments=tuple(sys.argv[1:]),
        new_frameworks=lambda: () if args.targets or args.offline else _new_frameworks(caller),
        day_zero=request.argv("arch", "work", "jobs", "sandbox"),
        continues=caller.path(args.continue_run) if args.continue_run else None,
    )
    run_nightly_cycle(options, console, caller)


def _new_frameworks(caller: Caller) -> tuple[str, ...]:
    workspace = bare_workspace(silent_console(), caller)
    return new_frameworks(load_catalogue(caller.roots), workspace)
