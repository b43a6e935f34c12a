"""Who runs when: calls of several packages in turns, so that what changes with time hits all."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuwheel.perf.worker import Worker

_SAMPLE = 0.04  # seconds of calls that one sample has, about
_MOST_CALLS = 50  # in a sample
# With nine rounds an interval of 99 % can be had at all: least and most of eight hold 99.2 %.
_FEWEST, _ROUNDS, _QUICK_ROUNDS = 9, 30, 12
_LONGEST = 15.0  # seconds of all rounds of a case, about, unless the fewest take longer
_FLUSH = 1e-4  # seconds that the L2 is written over between two calls


@dataclass(kw_only=True)
class Player:
    """One that is measured.

    Attributes:
        worker: its process.
        whose: `package`, or `rival` in the same process.
        seconds: of a call, from warming up.
        rounds: seconds of a call, the median of each round.
    """

    worker: Worker
    whose: str
    seconds: float
    rounds: list[float] = field(default_factory=list)


def play(case: str, players: Sequence[Player], *, is_quick: bool, factor: int = 1) -> None:
    """Measure all players in turns, in an order that changes; their `rounds` grow.

    Args:
        case: of the probe.
        players: who is measured.
        is_quick: fewer rounds.
        factor: how many times the rounds.
    """
    order = list(players)
    chance = random.Random(f"{case} {factor}")  # noqa: S311 - an order, the same in each run
    for _ in range(factor * _count(players, is_quick=is_quick)):
        chance.shuffle(order)
        for player in order:
            calls = _calls(player.seconds)
            times: Any = player.worker.ask("sample", case=case, calls=calls, whose=player.whose)
            player.rounds.append(statistics.median(times))


def _calls(seconds: float) -> int:
    return max(1, min(_MOST_CALLS, round(_SAMPLE / (seconds + _FLUSH))))


def _count(players: Sequence[Player], *, is_quick: bool) -> int:
    each = sum(_calls(one.seconds) * (one.seconds + _FLUSH) for one in players)
    most = _QUICK_ROUNDS if is_quick else _ROUNDS
    return max(_FEWEST, min(most, int(_LONGEST / each)))
