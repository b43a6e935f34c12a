"""The session `pick`: which wheel fits, and the line to type."""

from __future__ import annotations

import os
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from cuwheel.diagnose.rules.installer import Installer
from cuwheel.diagnose.session import callers_environment
from cuwheel.errors import DownloadError
from cuwheel.fetch.urls import redact_url
from cuwheel.pick.choice import Offers, ask_indexes, choose
from cuwheel.pick.commands import commands_of, is_known_by_version
from cuwheel.pick.document import pick_document
from cuwheel.pick.machine import parse_machine, read_here
from cuwheel.pick.report import Report, report_lines
from cuwheel.pypi.indexes import configured_indexes
from cuwheel.pypi.pages import answered
from cuwheel.system.output.terminal import report_terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packaging.requirements import Requirement

    from cuwheel.pick.machine import TargetMachine
    from cuwheel.system.console import Console

INDEXES_VARIABLE = "CUWHEEL_INDEXES"  # addresses, separated by blanks
NONE_FITS = 1  # exit code
_LOGIN = (answered(HTTPStatus.UNAUTHORIZED), answered(HTTPStatus.FORBIDDEN))


@dataclass(frozen=True, kw_only=True)
class PickOptions:
    """What is asked.

    Attributes:
        wanted: the project, perhaps with the versions that count.
        python: an interpreter, an environment's folder or a conda environment's name.
        paper: another machine, as `--for` has it; empty: this one.
        indexes: addresses; none: `listed`, then those that pip and uv are configured for.
        listed: of `CUWHEEL_INDEXES`.
        start: the folder that paths are relative to.
        as_json: print data instead of text.
    """

    wanted: Requirement
    python: str | None = None
    paper: str = ""
    indexes: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    start: Path
    as_json: bool = False


def pick_session(
    asked: PickOptions, console: Console, hint: Callable[[str, TargetMachine], str]
) -> int:
    """Find the wheel and print it.

    Args:
        asked: what.
        console: for what is said meanwhile; the report goes to standard output.
        hint: what to do where no wheel of a project fits a machine.

    Returns:
        The exit code: 0 where a wheel fits, else 1.

    Raises:
        InterpreterNotFoundError: there is no such interpreter, or it can't be asked.
        UsageError: the machine on paper is malformed.
        DownloadError: no address has it, or none could be asked.
    """
    environ = callers_environment(os.environ)
    with console.live("examining machine and indexes"):
        report = find(asked, environ, hint)
    if asked.as_json:
        console.answer(pick_document(report))
    else:
        terminal = report_terminal()
        amount = {"is_quiet": console.is_quiet, "is_verbose": console.is_verbose}
        for line in report_lines(report, **amount):
            terminal.print(line, soft_wrap=True, markup=False, highlight=False)
    return 0 if report.choice.taken else NONE_FITS


def find(
    asked: PickOptions, environ: dict[str, str], hint: Callable[[str, TargetMachine], str]
) -> Report:
    """Ask machine and indexes, and choose.

    Args:
        asked: what.
        environ: of the caller.
        hint: as for `pick_session`.

    Raises:
        CuwheelError: as `pick_session`.
    """
    here = None if asked.paper else read_here(asked.python, environ, asked.start)
    machine = here.machine if here else parse_machine(asked.paper)
    installer = here.installer if here else Installer(python="", has_pip=True)
    configured = configured_indexes(environ)
    addresses = asked.indexes or (*asked.listed, *configured)
    offers = ask_indexes(asked.wanted, addresses)
    raise_if_silent(asked.wanted.name, offers)
    choice = choose(offers, machine, asked.wanted)
    name, taken = asked.wanted.name, choice.taken
    by_version = is_known_by_version(choice, offers, configured)
    return Report(
        wanted=asked.wanted,
        machine=machine,
        offers=offers,
        choice=choice,
        commands=commands_of(taken, asked.wanted, installer, by_version=by_version)
        if taken
        else {},
        obstacle=f"{installer.obstacle.what}: {installer.obstacle.cause}"
        if installer.obstacle
        else "",
        hint="" if taken else hint(name, machine),
    )


def raise_if_silent(project: str, offers: Offers) -> None:
    """See that somebody has a project.

    Args:
        project: its name.
        offers: what was answered.

    Raises:
        DownloadError: nobody has it, or nobody could be asked; its text says which.
    """
    if offers.counts:
        return
    elsewhere = f"name where it is: --index ADDRESS, or {INDEXES_VARIABLE}"
    unasked = [why for why in offers.faults.values() if why.kind == "unasked"]
    what, fix = f"no index has {project}", elsewhere
    if unasked:
        is_all = len(unasked) == len(offers.faults)
        what = (
            f"no index {'could be queried for' if is_all else 'that could be queried has'} "
            f"{project}"
        )
        login = "put user and password into its address, https://USER:PASSWORD@HOST/"
        again = "check its address and the network, and try again"
        fix = f"{login if any(why in _LOGIN for why in unasked) else again}; or {elsewhere}"
    said = "; ".join(f"{redact_url(one)}: {why}" for one, why in offers.faults.items())
    raise DownloadError(what, why=said, fix=fix)
