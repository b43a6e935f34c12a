"""The problems of a check: collected, then raised together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cuwheel.base.errors import CuwheelError, PreflightError
from cuwheel.base.system.quantities import plural


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One reason why a build can't work.

    Attributes:
        error: the same as an error, with an exit code of its own.
    """

    what: str
    why: str
    fix: str
    error: CuwheelError | None = None


def problem_of(error: CuwheelError) -> Problem:
    """Return an error as a problem among others."""
    return Problem(what=error.what, why=error.why, fix=error.fix, error=error)


def problems_of(check: Callable[[], object]) -> Iterator[Problem]:
    """Yield the error that a check raises as a problem."""
    try:
        check()
    except CuwheelError as error:
        yield problem_of(error)


def raise_problems(problems: Iterable[Problem], subject: str) -> None:
    """Raise one error for all problems; without any, do nothing.

    Raises:
        PreflightError: with every problem, each with its cause and fix.
        CuwheelError: the only problem, where it has an error of its own.
    """
    known = tuple(problems)
    if len(known) == 1 and known[0].error:
        raise known[0].error
    if known:
        raise PreflightError(
            f"{subject}: {plural(len(known), 'problem')} to fix first",
            why="\n".join(f"{n}. {it.what}: {it.why}" for n, it in enumerate(known, 1)),
            fix="\n".join(f"{n}. {it.fix}" for n, it in enumerate(known, 1)),
        )
