"""What `pick` says to people, within 80 columns."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.fetch.urls import redact_url
from cuwheel.pick.machine import CPU_ONLY
from cuwheel.pypi.pages import lacks
from cuwheel.system.output.terminal import one_line
from cuwheel.system.quantities import plural, show_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packaging.requirements import Requirement

    from cuwheel.pick.choice import Choice, Offers
    from cuwheel.pick.fit import Judgement
    from cuwheel.pick.machine import TargetMachine
    from cuwheel.pick.reason import Reason

_WIDTH = 80  # columns; lines to copy are as long as they are
_LABEL = 12  # columns of the words on the left


@dataclass(frozen=True, kw_only=True)
class Report:
    """An answer.

    Attributes:
        wanted: what was asked for.
        machine: for which machine.
        offers: what the addresses have.
        choice: what was found.
        commands: the line to type for each installer; empty ones can't install.
        obstacle: why nothing can be installed there; empty where it can.
        hint: what to do where nothing fits.
    """

    wanted: Requirement
    machine: TargetMachine
    offers: Offers
    choice: Choice
    commands: Mapping[str, str]
    obstacle: str = ""
    hint: str = ""


def report_lines(report: Report, *, is_quiet: bool, is_verbose: bool) -> Iterator[str]:
    """The report for people.

    Args:
        report: what was found.
        is_quiet: the wheel and the first line to type, or the reasons, alone.
        is_verbose: each address with what it has, too.
    """
    if not is_quiet:
        yield from _facts("machine", _machine_words(report.machine))
        yield from _index_lines(report, is_verbose=is_verbose)
    taken = report.choice.taken
    yield from _taken_lines(report, taken, is_quiet=is_quiet) if taken else _none_lines(report)


def _machine_words(machine: TargetMachine) -> Iterator[str]:
    kind = "PyPy" if machine.pypy_abi else "Python"
    yield f"{kind} {machine.python}" + " without GIL" * machine.is_free_threaded
    yield f"{machine.platform}, glibc {machine.glibc or 'not known'}"
    gpus = ", ".join(f"sm_{arch}" for arch in machine.archs)
    yield f"GPU {gpus or 'not known'}, driver {machine.driver or 'not known'}"
    frameworks = ", ".join(" ".join(one) for one in machine.frameworks)
    none = "no framework" if machine.is_here else "framework not known"
    cuda = "no CUDA" if machine.cuda == CPU_ONLY else f"CUDA {machine.cuda or 'not known'}"
    yield f"{frameworks or none}, {cuda}"


def _index_lines(report: Report, *, is_verbose: bool) -> Iterator[str]:
    found = report.offers
    if is_verbose:
        for address, count in found.counts.items():
            yield from _facts("index", [f"{redact_url(address)}: {plural(count, 'file')}"])
        yield from _facts("judged", [plural(report.choice.others, "wheel")])
    for address, why in found.faults.items():
        if why == lacks(report.wanted.name) and not is_verbose:
            continue
        yield from _facts("nothing", [f"{redact_url(address)}: {why}"])


def _taken_lines(report: Report, taken: Judgement, *, is_quiet: bool) -> Iterator[str]:
    yield f"{'fits':<{_LABEL}}{one_line(taken.offer.name)}"
    if not is_quiet:
        yield from _facts("", _wheel_words(taken))
        yield from _reasons("unknown", taken.unknown)
        if taken.extras and not report.wanted.extras:
            text = f"{', '.join(taken.extras)}: 'name[extra]' installs what one of them requires"
            yield from _facts("extras", [text])
        newer = report.choice.newer
        if newer:
            yield from _facts("newer", [f"{newer.offer.version} is not compatible:"])
            yield from _reasons("", newer.reasons)
    for name, line in report.commands.items():
        if line:
            yield f"{name:<{_LABEL}}{line}"
        if line and is_quiet:
            return
    if report.obstacle:
        yield from _facts("install", [report.obstacle])


def _none_lines(report: Report) -> Iterator[str]:
    choice = report.choice
    where = f"{report.wanted.name} {report.wanted.specifier}".strip()
    nearest = choice.nearest
    if nearest:
        yield f"{'no':<{_LABEL}}wheel of {where} is compatible; the closest is"
        yield f"{'':<{_LABEL}}{one_line(nearest.offer.name)}"
        yield from _facts("", _wheel_words(nearest))
        yield from _reasons("because", nearest.reasons)
        yield from _reasons("unknown", nearest.unknown)
    else:
        yield from _facts("no", [f"wheel of {where} is on any of the indexes"])
    if choice.is_cut:
        text = "only the newest wheels were read; name a version to check older ones"
        yield from _facts("not all", [text])
    if choice.sdist:
        text = f"{one_line(choice.sdist.name)} exists: pip would compile it on this machine"
        yield from _facts("source", [text])
    if report.hint:
        yield from _facts("to get one", [report.hint])


def _wheel_words(one: Judgement) -> Iterator[str]:
    offer = one.offer
    size = f", {show_size(offer.size)}" if offer.size is not None else ""
    yield f"from {redact_url(offer.index)}{size}"
    if one.cuda:
        yield f"CUDA {one.cuda}"
    if one.archs:
        yield one.archs
    if not offer.sha256:
        yield "the index gives no SHA-256"


def _reasons(label: str, reasons: Iterable[Reason]) -> Iterator[str]:
    for one in reasons:
        yield from _facts(label, [f"{one.kind}: {one.text}"])
        label = ""


def _facts(label: str, texts: Iterable[str]) -> Iterator[str]:
    """One fact a line, wrapped below each other behind their label."""
    for text in texts:
        yield from textwrap.wrap(
            one_line(text),
            _WIDTH,
            initial_indent=f"{label:<{_LABEL}}",
            subsequent_indent=" " * _LABEL,
            break_long_words=False,
            break_on_hyphens=False,
        )
        label = ""
