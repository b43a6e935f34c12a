"""The session `attestations`."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.system.console import Console
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.cli.parser import Parser, existing, new_parser
from cuwheel.publish.rebuild.attest.check import check_policy, find_statements, raise_if_refused
from cuwheel.publish.rebuild.attest.policy import read_policy
from cuwheel.publish.rebuild.published import is_address

STATEMENTS = {
    "--statements DIR|FILE|ADDRESS...": "a folder or URL with rebuilders' statements, besides the "
    "wheel's own folder; repeatable"
}


def attestations_parser() -> Parser:
    """Return the parser of the session."""
    parser = new_parser(
        "attestations",
        "Check whether enough independent rebuilders got the same bytes as a wheel.",
        {"wheels WHEEL+": "files"},
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        required=True,
        help="which rebuilders' statements count, and how many are needed",
    )
    parser.add_options(
        {
            **STATEMENTS,
            "--quiet": "print nothing if the wheels pass the policy",
            "--verbose": "no effect",
            "--json": "print a verdict for each wheel to standard output, one JSON object per line",
        }
    )
    return parser


def places_of(args: argparse.Namespace, caller: Caller) -> tuple[str | Path, ...]:
    """Return the places of `--statements`: addresses and paths."""
    return tuple(text if is_address(text) else caller.path(text) for text in args.statements)


def run_attestations(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Check wheels with a policy; raise an error for the first that doesn't meet it."""
    policy = read_policy(caller.path(args.policy))
    places = places_of(args, caller)
    verdicts, workspace = [], bare_workspace(console, caller)
    for text in args.wheels:
        wheel = existing(caller.path(text), "the command line", "give the path of a wheel")
        statements = find_statements(wheel, policy, places, console)
        verdicts.append(check_policy(wheel, policy, statements, workspace))
        if args.json:
            console.answer(verdicts[-1])
    for verdict in verdicts:
        raise_if_refused(verdict)
        console.note(verdict.summary)
        for reason in verdict.reasons:
            console.note(reason)
