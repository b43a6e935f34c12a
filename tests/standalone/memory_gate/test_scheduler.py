from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING

import pytest

from cuwheel.standalone.memory_gate.free_memory import MACHINE, Memory, MemoryLimit
from cuwheel.standalone.memory_gate.scheduler import START, WIDTH, Claim, lack, must_yield

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICK = 0.25  # seconds between two looks of a waiting process


def make_entry(asked: float, expected: int, **facts: object) -> Claim:
    levels = facts.pop("levels", (MACHINE,))
    alone = str(facts.pop("alone", ""))
    entry = Claim(f"{int(asked * 1e9):020d}-1", expected, levels, alone=alone)  # type: ignore[arg-type]
    entry.beat = asked
    for name, value in facts.items():
        setattr(entry, name, value)
    return entry


def make_room(free: int, total: int = 1000, name: str = MACHINE) -> Memory:
    level = MemoryLimit(name, 0, 0)
    level.total, level.free = total, free
    return Memory([level], 0, pressed=False)


@dataclasses.dataclass
class Job:
    asked: float
    size: int
    duration: float
    started: float = -1.0
    ended: float = -1.0


class Machine:
    """A machine where jobs grow evenly to their size, and ask again at each tick, in any order."""

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
            active = [job for job in todo if job.asked <= self.now and job.ended < 0]
            self._random.shuffle(active)
            for job in active:
                self._step(job)
            self.most = max(self.most, self._used())

    def _used(self) -> int:
        return sum(entry.used for entry in self._entries.values())

    def _step(self, job: Job) -> None:
        entry = self._entries.setdefault(id(job), make_entry(job.asked, job.size))
        entry.beat = self.now
        if job.started >= 0:
            entry.used = int(job.size * min(1.0, (self.now - job.started) / job.duration))
            if self.now - job.started >= job.duration:
                job.ended = self.now
                del self._entries[id(job)]
            return
        others = [one for one in self._entries.values() if one is not entry]
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
    assert [getattr(again, name) for name in Claim.__slots__] == [
        getattr(entry, name) for name in Claim.__slots__
    ]
    assert (again.asked, again.growth) == (12.5, 4)


def test_counts_what_others_will_still_take() -> None:
    running = make_entry(1, 600, started=1.0, used=200)

    assert lack(make_entry(2, 300), [running], make_room(700), 2) == START
    assert lack(make_entry(2, 301), [running], make_room(700), 2) == MACHINE


def test_leaves_room_to_who_came_first() -> None:
    first = make_entry(1, 600)

    assert lack(make_entry(2, 500), [first], make_room(1000), 2) == MACHINE
    assert lack(make_entry(2, 400), [first], make_room(1000), 2) == START


def test_lets_small_ones_pass_at_first() -> None:
    running = make_entry(1, 700, started=1.0, used=700)
    large = make_entry(2, 900, beat=10.0)

    assert lack(make_entry(10, 300), [running, large], make_room(300), 10) == START


def test_lets_none_pass_for_long() -> None:
    running = make_entry(1, 700, started=1.0, used=700, beat=30.0)
    large = make_entry(2, 900, beat=30.0)

    assert lack(make_entry(30, 300), [running, large], make_room(300), 30) != START


def test_lets_pass_for_ever_who_fits_beside() -> None:
    running = make_entry(1, 700, started=1.0, used=700, beat=30.0)
    large = make_entry(2, 800, beat=30.0)
    passed = make_entry(25, 100, started=25.0, used=100, beat=30.0)

    waiting = [running, large, passed]
    assert lack(make_entry(30, 100), waiting, make_room(200), 30) == START
    assert lack(make_entry(30, 101), waiting, make_room(200), 30) != START


def test_waits_for_nobody_who_was_stopped() -> None:
    stopped = make_entry(1, 900)
    asleep = make_entry(2, 900, started=2.0)

    assert lack(make_entry(40, 500), [stopped, asleep], make_room(600), 40) == START


def test_lets_nobody_in_beside_who_runs_alone() -> None:
    waiting = make_entry(9, 100, alone=MACHINE)
    running = make_entry(9, 100, alone=MACHINE, started=9.0)

    assert lack(make_entry(2, 100), [waiting], make_room(1000), 9) != START
    assert lack(make_entry(2, 100), [running], make_room(1000), 9) != START
    assert lack(
        make_entry(2, 100, alone=MACHINE), [make_entry(1, 1, started=1.0)], make_room(1000), 9
    )


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
        pytest.param(LATE, [WAITS], -51, False, id="beside who waits"),
        pytest.param(LATE, [ELSEWHERE], -51, False, id="beside one in another container"),
    ],
)
def test_ends_who_started_last(me: Claim, others: list[Claim], free: int, *, ends: bool) -> None:
    levels = make_room(free).levels
    levels[0].reserve = 100

    assert must_yield(me, others, levels) is ends


def test_is_not_held_up_by_the_limit_of_another_container() -> None:
    elsewhere = make_entry(1, 900, levels=(MACHINE, "1:2"), lacks="1:2")

    assert lack(make_entry(2, 900), [elsewhere], make_room(1000), 2) == START


def test_who_runs_alone_in_a_limit_stops_nobody_outside_it() -> None:
    alone = make_entry(1, 100, levels=(MACHINE, "1:2"), alone="1:2", started=1.0)
    inside = make_entry(2, 100, levels=(MACHINE, "1:2"))

    assert lack(make_entry(2, 100), [alone], make_room(1000), 2) == START
    assert lack(inside, [alone], make_room(1000), 2) != START
    assert lack(inside, [make_entry(1, 1, alone="3:4", started=1.0)], make_room(1000), 2) == START


def test_waits_for_nobody_outside_the_limit_that_holds_it() -> None:
    outside = make_entry(1, 10, started=1.0)
    me = make_entry(2, 900, levels=(MACHINE, "1:2"), known=900)
    seen = Memory([*make_room(10_000).levels, *make_room(500, 500, "1:2").levels], 0, pressed=False)

    assert lack(me, [outside], seen, 2) == START


def test_waits_for_nothing_uncertain_when_all_is_quiet() -> None:
    assert lack(make_entry(1, 500, known=400), [], make_room(400), 1) == START


def test_waits_a_little_for_memory_that_others_hold() -> None:
    me = make_entry(1, 500, known=401)

    found = [lack(me, [], make_room(400), now) for now in (1.0, 10.5, 11.0)]

    assert found == [MACHINE, MACHINE, START]


def test_waits_longer_after_a_kill() -> None:
    me = make_entry(1, 500, alone=MACHINE, known=401)

    found = [lack(me, [], make_room(400), now) for now in (1.0, 60.0, 61.0)]

    assert found == [MACHINE, MACHINE, START]


def test_starts_what_fits_in_no_machine_when_all_is_quiet() -> None:
    me = make_entry(1, 1100, known=1001)

    assert lack(me, [make_entry(0, 1, started=0.1)], make_room(999), 1) == MACHINE
    assert lack(me, [], make_room(400), 1) == START


def test_starts_nothing_more_under_pressure() -> None:
    pressed = make_room(1000)
    pressed.pressed = True
    me = make_entry(2, 1)

    assert lack(me, [make_entry(1, 1, started=1.0)], pressed, 2) == MACHINE
    assert [lack(me, [], pressed, now) for now in (3.0, 13.0)] == [MACHINE, START]


@pytest.mark.parametrize("seed", range(4))
def test_runs_all_within_memory(seed: int) -> None:
    numbers = random.Random(seed)
    jobs = [
        Job(
            asked=numbers.uniform(0, 60),
            size=int(numbers.choice((20, 80, 300, 700, 1000)) * numbers.uniform(0.5, 1)),
            duration=numbers.uniform(0.5, 20),
        )
        for _ in range(60)
    ]
    machine = Machine(1000, seed)

    machine.run(jobs)

    assert all(job.ended > 0 for job in jobs)
    assert machine.most <= 1000


def test_small_ones_never_starve_a_large_one() -> None:
    small = [Job(asked=number / 2, size=200, duration=5) for number in range(100)]
    large = Job(asked=10, size=900, duration=5)

    Machine(1000).run([*small, large])

    assert large.started - large.asked < 20 + 5 + 1


def test_large_ones_never_starve_a_small_one() -> None:
    large = [Job(asked=number / 10, size=900, duration=5) for number in range(30)]
    small = Job(asked=3, size=90, duration=5)

    Machine(1000).run([*large, small], until=60)

    assert small.started - small.asked < 1


def test_fills_memory_beside_large_ones() -> None:
    """As in flash-attn: after each 86 s of cicc, 23 s of ptxas, in one after the other's memory."""
    large = [Job(asked=0, size=650, duration=80) for _ in range(6)]
    small = [Job(asked=80.5 * number, size=100, duration=20) for number in range(1, 6)]

    Machine(1000).run([*large, *small])

    assert max(job.started - job.asked for job in small) < 1
    assert max(job.ended for job in large) < 6 * 82
