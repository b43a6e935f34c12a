"""The command `pick`: a wheel for a machine, and the lines that install it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path

from packaging.requirements import Requirement

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.indexes.indexes import configured_indexes
from cuwheel.base.fetch.indexes.pages import answered
from cuwheel.base.fetch.urls import without_credentials
from cuwheel.base.fetch.web import certificate_fix
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.check.diagnose.rules.installer import Installer
from cuwheel.check.pick.choice import Choice, Offers, choose, query_indexes, query_sources
from cuwheel.check.pick.document import (
    PickDocument,
    describe_indexes,
    describe_wheel,
    fault_texts,
)
from cuwheel.check.pick.known_sources import Sources
from cuwheel.check.pick.machine import TargetMachine, parse_machine, read_here
from cuwheel.check.pick.report import report_lines

INDEXES_VARIABLE = "CUWHEEL_INDEXES"  # addresses, separated by blanks
NONE_FITS = 1  # exit code
_LOGIN = (answered(HTTPStatus.UNAUTHORIZED), answered(HTTPStatus.FORBIDDEN))


@dataclass(frozen=True, kw_only=True)
class PickOptions:
    """Options of the session.

    Attributes:
        paper: another machine, in the format of `--for`; empty: this one.
        indexes: addresses; empty: `listed`, then those in the configuration of pip and uv.
        listed: in `CUWHEEL_INDEXES`.
        sources: the known ones to query where no wheel of the caller's indexes fits.
        start: the base of relative paths.
    """

    wanted: Requirement
    python: str | None = None
    paper: str = ""
    indexes: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    sources: Sources = Sources()  # noqa: RUF009 - frozen
    start: Path
    as_json: bool = False


def pick_session(
    options: PickOptions,
    console: Console,
    environ: dict[str, str],
    hint: Callable[[Requirement, TargetMachine], str],
) -> int:
    """Find the wheel and print it.

    Args:
        console: for the progress; the report goes to standard output.
        environ: of `callers_environment`.

    Returns:
        The exit code: 0 if a wheel fits, else 1.

    Raises:
        InterpreterNotFoundError: there is no such interpreter, or it can't be run.
        UsageError: the machine on paper is malformed.
        DownloadError: no index has the project, or none could be queried.
    """
    with console.live("examining machine and indexes"):
        report = find(options, environ)
    if options.as_json:
        console.answer(report)
    else:
        advice = "" if report.fits else hint(options.wanted, report.machine)
        amount = {"is_quiet": console.is_quiet, "is_verbose": console.is_verbose}
        terminal = report_terminal()
        for line in report_lines(report, options.wanted, advice, **amount):
            terminal.print(line, soft_wrap=True, markup=False, highlight=False)
    return 0 if report.fits else NONE_FITS


def find(options: PickOptions, environ: dict[str, str]) -> PickDocument:
    """Read the machine and the indexes, and choose a wheel; raises as `pick_session`."""
    here = None if options.paper else read_here(options.python, environ, options.start)
    machine = here.machine if here else parse_machine(options.paper)
    installer = here.installer if here else Installer(python="", has_pip=True)
    wanted, configured = options.wanted, configured_indexes(environ)
    offers = query_indexes(wanted, options.indexes or (*options.listed, *configured))
    choice = choose(offers, machine, wanted)
    sources = options.sources.of(wanted.name)
    if choice.taken is None and sources:
        offers += query_sources(wanted, sources)
        choice = choose(offers, machine, wanted)
    raise_if_silent(wanted.name, offers)
    obstacle = installer.obstacle
    return PickDocument(
        project=wanted.name,
        specifier=str(wanted.specifier),
        fits=choice.taken is not None,
        machine=machine,
        wheel=describe_wheel(choice.taken, offers),
        nearest=describe_wheel(choice.nearest, offers),
        newer=describe_wheel(choice.newer, offers),
        commands=_commands(choice, offers, wanted, installer, configured),
        obstacle=f"{obstacle.what}: {obstacle.cause}; {obstacle.fix}" if obstacle else "",
        sdist=choice.sdist.name if choice.sdist else None,
        indexes=describe_indexes(offers),
        judged=choice.others,
        all_read=not choice.is_cut,
        all_answered=not offers.silent,
    )


def _commands(
    choice: Choice,
    offers: Offers,
    wanted: Requirement,
    installer: Installer,
    configured: Collection[str],
) -> dict[str, str]:
    """Return the command for each installer, by its name; empty if it can't install there."""
    if choice.taken is None:
        return {}
    offer, extras = choice.taken.offer, ",".join(sorted(wanted.extras))
    name = f"{wanted.name}[{extras}]" if extras else wanted.name
    url = without_credentials(offer.url)
    requirement = f"{name} @ {url}" + f"#sha256={offer.sha256}" * bool(offer.sha256)
    # Where installers choose the same wheel by its version alone, that is enough.
    lacking = {index for index, fault in offers.faults.items() if fault.kind != "unasked"}
    is_only_index = {*configured} - lacking == {offer.index}
    if offer.is_in_index and is_only_index and not choice.rivals:
        requirement = f"{name}=={offer.version}"
    both = {"pip": replace(installer, has_pip=True), "uv": replace(installer, has_pip=False)}
    requirements = (*choice.taken.needs, requirement)
    return {name: variant.install(*requirements) for name, variant in both.items()}


def raise_if_silent(project: str, offers: Offers) -> None:
    """Raise DownloadError if no index has a project, or none could be queried."""
    if offers.counts:
        return
    elsewhere = f"name where it is: --index ADDRESS, or {INDEXES_VARIABLE}"
    unasked = [why for why in offers.faults.values() if why.kind == "unasked"]
    what, fix = f"no index has {project}", elsewhere
    if unasked:
        is_all = len(unasked) == len(offers.faults)
        queried = "could be queried for" if is_all else "that could be queried has"
        what = f"no index {queried} {project}"
        login = "put user and password into its address, https://USER:PASSWORD@HOST/"
        refused = next(filter(None, map(certificate_fix, unasked)), "")
        again = refused or "check its address and the network, and try again"
        fix = f"{login if any(why in _LOGIN for why in unasked) else again}; or {elsewhere}"
    faults = "; ".join(fault_texts(describe_indexes(offers)))
    raise DownloadError(what, why=faults, fix=fix)
