"""The session `nightly`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from cuwheel.cli.cell_choice import chosen_cells
from cuwheel.cli.parser import Parser, new_parser, read_count
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_options import (
    add_arch,
    add_build_options,
    add_targets,
    add_work_options,
    refuse_platform,
)
from cuwheel.nightly.session import CONTINUE, NightlyOptions, nightly_session
from cuwheel.paths import given_path, project_folder

if TYPE_CHECKING:
    from cuwheel.system.console import Console


_TIME_LIMIT = 300  # minutes
_KEEP = 30  # reports


def nightly_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "nightly",
        "Diagnose the machine, build missing and outdated wheels, test and measure all of them, "
        "and write a report; docs/how-to/nightly.md.",
    )
    add_targets(parser, more="; default: all that this machine can build")
    add = parser.add_argument
    add(
        "--python",
        action="append",
        default=[],
        metavar="3.12",
        help="Python releases, repeatable; default: each that the recipe and its framework support",
    )
    add("--update", action="store_true", help="run `git pull --ff-only` in the checkout first")
    add("--quick", action="store_true", help="measure less: `perf -- --quick`")
    add(
        "--to",
        metavar="DIR",
        help="folder of the reports, including `latest`; default: nightly/ in the checkout",
    )
    add(
        "--time-limit",
        type=read_count,
        default=_TIME_LIMIT,
        metavar="MINUTES",
        help="for the whole cycle: what still runs then is terminated, and the report is written; "
        f"default: {_TIME_LIMIT}",
    )
    add(
        "--keep",
        type=read_count,
        default=_KEEP,
        metavar="N",
        help=f"number of newest reports to keep; default: {_KEEP}",
    )
    add(
        "--on-failure",
        default="",
        metavar="COMMAND",
        help="shell command to run if a step failed or the time limit was reached: the summary is "
        "its input, CUWHEEL_NIGHTLY_REPORT the report's path",
    )
    add(
        "--no-wait",
        action="store_true",
        help="fail if another nightly run uses the GPU, instead of waiting for it",
    )
    add(CONTINUE, metavar="DIR", help=argparse.SUPPRESS)
    add_report_options(
        parser,
        quiet="print only what failed",
        verbose="print the last output of each step, and its log",
        as_json="print the report as JSON to standard output",
    )
    add_arch(parser)
    add_work_options(parser)
    add_build_options(parser)
    refuse_platform(
        parser,
        why="it diagnoses this machine, and measures what it has built on this machine's GPU",
        fix="build for another one with `nox -s matrix -- build --platform …`, from cron or a "
        "timer if you like; run `nox -s nightly` on such a machine",
    )
    parser.set_defaults(
        **{name: [] for name in ("cuda", "framework")},
        **dict.fromkeys(
            ("changed_since", "link", "toolchain", "source", "platform", "target_root")
        ),
        no_cache=False,
        build_tag=None,
        replace=False,
    )
    return parser


def run_nightly(given: argparse.Namespace, console: Console) -> None:
    """Run the cycle."""
    # A target stands for its cells, which may be named themselves.
    given.only = [name for target in given.targets for name in (target, f"{target}-*")]
    folders = _words(given, "work")
    common = [word for arch in given.arch for word in ("--arch", arch)]
    common += [*folders, *_flags(given, "offline", "any_driver")]
    asked = NightlyOptions(
        choose=lambda told: chosen_cells(given, told),
        are_named=bool(given.targets),
        build=(*common, *_words(given, "dist"), "--jobs", given.jobs, "--sandbox", given.sandbox),
        smoke=tuple(common),
        perf=(*_words(given, "dist"), *_flags(given, "offline", "quick")),
        reports=given_path(given.to) if given.to else project_folder() / "nightly",
        time_limit=given.time_limit,
        keep=given.keep,
        on_failure=given.on_failure,
        waits=not given.no_wait,
        updates=given.update,
        as_json=given.json,
        arguments=tuple(sys.argv[1:]),
        continues=given_path(given.continue_run) if given.continue_run else None,
    )
    nightly_session(asked, console)


def _words(given: argparse.Namespace, *names: str) -> list[str]:
    """Options that name folders, where they are given."""
    values = {name: getattr(given, name) for name in names}
    return [
        word
        for name, value in values.items()
        if value
        for word in (f"--{name}", str(given_path(value)))
    ]


def _flags(given: argparse.Namespace, *names: str) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names if getattr(given, name)]
