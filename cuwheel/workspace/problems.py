"""Problems that a check found: gathered, then raised together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import PreflightError
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.errors import CuwheelError


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One reason why a build can't work.

    Attributes:
        what: the fact.
        why: its cause.
        fix: what the reader can do.
        error: an error that says the same, with an exit code of its own.
    """

    what: str
    why: str
    fix: str
    error: CuwheelError | None = None


def problem_of(error: CuwheelError) -> Problem:
    """An error as one problem among others."""
    return Problem(what=error.what, why=error.why, fix=error.fix, error=error)


def raise_problems(problems: Iterable[Problem], subject: str) -> None:
    """Raise one error for all problems; without any, do nothing.

    Args:
        problems: what checks found.
        subject: what they are about, a target's id.

    Raises:
        PreflightError: with every problem, each with its cause and fix.
        CuwheelError: the one problem, where an error of its own says it.
    """
    found = tuple(problems)
    if len(found) == 1 and found[0].error:
        raise found[0].error
    if found:
        raise PreflightError(
            f"{subject}: {plural(len(found), 'problem')} to fix first",
            why="\n".join(f"{n}. {one.what}: {one.why}" for n, one in enumerate(found, 1)),
            fix="\n".join(f"{n}. {one.fix}" for n, one in enumerate(found, 1)),
        )
