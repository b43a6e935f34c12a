"""The report of `pick` as text, within 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement

from cuwheel.base.fetch.indexes.pages import lacks
from cuwheel.base.system.output.terminal import one_line
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.pick.document import (
    AskedIndex,
    PickDocument,
    PickedWheel,
    fault_texts,
    silent_places,
    silent_sources,
)
from cuwheel.check.pick.machine import CPU_ONLY, TargetMachine
from cuwheel.check.pick.tags import Reason

_WIDTH = 80  # columns; lines to copy aren't wrapped
_LABEL = 12  # columns of the labels on the left
_COMMAND = re.compile(r"`[^`]+`")
_BLANK = "\x00"  # of a command, where no line may end


def report_lines(
    report: PickDocument, wanted: Requirement, advice: str, *, is_quiet: bool, is_verbose: bool
) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        advice: how to get a wheel where none fits; empty: unknown.
    """
    if not is_quiet:
        yield from facts("machine", machine_facts(report.machine))
        yield from _index_lines(report, is_verbose=is_verbose)
    wheel = report.wheel
    yield from (
        _taken_lines(report, wheel, has_extras=bool(wanted.extras), is_quiet=is_quiet)
        if wheel
        else _none_lines(report, advice)
    )


def machine_facts(machine: TargetMachine) -> Iterator[str]:
    """Yield the facts about a machine."""
    kind = "PyPy" if machine.pypy_abi else "Python"
    yield f"{kind} {machine.python}" + " without GIL" * machine.is_free_threaded
    yield f"{machine.platform}, glibc {machine.glibc or 'not known'}"
    gpus = ", ".join(f"sm_{arch}" for arch in machine.archs)
    yield f"GPU {gpus or 'not known'}, driver {machine.driver or 'not known'}"
    frameworks = ", ".join(" ".join(framework) for framework in machine.frameworks.items())
    none = "no framework" if machine.is_here else "framework not known"
    cuda = "no CUDA" if machine.cuda == CPU_ONLY else f"CUDA {machine.cuda or 'not known'}"
    yield f"{frameworks or none}, {cuda}"


def _index_lines(report: PickDocument, *, is_verbose: bool) -> Iterator[str]:
    for index in report.indexes:
        if is_verbose and index.files is not None:
            yield from facts("index", [f"{index.address}: {plural(index.files, 'file')}"])
    if is_verbose:
        yield from facts("judged", [plural(report.judged, "wheel")])
    lacking = str(lacks(report.project))
    shown = [index for index in report.indexes if is_verbose or index.fault != lacking]
    # A known source has many addresses, and most don't have the project.
    yield from fault_lines([index for index in shown if is_verbose or not index.source])
    if not is_verbose and (text := silent_sources(report.indexes)):
        yield from facts("unknown", [text])


def fault_lines(indexes: Iterable[AskedIndex], of: str = "") -> Iterator[str]:
    """Yield why there is nothing of an index, or that this isn't known, or that there is more.

    Args:
        of: what precedes each reason.
    """
    indexes = list(indexes)
    labels: dict[str, list[AskedIndex]] = {"nothing": [], "no answer": [], "not all": []}
    for index in indexes:
        label = (
            "not all" if index.files is not None else "no answer" if index.is_silent else "nothing"
        )
        labels[label].append(index)
    for label, group in labels.items():
        for text in fault_texts(group):
            yield from facts(label, [f"{of}{text}"])


def _taken_lines(
    report: PickDocument, taken: PickedWheel, *, has_extras: bool, is_quiet: bool
) -> Iterator[str]:
    fits = "may fit" if taken.unknown else "fits"
    yield f"{fits:<{_LABEL}}{one_line(taken.name)}"
    if not is_quiet:
        yield from facts("", wheel_facts(taken))
        yield from reason_lines("unknown", taken.unknown)
        if taken.extras and not has_extras:
            text = f"{', '.join(taken.extras)}: 'name[extra]' installs what one of them requires"
            yield from facts("extras", [text])
        if newer := report.newer:
            yield from facts("newer", [f"{newer.version} is not compatible:"])
            yield from reason_lines("", newer.reasons)
    for name, line in report.commands.items():
        if line:
            yield f"{name:<{_LABEL}}{line}"
        if line and is_quiet:
            return
    if report.obstacle:
        yield from facts("install", [report.obstacle])


def _none_lines(report: PickDocument, advice: str) -> Iterator[str]:
    where = f"{report.project} {report.specifier}".strip()
    nearest, silent = report.nearest, silent_places(report.indexes)
    if silent:  # these may have one
        read = "the closest of the others is" if nearest else "no other place has one"
        yield from facts("unknown", [f"whether a wheel of {where} fits: {silent}; {read}"])
    elif nearest:
        yield f"{'no':<{_LABEL}}wheel of {where} is compatible; the closest is"
    if nearest:
        yield f"{'':<{_LABEL}}{one_line(nearest.name)}"
        yield from facts("", wheel_facts(nearest))
        yield from reason_lines("because", nearest.reasons)
        yield from reason_lines("unknown", nearest.unknown)
    elif not silent:
        yield from facts("no", [f"wheel of {where} is on any of the indexes"])
    if not report.all_read:
        text = "only the newest wheels were read; name a version to check older ones"
        yield from facts("not all", [text])
    if report.sdist:
        text = f"{one_line(report.sdist)} exists: pip would compile it on this machine"
        yield from facts("source", [text])
    if advice:
        yield from facts("to get one", [advice])


def wheel_facts(wheel: PickedWheel) -> Iterator[str]:
    """Yield where a wheel is, what it is for, and what speaks for its bytes."""
    size = f", {show_size(wheel.size)}" if wheel.size is not None else ""
    source = f"{wheel.source}, " if wheel.source else ""
    yield f"from {source}{wheel.index}{size}"
    yield f"trust: {wheel.trust}"
    if wheel.cuda:
        yield f"CUDA {wheel.cuda}"
    if wheel.archs:
        yield wheel.archs


def reason_lines(label: str, reasons: Iterable[Reason]) -> Iterator[str]:
    """Yield reasons, one a line."""
    for reason in reasons:
        yield from facts(label, [f"{reason.kind}: {reason.text}"])
        label = ""


def facts(label: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield one fact per line, wrapped next to their label; commands stay whole, for copying."""
    for text in texts:
        whole = _COMMAND.sub(lambda match: match[0].replace(" ", _BLANK), one_line(text))
        lines = textwrap.wrap(
            whole,
            _WIDTH,
            initial_indent=f"{label:<{_LABEL}}",
            subsequent_indent=" " * _LABEL,
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from (line.replace(_BLANK, " ") for line in lines)
        label = ""
