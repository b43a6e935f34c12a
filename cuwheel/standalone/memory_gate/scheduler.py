"""Whose turn it is to start: one rule, on what all have been promised and what memory is free.

Part of the memory gate, docs/adr/0017, so written for a short start. Standard library only, Python
3.9 or newer.
"""

from __future__ import annotations

import time

if __package__:
    from cuwheel.standalone.memory_gate import free_memory
else:  # in a build these scripts lie side by side
    import free_memory  # type: ignore[import-not-found,no-redef]

START = "nothing"  # is lacking
WIDTH = 512  # bytes of an entry's text: in its file it is written over as a whole

_NOWHERE = "-"
# What is lacking where it isn't memory
_TURN = "turn"
JOBS = "jobs"  # as many run already as the build may have at once
# Seconds
_BYPASS = 20.0  # for so long, anyone may pass a process for which there is no room
_WAIT_LIMIT = 10.0  # for so long, who is alone waits for memory that nobody gated holds
_WAIT_LIMIT_AFTER_KILL = 60.0  # likewise, who was killed without it
_ASLEEP = 30.0  # who hasn't been heard of for so long is stopped or orphaned: nobody waits for it


class Claim:
    """One gated process, as all others see it.

    Args:
        name: starts with when it asked, in nanoseconds by the machine's monotonic clock: names sort
            by that.
        expected: bytes that it will take at its peak.
        levels: names of the levels that bound its memory.
        alone: name of the level in which nothing else may run beside it, since it has been killed
            before; empty for none.
        build: a word that all of one build have in common, without blanks.
        jobs: how many of its build may run at once; 0 for any number. Known to itself only.

    Attributes:
        used: bytes that it had when it was last looked at.
        started: when it started, in seconds by that clock; 0 while it waits.
        beat: when it was last heard of.
        lacks: what it waits for: a level's name, or its turn.
        known: bytes of `expected` that it is known to take; the rest is caution. Known to itself
            only, as the following.
        position: how many were before it when it last asked.
        idle_since: since when there is nobody to wait for; 0 where there is.
    """

    __slots__ = (
        *("alone", "beat", "build", "expected", "idle_since", "jobs", "known", "lacks"),
        *("levels", "name", "position", "started", "used"),
    )

    def __init__(  # noqa: PLR0913 - what one process is for the others
        self,
        name: str,
        expected: int,
        levels: tuple[str, ...],
        *,
        alone: str = "",
        build: str = "-",
        jobs: int = 0,
    ) -> None:
        self.name = name
        self.build = build
        self.jobs = jobs
        self.expected = expected
        self.levels = levels
        self.alone = alone
        self.used = 0
        self.started = 0.0
        self.beat = time.monotonic()
        self.lacks = _TURN
        self.known = 0
        self.position = 0
        self.idle_since = 0.0

    @property
    def asked(self) -> float:
        """When it asked, in seconds."""
        return int(self.name.partition("-")[0]) / 1e9

    @property
    def growth(self) -> int:
        """Bytes that it was promised and hasn't taken yet."""
        return max(0, self.expected - self.used)

    @property
    def order(self) -> tuple[bool, str]:
        """What the queue is sorted by: who runs alone, then who asked first."""
        return not self.alone, self.name

    def uses(self, used: int) -> None:
        """Note how many bytes it has now, and that it is alive."""
        self.used = used
        self.beat = time.monotonic()
        if used > self.expected:  # nobody knows how far it will go
            self.expected = used * 5 // 4

    def written(self) -> bytes:
        """Its text."""
        numbers = (self.expected, self.used, self.started, self.beat)
        words = [*map(str, numbers), self.alone or _NOWHERE, self.build, self.lacks, *self.levels]
        return " ".join(words).ljust(WIDTH).encode()

    @classmethod
    def read(cls, name: str, text: bytes) -> Claim:
        """The entry of a text.

        Raises:
            ValueError: it holds none.
        """
        expected, used, started, beat, alone, build, lacks, *levels = text.decode().split()
        entry = cls(name, int(expected), tuple(levels), alone=alone.strip(_NOWHERE), build=build)
        entry.used = int(used)
        entry.started = float(started)
        entry.beat = float(beat)
        entry.lacks = lacks
        return entry


def lack(me: Claim, others: list[Claim], seen: free_memory.Memory, now: float) -> str:
    """What keeps a process from starting: a level's name, its turn, `JOBS` or nothing (`START`).

    Args:
        me: the process.
        others: all other entries.
        seen: what memory there is.
        now: seconds, by the machine's monotonic clock.
    """
    running, ahead = _before(me, others, now)
    me.position = len(ahead)
    found = _lack(me, running, ahead, seen.levels)
    if found == START and seen.pressed:
        found = free_memory.MACHINE
    if found == START or any(_is_waited_for(one, found, seen.levels) for one in (*running, *ahead)):
        me.idle_since = 0.0
        return found
    # What is missing now is missing for good, or nobody gated holds it.
    me.idle_since = me.idle_since or now
    limit = _WAIT_LIMIT_AFTER_KILL if me.alone else _WAIT_LIMIT
    if now - me.idle_since >= limit:
        return START
    is_too_large = any(me.known > level.total for level in seen.levels)
    has_least = all(me.known <= level.free for level in seen.levels)
    return START if (is_too_large or has_least) and not seen.pressed else found


def has_room(me: Claim, others: list[Claim], seen: free_memory.Memory, now: float) -> bool:
    """Whether a process could start if nobody but these had been promised anything."""
    running, ahead = _before(me, others, now)
    return _lack(me, running, ahead, seen.levels) == START and not seen.pressed


def _before(me: Claim, others: list[Claim], now: float) -> tuple[list[Claim], list[Claim]]:
    """Who runs, and who waits and comes first, of all that were heard of lately."""
    awake = [one for one in others if now - one.beat < _ASLEEP]
    ahead = [one for one in awake if not one.started and one.order < me.order]
    return [one for one in awake if one.started], sorted(ahead, key=lambda one: one.order)


def _is_waited_for(one: Claim, lacking: str, levels: list[free_memory.MemoryLimit]) -> bool:
    """Whether the end of another may give what is lacking: nothing of a limit that it isn't in."""
    return lacking in one.levels or all(level.name != lacking for level in levels)


def must_yield(me: Claim, others: list[Claim], levels: list[free_memory.MemoryLimit]) -> bool:
    """Whether a program is to be ended, and run again later, so that the others get on.

    Where memory is short, that is who started last: it loses the least. Who runs alone goes on. It
    isn't left to the kernel, which doesn't have to kill where a limit is full: docs/adr/0017.
    """
    for level in levels:
        beside = [one for one in others if one.started and level.name in one.levels]
        is_last = all((one.started, one.name) < (me.started, me.name) for one in beside)
        if level.is_short and beside and is_last:
            return True
    return False


def _lack(
    me: Claim, running: list[Claim], ahead: list[Claim], levels: list[free_memory.MemoryLimit]
) -> str:
    """First come, first served; but who waits for room may be passed, in two ways.

    In its first seconds anyone may pass. Later, only who leaves so much that it would still fit
    beside all who did.
    """
    if any(one.alone in me.levels for one in (*running, *ahead)):
        return _TURN
    if any(me.alone in one.levels for one in running):
        return _TURN
    if me.jobs and sum(one.build == me.build for one in running) >= me.jobs:
        return JOBS
    left = {
        level.name: level.free - sum(one.growth for one in running if level.name in one.levels)
        for level in levels
    }
    for one in ahead:
        if one.lacks not in {_TURN, JOBS, *left}:  # a limit that isn't ours holds it back
            continue
        shared = [name for name in one.levels if name in left]
        if all(one.expected <= left[name] for name in shared):
            for name in shared:
                left[name] -= one.expected
        elif me.beat - one.asked > _BYPASS and _is_in_the_way(me, one, running, levels):
            return _TURN
    return next((name for name in left if me.expected > left[name]), START)


def _is_in_the_way(
    me: Claim, one: Claim, running: list[Claim], levels: list[free_memory.MemoryLimit]
) -> bool:
    """Whether `one` wouldn't fit beside `me` and all that came later and run already."""
    for level in levels:
        if level.name in one.levels:
            inside = [other for other in running if level.name in other.levels]
            whole = level.free + sum(other.used for other in inside)
            passed = sum(other.expected for other in inside if other.order > one.order)
            if one.expected + passed + me.expected > whole:
                return True
    return False
