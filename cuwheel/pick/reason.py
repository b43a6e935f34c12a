"""Why a wheel doesn't fit, one fact each, and which facts weigh more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "abi",
    "arch",
    "cuda",
    "device",
    "driver",
    "framework",
    "glibc",
    "metadata",
    "platform",
    "prerelease",
    "python",
    "string-abi",
    "yanked",
]
# How far a wheel is from fitting: what a person changes easily weighs least. A framework is another
# installation, a driver another day, a GPU another machine. Another Python weighs more than a
# driver, since most releases have a wheel for each.
_WEIGHTS: dict[Kind, int] = {
    "framework": 2,
    "string-abi": 2,
    "cuda": 3,
    "driver": 5,
    "abi": 6,
    "python": 6,
    "glibc": 7,
    "prerelease": 8,
    "yanked": 8,
    "metadata": 8,
    "arch": 8,
    "device": 20,
    "platform": 40,
}


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A fact that speaks against a wheel, or that decides and isn't known.

    Attributes:
        kind: what it is about; for programs.
        text: the fact, for people.
        is_against: it speaks against the wheel; else it isn't known whether it does.
    """

    kind: Kind
    text: str
    is_against: bool = True

    @property
    def weight(self) -> int:
        """How far it keeps the wheel from fitting."""
        return _WEIGHTS[self.kind] if self.is_against else 0
