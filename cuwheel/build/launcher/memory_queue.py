"""The programs of one build before the memory that all builds share: one that decides for all.

Each program's gate has a connection to the memory service. What they ask is decided here, for all
of them at once: the machine's memory and what other builds were promised are read once for all, not
once for each. What a build may say can be anything, so it holds up others for a limited time only:
docs/adr/0017.
"""

from __future__ import annotations

import itertools
import os
import select
import threading
import time
from typing import TYPE_CHECKING, Final

from cuwheel.standalone.memory_gate import scheduler
from cuwheel.standalone.memory_gate.free_memory import read_memory
from cuwheel.standalone.memory_gate.ledger import SharedFolder, pause
from cuwheel.standalone.memory_gate.scheduler import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuwheel.standalone.memory_gate.free_memory import Memory

# Seconds for which a build waits, with nothing of its own running, for memory that others were
# promised and don't use; and after one of its programs was killed because memory ran out.
WAIT_LIMIT, WAIT_LIMIT_AFTER_KILL = 300.0, 3600.0
_TOLD_AFTER = 60.0  # seconds of such waiting until the build says so
_COUNTED_AT_ONCE = 1.0  # seconds: a stopped engine hasn't waited
_FRESH = 0.05  # seconds for which a reading of the machine's memory serves all
_NOTED = 1.0  # seconds between two signs of life of a program that changes nothing else
_LEAST_PAUSE = 0.01  # seconds between two decisions, however many come and go
_QUEUED = 16  # programs that wait in the folder, and four for each job: others read them all
_QUEUED_EACH = 4


class Place:
    """One program in the queue.

    Attributes:
        claim: as the others see it.
        connection: to its gate.
        file: of its entry in the folder; -1 for none.
        decided: set when it may start, has gone away, or `problem` says why nothing is known.
        problem: what went wrong.
        queued_until: as `Ledger` has it.
    """

    def __init__(self, claim: Claim, connection: int) -> None:
        self.claim: Final = claim
        self.connection: Final = connection
        self.file = -1
        self.decided: Final = threading.Event()
        self.problem: OSError | None = None
        self.queued_until = 0.0
        self._noted: tuple[object, ...] = ()

    def note(self) -> None:
        """Write the entry, where it says something new.

        Raises:
            OSError: it can't be written.
        """
        claim = self.claim
        sign = int(claim.beat / _NOTED)
        said = (claim.expected, claim.used, claim.started, claim.lacks, sign)
        if self.file >= 0 and said != self._noted:
            os.pwrite(self.file, claim.written(), 0)
            self._noted = said


class MemoryQueue:
    """The queue of one build.

    Args:
        folder: what all builds of this machine share about memory.
        build: a word that all of one build have in common: its target, then a colon and more.
        jobs: how many of its programs may run at once.
        warn: told, once, who it is that has this build wait.

    Raises:
        OSError: the folder can't be used.
    """

    def __init__(self, folder: str, build: str, jobs: int, warn: Callable[[str], None]) -> None:
        self._shared = SharedFolder(folder)
        self._build = build
        self._jobs = jobs
        self._warn = warn
        self._numbers = itertools.count()
        self._lock = threading.Condition()
        self._places: list[Place] = []
        self._is_closed = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._seen: tuple[float, Memory] = (0.0, read_memory())
        self._foreign: tuple[float, list[Claim]] = (0.0, [])
        self._held = 0.0
        self._held_at = 0.0
        self._has_told = False
        self._thread = threading.Thread(target=self._decide_for_all, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._lock:
            self._is_closed = True
            self._wake_up()
        self._thread.join()
        os.close(self._wake)

    def enter(self, connection: int, expected: int, known: int, alone: str) -> Place:
        """Return when there is room for a program, and hold it until it leaves.

        Args:
            connection: to its gate: what is said there, or its end, ends the waiting.
            expected: bytes that will be taken at the peak.
            known: bytes of them that are certain.
            alone: name of a level, as `Ledger` has it; where it isn't one of this build's, the
                tightest of them is taken: nobody holds up those of another cgroup.

        Raises:
            OSError: the folder can't be used, or the gate has gone away.
        """
        levels = tuple(level.name for level in self._look().levels)
        if alone and alone not in levels:
            alone = self._look().tightest.name
        name = f"{time.monotonic_ns():020d}-{os.getpid()}-{next(self._numbers)}"
        claim = Claim(name, expected, levels, alone=alone, build=self._build, jobs=self._jobs)
        claim.known = known
        place = Place(claim, connection)
        with self._lock:
            if self._is_closed:
                raise OSError("the build has ended")
            if alone:  # memory did run out: what others were promised is theirs
                self._held = 0.0
            self._places.append(place)
            self._wake_up()
        place.decided.wait()
        if place.problem:
            self.leave(place)
            raise place.problem
        return place

    def tell(self, place: Place, used: int) -> bool:
        """Note how many bytes a program uses now; whether it is to end, since memory runs out."""
        place.claim.uses(used)
        place.note()
        levels = self._look().levels
        if not any(level.is_short for level in levels):
            return False  # as nearly always, and the others' entries needn't be read
        return scheduler.must_yield(place.claim, self._others(place), levels)

    def is_alone(self, place: Place | None, level: str) -> bool:
        """Whether nothing else that is gated runs in a level now."""
        return not any(one.started and level in one.levels for one in self._others(place))

    def leave(self, place: Place) -> None:
        """Give back what a program was promised."""
        with self._lock:
            if place in self._places:
                self._places.remove(place)
            self._withdraw(place)
            self._wake_up()

    def _withdraw(self, place: Place) -> None:
        if place.file >= 0:
            file, place.file = place.file, -1
            self._shared.remove(place.claim.name, file)

    def _look(self) -> Memory:
        """What memory there is; read for all at once."""
        now = time.monotonic()
        read, seen = self._seen
        if now - read > _FRESH:
            seen = read_memory()
            self._seen = now, seen
        return seen

    def _others(self, place: Place | None) -> list[Claim]:
        now = time.monotonic()
        with self._lock:
            own = [one.claim for one in self._places]
            if now - self._foreign[0] > _FRESH:
                self._foreign = now, self._shared.others({claim.name for claim in own})
        return [claim for claim in (*own, *self._foreign[1]) if not place or claim != place.claim]

    def _wake_up(self) -> None:
        """Have it decided anew, now; the lock is held."""
        self._lock.notify()
        if self._thread.is_alive():
            os.eventfd_write(self._wake, 1)

    def _waiting(self) -> list[Place]:
        found = [one for one in self._places if not one.decided.is_set()]
        return sorted(found, key=lambda one: one.claim.order)

    def _decide_for_all(self) -> None:
        try:
            while self._is_wanted():
                try:
                    self._decide_once()
                except OSError as problem:
                    self._give_up(problem)
                self._warn_of_waiting()
                self._rest()
        finally:
            self._is_closed = True
            self._give_up(OSError("the build has ended"))

    def _is_wanted(self) -> bool:
        """Whether the queue is open; returns when somebody waits."""
        with self._lock:
            self._lock.wait_for(lambda: self._is_closed or self._waiting())
            return not self._is_closed

    def _decide_once(self) -> None:
        with self._shared.deciding():
            now = time.monotonic()
            seen = self._shared.read_memory(now)
            with self._lock:
                self._decide(seen, now)

    def _give_up(self, problem: OSError) -> None:
        with self._lock:
            for place in self._waiting():
                place.problem = problem
                place.decided.set()

    def _decide(self, seen: Memory, now: float) -> None:
        """Let start who may, in their order."""
        own = [one.claim for one in self._places]
        foreign = self._shared.others({claim.name for claim in own})
        self._seen, self._foreign = (now, seen), (now, foreign)
        if not (waiting := self._waiting()):
            return
        self._count(waiting, own, foreign, seen, now)
        most = _QUEUED + _QUEUED_EACH * self._jobs
        for place in waiting[most:]:
            self._withdraw(place)
        for place in waiting[:most]:
            claim = place.claim
            claim.beat = now
            if place.file < 0:
                place.file = self._shared.enter(claim.name)
            ours = [one for one in own if one is not claim]
            claim.lacks = scheduler.lack(claim, [*foreign, *ours], seen, now)
            if self._held >= _wait_limit(claim) and scheduler.has_room(claim, ours, seen, now):
                claim.lacks = scheduler.START
            if claim.lacks == scheduler.START:
                claim.started = now
            elif claim.lacks == scheduler.JOBS:
                place.queued_until = time.time()
            place.note()
            if claim.started:
                place.decided.set()

    def _count(
        self, waiting: list[Place], own: list[Claim], foreign: list[Claim], seen: Memory, now: float
    ) -> None:
        """Count for how long others' promises alone keep this build from running anything."""
        before, self._held_at = self._held_at, 0.0
        first = waiting[0].claim
        if not foreign or any(claim.started for claim in own):
            return
        others = [claim for claim in own if claim is not first]
        if scheduler.lack(first, [*foreign, *others], seen, now) == scheduler.START:
            return
        if scheduler.has_room(first, others, seen, now):
            self._held += min(now - before, _COUNTED_AT_ONCE) if before else 0.0
            self._held_at = now

    def _warn_of_waiting(self) -> None:
        if self._held > _TOLD_AFTER and not self._has_told:
            self._has_told = True
            self._warn(_say(self._foreign[1]))

    def _rest(self) -> None:
        """Wait until it is time to decide again, or something has changed."""
        time.sleep(_LEAST_PAUSE)
        with self._lock:
            waiting = self._waiting()
        if not waiting:
            return
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for place in waiting:
            poll.register(place.connection, select.POLLIN | select.POLLHUP)
        found = {file for file, _ in poll.poll(pause(waiting[0].claim) * 1000)}
        if self._wake in found:
            os.eventfd_read(self._wake)
        for place in waiting:
            if place.connection in found:
                place.problem = ConnectionResetError()
                place.decided.set()


def _wait_limit(claim: Claim) -> float:
    return WAIT_LIMIT_AFTER_KILL if claim.alone else WAIT_LIMIT


def _say(foreign: list[Claim]) -> str:
    promised = {claim.build for claim in foreign if claim.started} or {one.build for one in foreign}
    names = sorted(build.rpartition(".")[0] or build for build in promised)
    return (
        "programs of this build wait for memory that is reserved for other builds: "
        f"{', '.join(names)} (recipe and process); after {WAIT_LIMIT / 60:.0f} minutes they start "
        "if enough memory is free; to continue at once, end those builds, or give this one its own "
        "CUWHEEL_CACHE"
    )
