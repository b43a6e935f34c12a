"""The search of a stack: offers of all packages, the cells, and uv's word on each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement

from cuwheel.base.errors import InstallError, UsageError
from cuwheel.base.fetch.indexes.indexes import configured_indexes, joined_indexes
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.parallel import Stop, run_all
from cuwheel.check.pick.choice import Offers, query_indexes, query_sources
from cuwheel.check.pick.known_sources import Sources
from cuwheel.check.pick.machine import CPU_ONLY, TargetMachine, parse_machine, read_here
from cuwheel.check.pick.pick import raise_if_silent
from cuwheel.check.pick.stack import TORCH, Limits, StackFit, StackSearch, find_stack
from cuwheel.check.pick.stack_report import StackDocument, describe_stack
from cuwheel.publish.stack.given_indexes import GivenIndexes
from cuwheel.publish.stack.lock import StackLock, conflict_of, lock_stack, merge_locks


@dataclass(frozen=True, kw_only=True)
class StackRequest:
    """What is wanted, for what, and from where.

    Attributes:
        wanted: requirements by project.
        constraints: further limits of versions, a requirement each.
        python: of an environment that is added to; None: a new one is made.
        paper: another machine, in the format of `--for`.
        more_papers: further machines that the same lock is for, each of another platform.
        pythons: the only ones to consider; empty: any.
        indexes: addresses; empty: those of the configuration.
        more_indexes: those that requirement files name, after the others.
        sources: the known ones to query too.
    """

    wanted: Mapping[str, Requirement]
    constraints: tuple[str, ...] = ()
    python: str | None = None
    paper: str = ""
    more_papers: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    more_indexes: tuple[str, ...] = ()
    sources: Sources = Sources()  # noqa: RUF009 - frozen
    start: Path


@dataclass(frozen=True, kw_only=True)
class FoundStack:
    """The answer.

    Attributes:
        fit: the wheels; None: there is no cell.
        lock: uv's resolution; None: not all packages have a wheel, or they don't go together.
    """

    report: StackDocument
    fit: StackFit | None
    lock: StackLock | None


def search_stack(
    request: StackRequest,
    environ: Mapping[str, str],
    cache: Path,
    advise: Callable[[Requirement, TargetMachine], str],
    can_build: Callable[[Requirement, TargetMachine], bool],
) -> FoundStack:
    """Find the newest Python, PyTorch and CUDA for which all packages have a wheel.

    Args:
        environ: of `callers_environment`.
        advise: returns what builds a wheel of a requirement for a machine.
        can_build: returns whether a recipe builds one that fits it.

    Raises:
        InterpreterNotFoundError: there is no such interpreter, or it can't be run.
        UsageError: the machine on paper is malformed, or its Python has no GIL.
        DownloadError: no index could be queried; or one didn't answer when uv resolved the wheels,
            so that it isn't known whether they go together.
    """
    machine, limits = _machine(request, environ)
    names = tuple(dict.fromkeys((*request.wanted, TORCH)))
    wanted = (request.wanted.get(name, Requirement(name)) for name in names)
    queries = [partial(_query, requirement, request, environ) for requirement in wanted]
    offers = dict(zip(names, run_all(queries, Stop()), strict=True))
    for name in request.wanted:
        _check_queried(name, offers[name])
    search = StackSearch(request.wanted, offers, machine, limits, can_build)
    more = _more_machines(request, machine, environ)
    others: dict[str, tuple[StackFit, ...]] = {}
    locks: dict[str, StackLock] = {}
    named = (*(request.indexes or request.listed), *request.more_indexes)
    given = GivenIndexes(named, joined_indexes(environ))

    def lock_one(fit: StackFit) -> StackLock:
        with _constraint_files(request.constraints) as files:
            return lock_stack(fit, request.wanted, files, environ, given=given, cache=cache)

    def try_together(fit: StackFit) -> str:
        cell, platforms = fit.cell, {machine.platform: fit}
        for other in more:
            same = Limits(pythons=(cell.python,), torch=cell.torch, cuda=cell.cuda)
            found = find_stack(StackSearch(request.wanted, offers, other, same), lambda _: "").best
            if found is None or not found.is_complete:
                return _lack_on(other, found)
            platforms[other.platform] = found
        try:
            resolved = {name: lock_one(known) for name, known in platforms.items()}
        except InstallError as error:
            return conflict_of(error)
        [lock, *rest] = resolved.values()
        locks[str(cell)] = merge_locks(resolved) if rest else lock
        others[str(cell)] = tuple(
            _as_locked(known, resolved[name])
            for name, known in platforms.items()
            if name != machine.platform
        )
        return ""

    choice = find_stack(search, try_together)
    queried = {name: known for name, known in offers.items() if name in request.wanted}
    if search.needs_torch:
        queried[TORCH] = offers[TORCH]
    lock = locks.get(str(choice.best.cell)) if choice.best else None
    if choice.best and lock:
        choice = replace(choice, best=_as_locked(choice.best, lock))
    report = describe_stack(request.wanted, choice, queried, machine, advise)
    also = others.get(str(choice.best.cell), ()) if choice.best else ()
    report = replace(
        report,
        packages=lock.packages if lock else None,
        also={fit.machine.platform: _names_of(fit) for fit in also},
    )
    return FoundStack(report=report, fit=choice.best, lock=lock)


def _more_machines(
    request: StackRequest, first: TargetMachine, environ: Mapping[str, str]
) -> tuple[TargetMachine, ...]:
    """Return the further machines; raise UsageError for two of a platform, or another Python."""
    more = [_machine(replace(request, paper=paper), environ)[0] for paper in request.more_papers]
    platforms = [machine.platform for machine in (first, *more)]
    is_other = any(
        "python" in paper and machine.release != first.release
        for paper, machine in zip(request.more_papers, more, strict=True)
    )
    if len({*platforms}) < len(platforms) or is_other:
        raise UsageError(
            "a lock can't be for these machines together",
            why="they have two Pythons" if is_other else f"platforms: {', '.join(platforms)}",
            fix="give each --for another platform, and the same Python; write a lock for each "
            "other machine: --lock pylock.NAME.toml",
        )
    return tuple(more)


def _lack_on(machine: TargetMachine, fit: StackFit | None) -> str:
    """Return what a further machine lacks."""
    missing = fit.missing if fit else ()
    reasons = "; ".join(f"{wheel.project}: {wheel.why}" for wheel in missing)
    return f"on {machine.platform}: {reasons or 'torch has no such wheel'}"


def _names_of(fit: StackFit) -> tuple[str, ...]:
    return tuple(wheel.offer.name for wheel in fit.wheels.values())


def _check_queried(project: str, offers: Offers) -> None:
    """Raise DownloadError if no index could be queried: nothing is known then, not even of a lack.

    A project that no index has may still be built from a recipe.
    """
    if offers.faults and all(fault.kind == "unasked" for fault in offers.faults.values()):
        raise_if_silent(project, offers)


def _as_locked(fit: StackFit, lock: StackLock) -> StackFit:
    """Return a fit with the wheels that uv took of those that it could choose among."""
    wheels = {
        name: next((each for each in fit.fitting[name] if each.offer.name in lock.files), wheel)
        for name, wheel in fit.wheels.items()
    }
    return replace(fit, wheels=wheels)


@contextlib.contextmanager
def _constraint_files(lines: tuple[str, ...]) -> Iterator[tuple[Path, ...]]:
    """Write what uv reads as constraints: it would also follow options of a user's file."""
    with temporary_folder() as folder:
        path = folder / "constraints.txt"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        yield (path,) if lines else ()


def _query(wanted: Requirement, request: StackRequest, environ: Mapping[str, str]) -> Offers:
    own = request.indexes or (*request.listed, *configured_indexes(environ))
    sources = request.sources.of(wanted.name)
    return query_indexes(wanted, (*own, *request.more_indexes)) + query_sources(wanted, sources)


def _machine(request: StackRequest, environ: Mapping[str, str]) -> tuple[TargetMachine, Limits]:
    if request.paper:
        fields = {part.partition("=")[0].strip() for part in request.paper.split(",")}
        has_python = "python" in fields
        paper = request.paper if has_python else f"python={_OWN_PYTHON},{request.paper}"
        machine = _checked(parse_machine(paper))
        pythons = (_release(machine),) if has_python else request.pythons
        return machine, _limits(pythons, machine)
    here = read_here(request.python, dict(environ), request.start).machine
    if request.python is None:  # a new environment: nothing is installed in it
        return replace(here, frameworks={}), Limits(pythons=request.pythons)
    return _checked(here), _limits((_release(here),), here)


def _checked(machine: TargetMachine) -> TargetMachine:
    """Return a machine; raise UsageError for a Python that uv can't lock for without running it."""
    if machine.is_free_threaded or machine.pypy_abi:
        raise UsageError(
            f"several packages can't be chosen for {machine.named_python}",
            why="uv resolves them for CPython with its global lock",
            fix="choose each by itself: `nox -s pick -- NAME`, or leave out that Python",
        )
    return machine


_OWN_PYTHON = "3.12"  # stands for any, where only wheels without PyTorch are wanted


def _limits(pythons: Iterable[str], machine: TargetMachine) -> Limits:
    cuda = "" if machine.cuda == CPU_ONLY else machine.cuda
    return Limits(pythons=tuple(pythons), torch=machine.framework(TORCH), cuda=cuda)


def _release(machine: TargetMachine) -> str:
    return ".".join(map(str, machine.release))
