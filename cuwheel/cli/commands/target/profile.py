"""The session `profile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel import pipeline
from cuwheel.build.launcher.events import EVENTS_LOG, read_events
from cuwheel.build.summary import print_summary
from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_choice import named_targets
from cuwheel.cli.target_jobs import requested_jobs
from cuwheel.cli.target_options import add_target_options, add_targets
from cuwheel.errors import UsageError
from cuwheel.profile.report import print_profile, profile_document, write_profile
from cuwheel.system.output.terminal import report_terminal

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console
    from cuwheel.workspace.job import Job


def profile_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser("profile", "Show how the last build used time and memory.")
    add_targets(parser)
    add_target_options(parser)
    parser.add_argument(
        "--dist", metavar="DIR", help="folder for the wheel if it has to be built first"
    )
    add_report_options(
        parser,
        quiet="print only the paths of picture and trace",
        verbose="list every compile, not only the slowest",
    )
    return parser


def run_profile(given: argparse.Namespace, console: Console) -> None:
    """Show where the time of the last build went; build first where there was none."""
    for entry, tag in named_targets("profile", given.targets):
        for job in requested_jobs(entry, tag, given, console):
            _profile(job, console, as_json=given.json)


def _profile(job: Job, console: Console, *, as_json: bool) -> None:
    target, workspace = job.target, job.workspace
    log = workspace.log_folder / EVENTS_LOG
    if not log.is_file():
        print_summary(pipeline.make(job, keep_work=False), workspace.dist, console)
    if not log.is_file():
        raise UsageError(
            f"there is no record of the compiles of {target.id}",
            why=f"its wheel is up to date, and {log} doesn't exist",
            fix=f"nox -s build-{target.name} -- --no-cache, then run this again",
        )
    made = write_profile(read_events(log), workspace.work / pipeline.PROFILE, target.id)
    if as_json:
        console.answer(profile_document(made, target.id))
    else:
        print_profile(made, report_terminal(), console)
