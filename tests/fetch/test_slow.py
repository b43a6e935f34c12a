"""What a slow server may cost where a program of others asks it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from cuwheel import limits
from cuwheel.errors import UsageError
from cuwheel.fetch.slow import ProgramWatch, slow_factor
from tests.support.bombs import MIB
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_IDLE = "input()"
_WRITES = "while True: open('out', 'ab').write(bytes(1 << 16))"
_WORKS = "while True: pass"
_STARTS = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_WRITES!r}])"
_SHARES = "import os; os.sched_setaffinity(0, {{{cpu}}}); os.nice({nice})\nwhile True: pass"
_WAITS = "import fcntl; fcntl.flock(open('lock'), fcntl.LOCK_EX)"
FACTOR = 0.1


@pytest.mark.parametrize(("given", "factor"), [("", 1), ("4", 4), (" 0.5 ", 0.5)])
def test_reads_factor(given: str, factor: float) -> None:
    assert slow_factor({"CUWHEEL_SLOW_NETWORK": given}) == factor


@pytest.mark.parametrize("given", ["slow", "0", "-1", "inf", "nan"])
def test_refuses_what_is_no_factor(given: str) -> None:
    with pytest.raises(UsageError, match="not a positive number"):
        slow_factor({"CUWHEEL_SLOW_NETWORK": given})


@dataclass(kw_only=True)
class Clock:
    """A clock that only moves when a test moves it."""

    now: float = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("cuwheel.fetch.slow.time.monotonic", lambda: made.now)
    return made


def kill_all(pid: int) -> None:
    """End a program and what it has started."""
    program = psutil.Process(pid)
    for one in (*program.children(recursive=True), program):
        one.kill()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Starts a program in a folder with a file `lock`, and gives its id."""
    (tmp_path / "lock").touch()
    with contextlib.ExitStack() as stack:

        def start(code: str) -> int:
            words = [sys.executable, "-c", code]
            child = subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE)
            stack.enter_context(child)
            stack.callback(kill_all, child.pid)
            return child.pid

        yield start


def has_worked(pid: int) -> bool:
    return float(psutil.Process(pid).cpu_times().user) > 0.5  # seconds


def is_stalled_later(watch: ProgramWatch, pid: int, clock: Clock, fact: Callable[[], bool]) -> bool:
    """Whether a program is stalled when a window has passed in which something became true."""
    assert not watch.is_stalled(pid)
    wait_for(fact)
    clock.now += watch.window + 1
    return watch.is_stalled(pid)


def test_ends_program_that_does_nothing(start: Callable[[str], int], clock: Clock) -> None:
    watch, pid = ProgramWatch(FACTOR), start(_IDLE)
    wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_SLEEPING)
    clock.now = watch.window
    assert not watch.is_stalled(pid)

    clock.now += watch.window + 1

    assert watch.is_stalled(pid)
    assert watch.fault == "less than 368640 bytes came in 9 seconds"


@pytest.mark.parametrize("code", [_WRITES, _STARTS], ids=["itself", "what it has started"])
def test_leaves_program_that_writes(
    code: str, start: Callable[[str], int], clock: Clock, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def fact() -> bool:
        return out.exists() and out.stat().st_size > MIB

    assert not is_stalled_later(ProgramWatch(FACTOR), start(code), clock, fact)


def test_leaves_program_that_works(start: Callable[[str], int], clock: Clock) -> None:
    pid = start(_WORKS)

    assert not is_stalled_later(ProgramWatch(FACTOR), pid, clock, lambda: has_worked(pid))


def test_leaves_program_that_waits_for_a_processor(
    start: Callable[[str], int], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.fetch.slow._worked_by", lambda _: 0.0)
    cpu = min(os.sched_getaffinity(0))
    start(_SHARES.format(cpu=cpu, nice=0))
    pid = start(_SHARES.format(cpu=cpu, nice=19))

    def has_waited() -> bool:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) > 3e9  # nanoseconds

    assert not is_stalled_later(ProgramWatch(FACTOR), pid, clock, has_waited)


def test_leaves_program_that_waits_for_another(
    start: Callable[[str], int], clock: Clock, tmp_path: Path
) -> None:
    with (tmp_path / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pid = start(_WAITS)

        def fact() -> bool:
            lines = Path("/proc/locks").read_text().splitlines()
            return any("->" in line and f" {pid} " in line for line in lines)

        watch = ProgramWatch(FACTOR)
        wait_for(fact)
        clock.now += 5 * watch.window

        assert not watch.is_stalled(pid)


def test_all_its_time_alone_ends_program_that_nobody_may_look_at(
    start: Callable[[str], int], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        return "" if path.endswith("/io") else Path(path).read_text()

    monkeypatch.setattr("cuwheel.fetch.slow._read", refuse)
    watch, pid = ProgramWatch(FACTOR), start(_IDLE)
    clock.now = 5 * watch.window
    assert not watch.is_stalled(pid)

    clock.now = FACTOR * limits.NETWORK_TOTAL + 1

    assert watch.is_stalled(pid)
    assert watch.fault == "it took more than 1440 seconds"


def test_ends_program_after_all_its_time(start: Callable[[str], int], clock: Clock) -> None:
    watch, pid = ProgramWatch(FACTOR), start(_WORKS)
    wait_for(lambda: has_worked(pid))

    clock.now += FACTOR * limits.NETWORK_TOTAL + 1

    assert watch.is_stalled(pid)
    assert watch.fault == "it took more than 1440 seconds"
