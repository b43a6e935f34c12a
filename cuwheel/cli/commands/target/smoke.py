"""The session `smoke`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cuwheel import pipeline
from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_choice import named_targets
from cuwheel.cli.target_jobs import requested_jobs
from cuwheel.cli.target_options import add_target_options, add_targets
from cuwheel.system.output.documents import Schema

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console
    from cuwheel.workspace.records import SmokeResult


@dataclass(frozen=True, kw_only=True)
class SmokeDocument:
    """What `smoke --json` prints, one line for each target.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        smoke: the result.
    """

    SCHEMA: ClassVar[Schema] = Schema("smoke", "1.1")

    target: str
    smoke: SmokeResult


def smoke_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "smoke", "Install the last built wheel with its declared requirements, and import it."
    )
    add_targets(parser)
    add_target_options(parser)
    add_report_options(
        parser,
        quiet="print only warnings and errors",
        verbose="list each loaded library with its supplier",
        as_json="print the results to standard output, one JSON object per line",
    )
    return parser


def run_smoke(given: argparse.Namespace, console: Console) -> None:
    """Run the stage `smoke` on the last built wheel of each target."""
    for entry, tag in named_targets("smoke", given.targets):
        for job in requested_jobs(entry, tag, given, console):
            found = pipeline.make_stage("smoke", job)
            if given.json:
                console.answer(SmokeDocument(target=job.target.id, smoke=found))
            console.print_durations()
