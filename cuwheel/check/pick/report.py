"""The report of `pick` as text, within 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cuwheel.base.fetch.indexes.pages import lacks
from cuwheel.base.system.output.terminal import one_line
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.pick.document import PickDocument, PickedWheel
from cuwheel.check.pick.machine import CPU_ONLY, TargetMachine
from cuwheel.check.pick.tags import Reason

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_WIDTH = 80  # columns; lines to copy aren't wrapped
_LABEL = 12  # columns of the labels on the left


def report_lines(
    report: PickDocument, wanted: Requirement, advice: str, *, is_quiet: bool, is_verbose: bool
) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        advice: how to get a wheel where none fits; empty: unknown.
    """
    if not is_quiet:
        yield from _facts("machine", _machine_facts(report.machine))
        yield from _index_lines(report, is_verbose=is_verbose)
    wheel = report.wheel
    yield from (
        _taken_lines(report, wheel, has_extras=bool(wanted.extras), is_quiet=is_quiet)
        if wheel
        else _none_lines(report, advice)
    )


def _machine_facts(machine: TargetMachine) -> Iterator[str]:
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
            yield from _facts("index", [f"{index.address}: {plural(index.files, 'file')}"])
    if is_verbose:
        yield from _facts("judged", [plural(report.judged, "wheel")])
    for index in report.indexes:
        if index.fault and (is_verbose or index.fault != str(lacks(report.project))):
            yield from _facts("nothing", [f"{index.address}: {index.fault}"])


def _taken_lines(
    report: PickDocument, taken: PickedWheel, *, has_extras: bool, is_quiet: bool
) -> Iterator[str]:
    fits = "may fit" if taken.unknown else "fits"
    yield f"{fits:<{_LABEL}}{one_line(taken.name)}"
    if not is_quiet:
        yield from _facts("", _wheel_facts(taken))
        yield from _reasons("unknown", taken.unknown)
        if taken.extras and not has_extras:
            text = f"{', '.join(taken.extras)}: 'name[extra]' installs what one of them requires"
            yield from _facts("extras", [text])
        if newer := report.newer:
            yield from _facts("newer", [f"{newer.version} is not compatible:"])
            yield from _reasons("", newer.reasons)
    for name, line in report.commands.items():
        if line:
            yield f"{name:<{_LABEL}}{line}"
        if line and is_quiet:
            return
    if report.obstacle:
        yield from _facts("install", [report.obstacle])


def _none_lines(report: PickDocument, advice: str) -> Iterator[str]:
    where = f"{report.project} {report.specifier}".strip()
    if nearest := report.nearest:
        yield f"{'no':<{_LABEL}}wheel of {where} is compatible; the closest is"
        yield f"{'':<{_LABEL}}{one_line(nearest.name)}"
        yield from _facts("", _wheel_facts(nearest))
        yield from _reasons("because", nearest.reasons)
        yield from _reasons("unknown", nearest.unknown)
    else:
        yield from _facts("no", [f"wheel of {where} is on any of the indexes"])
    if not report.all_read:
        text = "only the newest wheels were read; name a version to check older ones"
        yield from _facts("not all", [text])
    if report.sdist:
        text = f"{one_line(report.sdist)} exists: pip would compile it on this machine"
        yield from _facts("source", [text])
    if advice:
        yield from _facts("to get one", [advice])


def _wheel_facts(wheel: PickedWheel) -> Iterator[str]:
    size = f", {show_size(wheel.size)}" if wheel.size is not None else ""
    yield f"from {wheel.index}{size}"
    if wheel.cuda:
        yield f"CUDA {wheel.cuda}"
    if wheel.archs:
        yield wheel.archs
    if not wheel.sha256:
        yield "the index gives no SHA-256"


def _reasons(label: str, reasons: Iterable[Reason]) -> Iterator[str]:
    for reason in reasons:
        yield from _facts(label, [f"{reason.kind}: {reason.text}"])
        label = ""


def _facts(label: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield one fact per line, wrapped next to their label."""
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
