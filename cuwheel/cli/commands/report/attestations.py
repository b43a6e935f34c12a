"""The session `attestations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cuwheel.attest.check import check_policy, find_statements, raise_if_refused
from cuwheel.attest.policy import read_policy
from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.errors import UsageError
from cuwheel.paths import given_path
from cuwheel.system.output.documents import Schema
from cuwheel.verify.address import is_address

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.attest.check import Verdict
    from cuwheel.system.console import Console


@dataclass(frozen=True, kw_only=True)
class RefusedStatement:
    """A statement that doesn't count: where it is, and why."""

    statement: str
    why: str


@dataclass(frozen=True, kw_only=True)
class SilentRebuilder:
    """A rebuilder without a statement that counts: the name, and why."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class AttestationsDocument:
    """What `attestations --json` prints, one line for each wheel.

    Attributes:
        wheel: its file name.
        sha256: of it.
        threshold: how many rebuilders it needs.
        is_met: whether it passes the policy.
        counted: names of the rebuilders who got the same bytes, each once.
        refused: statements that don't count.
        silent: rebuilders without a statement that counts.
    """

    SCHEMA: ClassVar[Schema] = Schema("attestations", "1.0")

    wheel: str
    sha256: str
    threshold: int
    is_met: bool
    counted: tuple[str, ...]
    refused: tuple[RefusedStatement, ...]
    silent: tuple[SilentRebuilder, ...]


def attestations_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "attestations", "Check whether enough independent rebuilders got the same bytes as a wheel."
    )
    add = parser.add_argument
    add("wheels", nargs="+", metavar="WHEEL", help="files")
    add(
        "--policy",
        metavar="FILE",
        required=True,
        help="which rebuilders' statements count, and how many are needed",
    )
    add_statements_option(parser)
    add_report_options(
        parser,
        quiet="print nothing if the wheels pass the policy",
        verbose="no effect",
        as_json="print a verdict for each wheel to standard output, one JSON object per line",
    )
    return parser


def add_statements_option(parser: Parser) -> None:
    """Add where rebuilders' statements are."""
    parser.add_argument(
        "--statements",
        action="append",
        default=[],
        metavar="DIR|FILE|ADDRESS",
        help="a folder or URL with rebuilders' statements, besides the wheel's own folder; "
        "repeatable",
    )


def places_of(given: argparse.Namespace) -> tuple[str | Path, ...]:
    """What that named."""
    return tuple(text if is_address(text) else given_path(text) for text in given.statements)


def run_attestations(given: argparse.Namespace, console: Console) -> None:
    """Hold wheels to a policy; the first that doesn't meet it ends the session with an error."""
    policy = read_policy(given_path(given.policy))
    places = places_of(given)
    verdicts = []
    for text in given.wheels:
        wheel = given_path(text)
        if not wheel.is_file():
            raise UsageError(
                f"{wheel} doesn't exist",
                why="there is no file of this name",
                fix="give the path of a wheel",
            )
        statements = find_statements(wheel, policy, places, console)
        verdicts.append(check_policy(wheel, policy, statements, console=console))
        if given.json:
            console.answer(_document(verdicts[-1]))
    for verdict in verdicts:
        raise_if_refused(verdict)
        for line in _told(verdict):
            console.note(line)


def _document(verdict: Verdict) -> AttestationsDocument:
    return AttestationsDocument(
        wheel=verdict.wheel,
        sha256=verdict.sha256,
        threshold=verdict.threshold,
        is_met=verdict.is_met,
        counted=verdict.counted,
        refused=tuple(RefusedStatement(statement=one, why=why) for one, why in verdict.refused),
        silent=tuple(SilentRebuilder(name=one, why=why) for one, why in verdict.silent),
    )


def _told(verdict: Verdict) -> Iterable[str]:
    """A verdict that lets a wheel pass: the sum, and what didn't count all the same."""
    yield verdict.summary
    yield from (f"{what}: {reason}" for what, reason in (*verdict.refused, *verdict.silent))
