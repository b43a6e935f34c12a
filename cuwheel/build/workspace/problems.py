"""The problems that checks find: collected, then raised together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from cuwheel.base.errors import CuwheelError, PreflightError
from cuwheel.base.system.quantities import plural

Check = Callable[[], Iterable[CuwheelError] | None]


def problems_of(checks: Iterable[Check]) -> Iterator[CuwheelError]:
    """Yield the errors that checks return or raise."""
    for check in checks:
        try:
            yield from check() or ()
        except CuwheelError as error:  # noqa: PERF203 - each check counts
            yield error


def raise_problems(problems: Iterable[CuwheelError], subject: str) -> None:
    """Raise one error for all problems; without any, do nothing.

    Raises:
        PreflightError: with every problem, each with its cause and fix.
        CuwheelError: the only problem, where it has an exit code of its own.
    """
    known = tuple(problems)
    if len(known) == 1 and not isinstance(known[0], PreflightError):
        raise known[0]
    if known:
        raise PreflightError(
            f"{subject}: {plural(len(known), 'problem')} to fix first",
            why="\n".join(f"{n}. {it.what}: {it.why}" for n, it in enumerate(known, 1)),
            fix="\n".join(f"{n}. {it.fix}" for n, it in enumerate(known, 1)),
        )
