"""The queue of one build's programs for the memory that all builds share.

The thread of each waiting gate is in `MemoryQueue.enter`; now and then one of them decides for all:
the machine's memory and what is reserved for other builds are read once, not once for each. A
build's requests can be anything, so it holds up others for a limited time only: docs/adr/0017.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cuwheel.base.free_memory import MIB, Memory, read_memory
from cuwheel.build.compile.memory import scheduler
from cuwheel.build.compile.memory.ledger import Ledger
from cuwheel.build.compile.memory.scheduler import Claim

# Seconds for which a build waits, with nothing of its own running, for memory that is reserved for
# others and unused; and after one of its programs was killed because memory ran out.
WAIT_LIMIT, WAIT_LIMIT_AFTER_KILL = 300.0, 3600.0
_WARNED_AFTER = 60.0  # seconds of such waiting until the build warns
_COUNTED_AT_ONCE = 1.0  # seconds: a stopped engine hasn't waited
_FRESH = 0.05  # seconds for which a reading of the machine's memory serves all
_SIGN_OF_LIFE = 1.0  # seconds between two writes of an entry that changes in nothing else
# More swap in use by so many bytes than so many seconds ago: the machine has begun to swap.
_SWAP_GROWTH = 32 * MIB
_SWAP_WINDOW = 5.0
_PAUSE = 0.1  # seconds until it is decided again
_AWAKE = 16  # threads that wake in that time, at most
_QUEUED = 16  # programs that wait in the folder, and four for each job: others read them all
_QUEUED_EACH = 4


class QueuedProgram:
    """One program in the queue.

    Attributes:
        file: of its entry in the folder; -1 for none.
        queued_until: when it last waited for others of its build to end, not for memory, in seconds
            since 1970; 0 where it never did.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.file = -1
        self.queued_until = 0.0
        self._written: tuple[object, ...] = ()

    def write(self) -> None:
        """Write the entry, where it has changed."""
        claim = self.claim
        sign = int(claim.beat / _SIGN_OF_LIFE)
        state = (claim.expected, claim.used, claim.started, claim.lacks, sign)
        if self.file >= 0 and state != self._written:
            os.pwrite(self.file, claim.written(), 0)
            self._written = state


class SwapGrowth:
    """The swap in use, compared with that of some seconds ago."""

    def __init__(self) -> None:
        self._looked, self._swapped = 0.0, 0

    def is_seen(self, swapped: int, now: float) -> bool:
        """Return True if more bytes of swap are in use than some seconds ago."""
        age, before = now - self._looked, self._swapped
        if age > _SWAP_WINDOW:
            self._looked, self._swapped = now, swapped
        return age < 2 * _SWAP_WINDOW and swapped - before > _SWAP_GROWTH


class MemoryQueue:
    """The queue of one build.

    Args:
        build: a name that only this build has: its target, then a colon and more.

    Raises:
        OSError: the folder can't be used.
    """

    def __init__(self, folder: Path, build: str, jobs: int, warn: Callable[[str], None]) -> None:
        self._ledger = Ledger(folder)
        self._swap = SwapGrowth()
        self._build = build
        self._jobs = jobs
        self._warn = warn
        self._numbers = itertools.count()
        self._lock = threading.Condition()
        self._programs: list[QueuedProgram] = []
        self._is_closed = False
        self._decided = 0.0
        self._memory: tuple[float, Memory] = (0.0, read_memory())
        self._foreign: tuple[float, list[Claim]] = (0.0, [])
        self._held = 0.0
        self._held_at = 0.0
        self._has_warned = False

    def close(self) -> None:
        """End all waiting."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()

    def enter(self, connection: int, expected: int, known: int, alone: str) -> QueuedProgram:
        """Return when there is memory for a program, and reserve it until the program leaves.

        Args:
            connection: to its gate: a message there, or its end, ends the waiting.
            expected: bytes that will be taken at the peak.
            known: bytes of them that are certain.
            alone: name of a level: wait until no other gated program runs in it, and let none start
                there meanwhile. Where it isn't one of this build's, the tightest of them is taken:
                no build holds up those of another cgroup.

        Raises:
            OSError: the folder can't be used, or the gate has gone away.
        """
        levels = tuple(level.name for level in self._read_memory().levels)
        if alone and alone not in levels:
            alone = self._read_memory().tightest.name
        name = f"{time.monotonic_ns():020d}-{os.getpid()}-{next(self._numbers)}"
        claim = Claim(
            name, expected, levels, alone=alone, build=self._build, jobs=self._jobs, known=known
        )
        program = QueuedProgram(claim)
        gate = select.poll()
        gate.register(connection, select.POLLIN | select.POLLHUP)
        with self._lock:
            if alone:  # memory did run out: reserved memory isn't unused
                self._held = 0.0
            self._programs.append(program)
            try:
                self._decide()
                while not claim.started:
                    self._wait(gate)
            except OSError:
                self.leave(program)
                raise
        return program

    def _wait(self, gate: select.poll) -> None:
        """Wait a moment, then decide anew if no other thread has."""
        # One of them wakes often enough to decide for all; each for itself, the more the less.
        self._lock.wait(_PAUSE * (1 + len(self._programs) / _AWAKE))
        if self._is_closed:
            raise OSError("the build has ended")
        if gate.poll(0):
            raise ConnectionResetError
        if time.monotonic() - self._decided >= _PAUSE:
            self._decide()

    def report(self, program: QueuedProgram, used: int) -> bool:
        """Set the bytes that a program uses now; return True if it is to be killed."""
        program.claim.uses(used)
        program.write()
        levels = self._read_memory().levels
        if not any(level.is_short for level in levels):
            return False  # as nearly always, and the others' entries needn't be read
        return scheduler.must_yield(program.claim, self._others(program), levels)

    def is_alone(self, program: QueuedProgram | None, level: str) -> bool:
        """Return True if no other gated process runs in a level now."""
        return not any(claim.started and level in claim.levels for claim in self._others(program))

    def leave(self, program: QueuedProgram) -> None:
        """Give a program's memory back."""
        with self._lock:
            if program in self._programs:
                self._programs.remove(program)
            self._withdraw(program)
            with contextlib.suppress(OSError):  # those that wait will see it
                self._decide()

    def _withdraw(self, program: QueuedProgram) -> None:
        if program.file >= 0:
            file, program.file = program.file, -1
            self._ledger.remove(program.claim.name, file)

    def _read_memory(self) -> Memory:
        """Return the machine's memory, read once for all."""
        now = time.monotonic()
        read, memory = self._memory
        if now - read > _FRESH:
            memory = read_memory()
            self._memory = now, memory
        return memory

    def _others(self, program: QueuedProgram | None) -> list[Claim]:
        now = time.monotonic()
        with self._lock:
            own = [other.claim for other in self._programs]
            if now - self._foreign[0] > _FRESH:
                self._foreign = now, self._ledger.others({claim.name for claim in own})
        return [
            claim for claim in (*own, *self._foreign[1]) if not program or claim != program.claim
        ]

    def _decide(self) -> None:
        """Start the programs that may, in their order; the lock is held."""
        waiting = [program for program in self._programs if not program.claim.started]
        if not waiting:
            return
        waiting.sort(key=lambda program: program.claim.order)
        with self._ledger.deciding():
            now = self._decided = time.monotonic()
            memory = read_memory()
            if self._swap.is_seen(memory.swapped, now):
                memory.pressed = True
            own = [program.claim for program in self._programs]
            foreign = self._ledger.others({claim.name for claim in own})
            self._memory, self._foreign = (now, memory), (now, foreign)
            self._count(waiting[0].claim, own, foreign, memory, now)
            most = _QUEUED + _QUEUED_EACH * self._jobs
            for program in waiting[most:]:
                self._withdraw(program)
            for program in waiting[:most]:
                self._decide_for(program, own, foreign, memory, now)
        if any(program.claim.started for program in waiting):
            self._lock.notify_all()
        if self._held > _WARNED_AFTER and not self._has_warned:
            self._has_warned = True
            self._warn(_waiting_warning(foreign))

    def _decide_for(
        self,
        program: QueuedProgram,
        own: list[Claim],
        foreign: list[Claim],
        memory: Memory,
        now: float,
    ) -> None:
        claim = program.claim
        claim.beat = now
        if program.file < 0:
            program.file = self._ledger.enter(claim.name)
        ours = [other for other in own if other is not claim]
        claim.lacks = scheduler.lack(claim, [*foreign, *ours], memory, now)
        limit = WAIT_LIMIT_AFTER_KILL if claim.alone else WAIT_LIMIT
        if self._held >= limit and scheduler.has_room(claim, ours, memory, now):
            claim.lacks = scheduler.START
        if claim.lacks == scheduler.START:
            claim.started = now
        elif claim.lacks == scheduler.JOBS:
            program.queued_until = time.time()
        program.write()

    def _count(
        self, first: Claim, own: list[Claim], foreign: list[Claim], memory: Memory, now: float
    ) -> None:
        """Count for how long memory reserved for others alone keeps this build from running."""
        before, self._held_at = self._held_at, 0.0
        if not foreign or any(claim.started for claim in own):
            return
        others = [claim for claim in own if claim is not first]
        if scheduler.lack(first, [*foreign, *others], memory, now) == scheduler.START:
            return
        if scheduler.has_room(first, others, memory, now):
            self._held += min(now - before, _COUNTED_AT_ONCE) if before else 0.0
            self._held_at = now


def _waiting_warning(foreign: list[Claim]) -> str:
    builds = {claim.build for claim in foreign if claim.started} or {
        claim.build for claim in foreign
    }
    names = sorted(build.rpartition(".")[0] or build for build in builds)
    return (
        "programs of this build wait for memory that is reserved for other builds: "
        f"{', '.join(names)} (recipe and process); after {WAIT_LIMIT / 60:.0f} minutes they start "
        "if enough memory is free; to continue at once, end those builds, or give this one its own "
        "CUWHEEL_CACHE"
    )
