"""The rule by which gated programs start, on reserved and free memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from cuwheel.base.free_memory import MACHINE, Memory, MemoryLimit

START = "nothing"  # is lacking
WIDTH = 512  # bytes of an entry's text: in its file it is written over as a whole

_NOWHERE = "-"
# What is lacking where it isn't memory
_TURN = "turn"
JOBS = "jobs"  # as many run already as the build may have at once
# Seconds
_BYPASS = 20.0  # until then, any program may pass one that lacks memory
_WAIT_LIMIT = 10.0  # a program that is alone waits so long for memory that no gated one holds
_WAIT_LIMIT_AFTER_KILL = 60.0  # the same for a program that was killed without it
_ASLEEP = 30.0  # an entry without a sign of life is a stopped engine's: none waits for it


@dataclass(eq=False)
class Claim:
    """A gated program, as all others see it.

    Attributes:
        name: starts with the time of its request, in nanoseconds by the machine's monotonic clock:
            names sort by that.
        expected: bytes that it will take at its peak.
        levels: names of the memory limits that it is in.
        alone: name of the level in which no other may run at the same time, since it has been
            killed before; empty for none.
        used: bytes at the last measurement.
        started: when it started, in seconds by that clock; 0 while it waits.
        jobs: how many of its build may run at once; 0 for any number. Known to its engine only, as
            the following.
        known: bytes of `expected` that it is known to take; the rest is caution.
        idle_since: since when there is no program to wait for; 0 where there is.
    """

    name: str
    expected: int
    levels: tuple[str, ...]
    alone: str = ""
    build: str = "-"
    used: int = 0
    started: float = 0.0
    beat: float = field(default_factory=time.monotonic)
    lacks: str = _TURN
    jobs: int = 0
    known: int = 0
    idle_since: float = 0.0

    @property
    def requested(self) -> float:
        """Time of the request, in seconds."""
        return int(self.name.partition("-")[0]) / 1e9

    @property
    def growth(self) -> int:
        """Bytes that are reserved for it and that it hasn't taken yet."""
        return max(0, self.expected - self.used)

    @property
    def order(self) -> tuple[bool, str]:
        """Sort key of the queue: programs that run alone, then by time of request."""
        return not self.alone, self.name

    def uses(self, used: int) -> None:
        """Set the bytes that it uses now, as a sign of life."""
        self.used = used
        self.beat = time.monotonic()
        if used > self.expected:  # its peak is unknown
            self.expected = used * 5 // 4

    def written(self) -> bytes:
        """Return its text."""
        numbers = (self.expected, self.used, self.started, self.beat)
        words = [*map(str, numbers), self.alone or _NOWHERE, self.build, self.lacks, *self.levels]
        return " ".join(words).ljust(WIDTH).encode()

    @classmethod
    def read(cls, name: str, text: bytes) -> Claim:
        """Parse the text of an entry.

        Raises:
            ValueError: it holds none.
        """
        expected, used, started, beat, alone, build, lacks, *levels = text.decode().split()
        return cls(
            name,
            int(expected),
            tuple(levels),
            alone=alone.strip(_NOWHERE),
            build=build,
            used=int(used),
            started=float(started),
            beat=float(beat),
            lacks=lacks,
        )


def lack(me: Claim, others: list[Claim], memory: Memory, now: float) -> str:
    """Return what keeps a program from starting: a level, its turn, `JOBS` or nothing (`START`).

    `now` is in seconds of the machine's monotonic clock.
    """
    running, ahead = _before(me, others, now)
    lacking = _lack(me, running, ahead, memory.levels)
    if lacking == START and memory.pressed:
        lacking = MACHINE
    if lacking == START or any(
        # Nothing of a limit is freed by the end of a program that isn't in it.
        lacking in other.levels or all(level.name != lacking for level in memory.levels)
        for other in (*running, *ahead)
    ):
        me.idle_since = 0.0
        return lacking
    # What is missing now is missing for good, or no gated process holds it.
    me.idle_since = me.idle_since or now
    limit = _WAIT_LIMIT_AFTER_KILL if me.alone else _WAIT_LIMIT
    if now - me.idle_since >= limit:
        return START
    is_too_large = any(me.known > level.total for level in memory.levels)
    has_least = all(me.known <= level.free for level in memory.levels)
    return START if (is_too_large or has_least) and not memory.pressed else lacking


def has_room(me: Claim, others: list[Claim], memory: Memory, now: float) -> bool:
    """Return True if a program could start if memory were reserved for these others only."""
    running, ahead = _before(me, others, now)
    return _lack(me, running, ahead, memory.levels) == START and not memory.pressed


def _before(me: Claim, others: list[Claim], now: float) -> tuple[list[Claim], list[Claim]]:
    """Return the running programs and those ahead in the queue, of all with signs of life."""
    awake = [other for other in others if now - other.beat < _ASLEEP]
    ahead = [other for other in awake if not other.started and other.order < me.order]
    return [other for other in awake if other.started], sorted(ahead, key=lambda claim: claim.order)


def must_yield(me: Claim, others: list[Claim], levels: list[MemoryLimit]) -> bool:
    """Return True if a program is to be killed, and run again later, so that the others continue.

    Where memory is short, that is the one that started last: it loses the least. One that runs
    alone continues. This isn't left to the kernel, which doesn't have to kill where a limit is
    full: docs/adr/0017.
    """
    for level in levels:
        running = [other for other in others if other.started and level.name in other.levels]
        is_last = all((other.started, other.name) < (me.started, me.name) for other in running)
        if level.is_short and running and is_last:
            return True
    return False


def _lack(me: Claim, running: list[Claim], ahead: list[Claim], levels: list[MemoryLimit]) -> str:
    """Serve first the first request; but a program that lacks memory may be passed, in two ways.

    In its first seconds any program may pass. Later, only one that leaves so much that the first
    would still fit together with all that have passed.
    """
    if any(other.alone in me.levels for other in (*running, *ahead)):
        return _TURN
    if any(me.alone in other.levels for other in running):
        return _TURN
    if me.jobs and sum(other.build == me.build for other in running) >= me.jobs:
        return JOBS
    free = {
        level.name: level.free - sum(c.growth for c in running if level.name in c.levels)
        for level in levels
    }
    for other in ahead:
        if other.lacks not in {_TURN, JOBS, *free}:  # a limit that isn't ours keeps it back
            continue
        shared = [name for name in other.levels if name in free]
        if all(other.expected <= free[name] for name in shared):
            for name in shared:
                free[name] -= other.expected
        elif me.beat - other.requested > _BYPASS and _is_in_the_way(me, other, running, levels):
            return _TURN
    return next((name for name in free if me.expected > free[name]), START)


def _is_in_the_way(
    me: Claim, first: Claim, running: list[Claim], levels: list[MemoryLimit]
) -> bool:
    """Return True if `first` wouldn't fit together with `me` and all later ones that run."""
    for level in levels:
        if level.name in first.levels:
            inside = [other for other in running if level.name in other.levels]
            whole = level.free + sum(other.used for other in inside)
            passed = sum(other.expected for other in inside if other.order > first.order)
            if first.expected + passed + me.expected > whole:
                return True
    return False
