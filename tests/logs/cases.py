"""The table of cases: which function reproduces which failure, and the line that proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.logs.box import Box

WENT_WELL = "ok"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One log.

    Attributes:
        slug: the cause, or `ok` for a log of a build that went well.
        variant: the way the failure came up.
        decisive: a regular expression; the first line that it finds is the one to name as cause.
            For a build that went well it finds a line that only looks like a failure.
    """

    slug: str
    variant: str
    decisive: str
    reproduce: Callable[[Box], None]

    @property
    def name(self) -> str:
        """The log's file name, without suffix."""
        return f"{self.slug}--{self.variant}"


CASES: dict[str, Case] = {}


def case(
    slug: str, variant: str, decisive: str
) -> Callable[[Callable[[Box], None]], Callable[[Box], None]]:
    """Enter a function into the table."""

    def enter(reproduce: Callable[[Box], None]) -> Callable[[Box], None]:
        made = Case(slug=slug, variant=variant, decisive=decisive, reproduce=reproduce)
        CASES[made.name] = made
        return reproduce

    return enter
