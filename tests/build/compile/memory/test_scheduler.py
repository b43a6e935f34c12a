from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

import pytest

from cuwheel.base.free_memory import MACHINE, Memory, MemoryLimit
from cuwheel.build.compile.memory.scheduler import START, WIDTH, Claim, lack, must_yield

_TICK = 0.25  # seconds between two looks of a waiting process


def make_entry(requested: float, expected: int, **facts: object) -> Claim:
    levels = facts.pop("levels", (MACHINE,))
    alone = str(facts.pop("alone", ""))
    entry = Claim(f"{int(requested * 1e9):020d}-1", expected, levels, alone=alone)  # type: ignore[arg-type]
    entry.beat = requested
    for name, value in facts.items():
        setattr(entry, name, value)
    return entry


def make_room(free: int, total: int = 1000, name: str = MACHINE) -> Memory:
    level = MemoryLimit(name, 0, 0)
    level.total, level.free = total, free
    return Memory([level], 0, pressed=False)


@dataclasses.dataclass
class Job:
    requested: float
    size: int
    duration: float
    started: float = -1.0
    ended: float = -1.0


class Machine:
    """A machine where jobs grow evenly to their size, and look again at each tick, in any order."""

    def __init__(self, total: int, seed: int = 0) -> None:
        self.now = 0.0
        self.most = 0
        self._total = total
        self._random = random.Random(seed)
        self._entries: dict[int, Claim] = {}

    def run(self, jobs: Iterable[Job], until: float = 10_000.0) -> None:
        todo = list(jobs)
        while self.now < until and any(job.ended < 0 for job in todo):
            self.now += _TICK
            active = [job for job in todo if job.requested <= self.now and job.ended < 0]
            self._random.shuffle(active)
            for job in active:
                self._step(job)
            self.most = max(self.most, self._used())

    def _used(self) -> int:
        return sum(entry.used for entry in self._entries.values())

    def _step(self, job: Job) -> None:
        entry = self._entries.setdefault(id(job), make_entry(job.requested, job.size))
        entry.beat = self.now
        if job.started >= 0:
            entry.used = int(job.size * min(1.0, (self.now - job.started) / job.duration))
            if self.now - job.started >= job.duration:
                job.ended = self.now
                del self._entries[id(job)]
            return
        others = [other for other in self._entries.values() if other is not entry]
        entry.lacks = lack(
            entry, others, make_room(self._total - self._used(), self._total), self.now
        )
        if entry.lacks == START:
            job.started = entry.started = self.now


def test_keeps_all_in_its_text() -> None:
    entry = make_entry(12.5, 7, levels=(MACHINE, "32:35"), alone=MACHINE, used=3, started=13.5)
    entry.lacks = START

    again = Claim.read(entry.name, entry.written())

    assert len(entry.written()) == WIDTH
    assert dataclasses.asdict(again) == dataclasses.asdict(entry)
    assert (again.requested, again.growth) == (12.5, 4)


def running(requested: float, expected: int, **facts: object) -> Claim:
    return make_entry(requested, expected, started=requested, **facts)


IN_CGROUP = (MACHINE, "1:2")
FULL = running(1, 700, used=700, beat=30.0)
PASSED = running(25, 100, used=100, beat=30.0)


@pytest.mark.parametrize(
    ("me", "others", "free", "starts"),
    [
        # What others will still take counts.
        (make_entry(2, 300), [running(1, 600, used=200)], 700, True),
        (make_entry(2, 301), [running(1, 600, used=200)], 700, False),
        # The first keeps its room.
        (make_entry(2, 500), [make_entry(1, 600)], 1000, False),
        (make_entry(2, 400), [make_entry(1, 600)], 1000, True),
        # Small ones pass at first, none for long, and for ever what fits.
        (
            make_entry(10, 300),
            [running(1, 700, used=700), make_entry(2, 900, beat=10.0)],
            300,
            True,
        ),
        (make_entry(30, 300), [FULL, make_entry(2, 900, beat=30.0)], 300, False),
        (make_entry(30, 100), [FULL, make_entry(2, 800, beat=30.0), PASSED], 200, True),
        (make_entry(30, 101), [FULL, make_entry(2, 800, beat=30.0), PASSED], 200, False),
        # None waits for a stopped one.
        (make_entry(40, 500), [make_entry(1, 900), running(2, 900)], 600, True),
        # Nothing starts with one that runs alone, nor that one with others.
        (make_entry(2, 100), [make_entry(9, 100, alone=MACHINE)], 1000, False),
        (make_entry(2, 100), [running(9, 100, alone=MACHINE)], 1000, False),
        (make_entry(2, 100, alone=MACHINE), [running(1, 1)], 1000, False),
        # A limit of another container holds nothing up here; one alone in it stops none outside.
        (make_entry(2, 900), [make_entry(1, 900, levels=IN_CGROUP, lacks="1:2")], 1000, True),
        (make_entry(2, 100), [running(1, 100, levels=IN_CGROUP, alone="1:2")], 1000, True),
        (
            make_entry(2, 100, levels=IN_CGROUP),
            [running(1, 100, levels=IN_CGROUP, alone="1:2")],
            1000,
            False,
        ),
        (make_entry(2, 100, levels=IN_CGROUP), [running(1, 1, alone="3:4")], 1000, True),
        # Nothing uncertain is waited for when all is quiet.
        (make_entry(1, 500, known=400), [], 400, True),
        # What fits in no machine starts when all is quiet.
        (make_entry(1, 1100, known=1001), [running(0.1, 1)], 999, False),
        (make_entry(1, 1100, known=1001), [], 400, True),
    ],
)
def test_starts_what_may(me: Claim, others: list[Claim], free: int, *, starts: bool) -> None:
    now = max(me.beat, *(other.beat for other in others), 9) if others else me.beat

    assert (lack(me, others, make_room(free), now) == START) is starts


OLD = make_entry(1, 10, started=1.0)
LATE = make_entry(2, 10, started=2.0)
WAITS = make_entry(3, 10)
ELSEWHERE = make_entry(1, 10, started=1.0, levels=("1:2",))


@pytest.mark.parametrize(
    ("me", "others", "free", "ends"),
    [
        pytest.param(LATE, [OLD, WAITS], -51, True, id="the last"),
        pytest.param(LATE, [OLD, WAITS], -50, False, id="half of the reserve is left"),
        pytest.param(OLD, [LATE], -51, False, id="not the last"),
        pytest.param(LATE, [], -51, False, id="alone"),
        pytest.param(LATE, [WAITS], -51, False, id="with a waiting one"),
        pytest.param(LATE, [ELSEWHERE], -51, False, id="with one in another container"),
    ],
)
def test_ends_who_started_last(me: Claim, others: list[Claim], free: int, *, ends: bool) -> None:
    levels = make_room(free).levels
    levels[0].reserve = 100

    assert must_yield(me, others, levels) is ends


def test_waits_for_none_outside_its_limit() -> None:
    me = make_entry(2, 900, levels=IN_CGROUP, known=900)
    levels = [*make_room(10_000).levels, *make_room(500, 500, "1:2").levels]

    assert lack(me, [running(1, 10)], Memory(levels, 0, pressed=False), 2) == START


@pytest.mark.parametrize(
    ("alone", "times"), [("", (1.0, 10.5, 11.0)), (MACHINE, (1.0, 60.0, 61.0))]
)
def test_waits_a_little_for_memory_that_others_hold_and_longer_after_a_kill(
    alone: str, times: tuple[float, ...]
) -> None:
    me = make_entry(1, 500, alone=alone, known=401)

    assert [lack(me, [], make_room(400), now) for now in times] == [MACHINE, MACHINE, START]


def test_starts_nothing_more_under_pressure() -> None:
    pressed = make_room(1000)
    pressed.pressed = True
    me = make_entry(2, 1)

    assert lack(me, [make_entry(1, 1, started=1.0)], pressed, 2) == MACHINE
    assert [lack(me, [], pressed, now) for now in (3.0, 13.0)] == [MACHINE, START]


@pytest.mark.e2e
@pytest.mark.parametrize("seed", range(4))
def test_runs_all_within_memory(seed: int) -> None:
    numbers = random.Random(seed)
    jobs = [
        Job(
            requested=numbers.uniform(0, 60),
            size=int(numbers.choice((20, 80, 300, 700, 1000)) * numbers.uniform(0.5, 1)),
            duration=numbers.uniform(0.5, 20),
        )
        for _ in range(60)
    ]
    machine = Machine(1000, seed)

    machine.run(jobs)

    assert all(job.ended > 0 for job in jobs)
    assert machine.most <= 1000


@pytest.mark.e2e
def test_small_ones_never_starve_a_large_one() -> None:
    small = [Job(requested=number / 2, size=200, duration=5) for number in range(100)]
    large = Job(requested=10, size=900, duration=5)

    Machine(1000).run([*small, large])

    assert large.started - large.requested < 20 + 5 + 1


def test_large_ones_never_starve_a_small_one() -> None:
    large = [Job(requested=number / 10, size=900, duration=5) for number in range(30)]
    small = Job(requested=3, size=90, duration=5)

    Machine(1000).run([*large, small], until=60)

    assert small.started - small.requested < 1


def test_fills_memory_next_to_large_ones() -> None:
    """As in flash-attn: after each 86 s of cicc, 23 s of ptxas, in one after the other's memory."""
    large = [Job(requested=0, size=650, duration=80) for _ in range(6)]
    small = [Job(requested=80.5 * number, size=100, duration=20) for number in range(1, 6)]

    Machine(1000).run([*large, *small])

    assert max(job.started - job.requested for job in small) < 1
    assert max(job.ended for job in large) < 6 * 82
