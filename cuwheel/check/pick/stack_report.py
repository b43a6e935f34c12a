"""The answer of `pick` for several packages: the document, and the lines for a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from packaging.requirements import Requirement

from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import one_line
from cuwheel.base.system.quantities import plural
from cuwheel.check.pick.choice import Offers
from cuwheel.check.pick.document import (
    AskedIndex,
    PickedWheel,
    describe_indexes,
    describe_wheel,
    silent_sources,
)
from cuwheel.check.pick.machine import TargetMachine
from cuwheel.check.pick.report import facts, fault_lines, machine_facts, reason_lines, wheel_facts
from cuwheel.check.pick.stack import MissingWheel, StackChoice, StackFit

_MOST_NEWER = 3  # reasons that are shown


@dataclass(frozen=True, kw_only=True)
class MissingPackage:
    """A package of a stack that has to be built.

    Attributes:
        project: normalised name.
        why: no wheel of it fits.
        sdist: file name of its newest source; empty: there is none.
        advice: what builds one, with its time, memory and disk as far as they are known.
        can_be_built: whether a recipe builds one for this Python, PyTorch and CUDA.
    """

    project: str
    why: str
    sdist: str
    advice: str
    can_be_built: bool


@dataclass(frozen=True, kw_only=True)
class StackOfWheels:
    """A Python, a PyTorch and its CUDA.

    Attributes:
        python: `3.12`.
        torch: version of PyTorch; empty: the packages don't need it.
        cuda: that PyTorch was built with; empty: not known.
        missing: packages without a wheel for it.
        conflict: why the wheels can't be installed together; empty: they can, or it wasn't tried.
    """

    python: str
    torch: str
    cuda: str
    missing: tuple[MissingPackage, ...]
    conflict: str


@dataclass(frozen=True, kw_only=True)
class StackDocument:
    """What `pick --json` prints for several packages.

    Attributes:
        requirements: of the caller.
        is_complete: whether there is a wheel of each, and they can be installed together.
        machine: with the Python, PyTorch and CUDA of the stack.
        stack: the newest with all wheels, else the one that lacks fewest; null: there is none.
        wheels: of the packages, and of PyTorch.
        packages: how many packages would be installed; null: it wasn't resolved.
        runner_up: the next with all wheels, of another PyTorch or CUDA; null: none.
        newer: of each newer PyTorch, what is missing.
        lock: the file that was written; empty: none.
        indexes: those that were queried, by package.
        also: the wheels for each further platform that the lock is for.
        all_answered: whether all of them answered; else one may have a wheel that is missing.
    """

    SCHEMA: ClassVar[Schema] = Schema("stack", "1.2")

    requirements: tuple[str, ...]
    is_complete: bool
    machine: TargetMachine
    stack: StackOfWheels | None
    wheels: tuple[PickedWheel, ...]
    packages: int | None
    runner_up: StackOfWheels | None
    newer: tuple[StackOfWheels, ...]
    lock: str
    indexes: dict[str, tuple[AskedIndex, ...]]
    also: dict[str, tuple[str, ...]]
    all_answered: bool


def describe_stack(
    wanted: Mapping[str, Requirement],
    choice: StackChoice,
    offers: Mapping[str, Offers],
    machine: TargetMachine,
    advise: Callable[[Requirement, TargetMachine], str],
) -> StackDocument:
    """Return the document of a search, before anything was locked.

    Args:
        machine: where there is no cell.
        advise: returns what builds a wheel of a requirement for a machine.
    """
    best, runner_up = choice.best, choice.runner_up
    wheels = best.wheels.items() if best else ()

    def describe(fit: StackFit) -> StackOfWheels:
        return StackOfWheels(
            python=fit.cell.python,
            torch=fit.cell.torch,
            cuda=fit.cell.cuda,
            missing=tuple(_describe_missing(wheel, fit, wanted, advise) for wheel in fit.missing),
            conflict=fit.conflict,
        )

    return StackDocument(
        requirements=tuple(map(str, wanted.values())),
        is_complete=best is not None and best.is_complete,
        machine=best.machine if best else machine,
        stack=describe(best) if best else None,
        wheels=tuple(
            picked for name, wheel in wheels if (picked := describe_wheel(wheel, offers[name]))
        ),
        packages=None,
        runner_up=StackOfWheels(
            python=runner_up.python,
            torch=runner_up.torch,
            cuda=runner_up.cuda,
            missing=(),
            conflict="",
        )
        if runner_up
        else None,
        newer=tuple(map(describe, choice.newer)),
        lock="",
        indexes={name: describe_indexes(known) for name, known in offers.items()},
        also={},
        all_answered=not any(known.silent for known in offers.values()),
    )


def _describe_missing(
    wheel: MissingWheel,
    fit: StackFit,
    wanted: Mapping[str, Requirement],
    advise: Callable[[Requirement, TargetMachine], str],
) -> MissingPackage:
    requirement = wanted.get(wheel.project)
    return MissingPackage(
        project=wheel.project,
        why=wheel.why,
        sdist=wheel.sdist,
        advice=advise(requirement, fit.machine) if requirement else "",
        can_be_built=wheel.can_be_built,
    )


def stack_lines(
    report: StackDocument, command: str, *, is_quiet: bool, is_verbose: bool
) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        command: what makes an environment of the stack.
    """
    stack = report.stack
    if not is_quiet:
        yield from facts("machine", machine_facts(report.machine))
        yield from _index_lines(report, is_verbose=is_verbose)
    if stack is None:
        answered = " of the places that answered" * (not report.all_answered)
        yield from facts("no", [f"wheel of PyTorch{answered} is for such a machine"])
        return
    label = "stack" if report.is_complete else "no stack" if stack.conflict else "nearest"
    yield from facts(label, [_name(stack)])
    for wheel in report.wheels:
        yield f"{'':<12}{one_line(wheel.name)}"
        if not is_quiet:
            yield from facts("", wheel_facts(wheel))
            yield from _unknown_lines(wheel, is_verbose=is_verbose)
    for platform, names in report.also.items():
        yield from facts("also", [f"{platform}, with the same Python, torch and CUDA"])
        yield from (f"{'':<12}{one_line(name)}" for name in names)
    yield from _missing_lines(stack)
    if report.packages is not None and not is_quiet:
        yield from facts("resolved", [f"by uv: {plural(report.packages, 'package')} in all"])
    if not is_quiet:
        yield from _other_lines(report)
    if report.lock:
        yield f"{'pip':<12}pip install -r {report.lock}"
        yield f"{'uv':<12}uv pip sync {report.lock}"
    if command:
        yield f"{'to get it':<12}{command}"


def _name(stack: StackOfWheels) -> str:
    torch = f", torch {stack.torch}" if stack.torch else ""
    return f"Python {stack.python}{torch}" + (f", CUDA {stack.cuda}" if stack.cuda else "")


def _missing_lines(stack: StackOfWheels) -> Iterator[str]:
    if stack.conflict:
        yield from facts("because", [stack.conflict])
    for package in stack.missing:
        source = f"; {package.sdist} is its source" if package.sdist else ""
        yield from facts("missing", [f"{package.project}: {package.why}{source}"])
        if package.advice:
            yield from facts("", [package.advice])


def _other_lines(report: StackDocument) -> Iterator[str]:
    if report.runner_up:
        yield from facts("next", [f"{_name(report.runner_up)} has all wheels too"])
    label = "why not"
    reasons = _reasons_of(report.newer, is_about_builds=not report.is_complete)
    for reason, stacks in itertools.islice(reasons.items(), _MOST_NEWER):
        names = [f"torch {stack.torch}" if stack.torch else _name(stack) for stack in stacks]
        yield from facts(label, [f"{', '.join(names)}: {reason}"])
        label = ""


def _reasons_of(
    newer: Iterable[StackOfWheels], *, is_about_builds: bool
) -> dict[str, list[StackOfWheels]]:
    """Return newer stacks by the reason against them."""
    reasons: dict[str, list[StackOfWheels]] = {}
    for stack in newer:
        missing = (
            f"{package.project}: {package.why}"
            + ", and no recipe builds one" * (is_about_builds and not package.can_be_built)
            for package in stack.missing
        )
        reason = "; ".join(text for text in (stack.conflict, *missing) if text)
        reasons.setdefault(reason, []).append(stack)
    return reasons


def _unknown_lines(wheel: PickedWheel, *, is_verbose: bool) -> Iterator[str]:
    if is_verbose:
        yield from reason_lines("", wheel.unknown)
    elif kinds := dict.fromkeys(reason.kind for reason in wheel.unknown):
        yield from facts("", [f"not known: {', '.join(kinds)}"])


def _index_lines(report: StackDocument, *, is_verbose: bool) -> Iterator[str]:
    """Yield the indexes whose files are unknown, since they didn't answer; or all."""
    for name, indexes in report.indexes.items():
        own = [index for index in indexes if index.is_silent and not index.source]
        yield from fault_lines(indexes if is_verbose else own, f"of {name}: ")
        for index in indexes:
            if is_verbose and index.files is not None:
                count = plural(index.files, "file")
                yield from facts("index", [f"{index.address}: {count} of {name}"])
    every = [index for indexes in report.indexes.values() for index in indexes]
    if not is_verbose and (text := silent_sources(every)):
        yield from facts("unknown", [text])
