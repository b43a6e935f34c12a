"""Limits of the default policy, by a clock that only moves when something waits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cuwheel.base import limits
from cuwheel.base.errors import UsageError
from cuwheel.base.fetch import retry
from cuwheel.base.fetch.retry import RETRY_POLICY, Attempts, ProgramWatch, slow_factor
from cuwheel.base.system.parallel import Stop, StoppedError
from tests.support.packages.bombs import MIB
from tests.support.waiting import wait_for


class Clock(Stop):
    """Clock that its pauses move on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def _default_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "RETRY_POLICY", RETRY_POLICY)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("cuwheel.base.fetch.retry.monotonic", lambda: clock.now)
    return clock


def give_up(attempts: Attempts, clock: Clock, takes: float) -> int:
    """Try until the limit, each time for so many seconds; return the number of attempts."""
    times = 1
    clock.now += takes
    while attempts.may_retry():
        times += 1
        clock.now += min(takes, attempts.left)
    return times


def test_tries_server_that_refuses_five_times_in_eight_seconds(clock: Clock) -> None:
    times = give_up(Attempts(stop=clock), clock, takes=0.0)

    assert (times, clock.now) == (5, 0.5 + 1 + 2 + 4)


@pytest.mark.parametrize(
    "takes",
    [RETRY_POLICY.connect, 2 * RETRY_POLICY.connect, RETRY_POLICY.answer, RETRY_POLICY.limit],
    ids=["one address", "two addresses", "no answer", "no name"],
)
def test_gives_up_within_thirty_seconds(takes: float, clock: Clock) -> None:
    give_up(Attempts(stop=clock), clock, takes)

    assert clock.now < 30


def test_counts_anew_after_progress(clock: Clock) -> None:
    attempts = Attempts(stop=clock)
    give_up(attempts, clock, takes=0.0)

    attempts.note_progress()

    assert attempts.left == RETRY_POLICY.limit
    assert give_up(attempts, clock, takes=0.0) == RETRY_POLICY.attempts


def test_time_goes_on_at_another_server(clock: Clock) -> None:
    attempts = Attempts(stop=clock)
    give_up(attempts, clock, takes=0.0)

    attempts.reset_count()

    assert attempts.left == RETRY_POLICY.limit - 7.5
    assert attempts.may_retry()


def test_gives_up_at_the_total_limit(clock: Clock) -> None:
    attempts = Attempts(stop=clock)

    while attempts.left > 0:
        clock.now += 20.0
        attempts.note_progress()

    assert clock.now == RETRY_POLICY.total
    assert attempts.slow_reason == "it took more than 14400 seconds"


def test_slow_line_gets_more_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_SLOW_NETWORK", "4")

    stretched = Attempts(stop=clock).retry_policy

    assert stretched.limit == 4 * RETRY_POLICY.limit
    assert stretched.total == 4 * RETRY_POLICY.total
    assert stretched.least == RETRY_POLICY.least


def test_waits_no_longer_when_the_end_is_requested() -> None:
    stop = Stop()
    attempts = Attempts(stop=stop)
    stop.request()

    with pytest.raises(StoppedError):
        attempts.may_retry()


_IDLE = "input()"
_WRITES = "while True: open('out', 'ab').write(bytes(1 << 16))"
_WORKS = "while True: pass"
_STARTS = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_WRITES!r}])"
_SHARES = "import os; os.sched_setaffinity(0, {{{cpu}}}); os.nice({nice})\nwhile True: pass"
_WAITS = "import fcntl; fcntl.flock(open('lock'), fcntl.LOCK_EX)"
FACTOR = 0.1


@pytest.mark.parametrize(("value", "factor"), [("", 1), ("4", 4), (" 0.5 ", 0.5)])
def test_reads_factor(value: str, factor: float) -> None:
    assert slow_factor({"CUWHEEL_SLOW_NETWORK": value}) == factor


@pytest.mark.parametrize("value", ["slow", "0", "-1", "inf", "nan"])
def test_refuses_invalid_factor(value: str) -> None:
    with pytest.raises(UsageError):
        slow_factor({"CUWHEEL_SLOW_NETWORK": value})


def kill_all(pid: int) -> None:
    """End a program and its children."""
    program = psutil.Process(pid)
    for process in (*program.children(recursive=True), program):
        process.kill()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Start a program in a folder with a file `lock`, and return its id."""
    (tmp_path / "lock").touch()
    with contextlib.ExitStack() as stack:

        def start(code: str) -> int:
            argv = [sys.executable, "-c", code]
            child = subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.PIPE)
            stack.enter_context(child)
            stack.callback(kill_all, child.pid)
            return child.pid

        yield start


def has_worked(pid: int) -> bool:
    return float(psutil.Process(pid).cpu_times().user) > 0.5  # seconds


def is_stalled_later(watch: ProgramWatch, pid: int, clock: Clock, fact: Callable[[], bool]) -> bool:
    """Return True if a program is stalled after a window in which something became true."""
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


@pytest.mark.e2e
def test_leaves_program_that_waits_for_a_processor(
    start: Callable[[str], int], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.base.fetch.retry._worked_by", lambda _: 0.0)
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


def test_only_the_total_limit_ends_program_that_is_unreadable(
    start: Callable[[str], int], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        return "" if path.endswith("/io") else Path(path).read_text()

    monkeypatch.setattr("cuwheel.base.fetch.retry._read", refuse)
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
