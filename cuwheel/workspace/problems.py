"""Problems that a check found: gathered, then raised together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
