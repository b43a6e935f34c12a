"""Work in threads that ends, fails, or is abandoned."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from cuwheel.base.system import parallel
from cuwheel.base.system.parallel import (
    Background,
    Stop,
    StoppedError,
    map_all,
    run_all,
    run_within,
)

LONG = 60.0  # seconds that no test waits


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """An event that isn't set while a test runs."""
    event = threading.Event()
    yield event
    event.set()


def fail() -> None:
    raise ValueError("broken")


def test_returns_result_or_raises_exception() -> None:
    assert run_within(LONG, lambda: 7, Stop()) == 7
    with pytest.raises(ValueError, match="broken"):
        run_within(LONG, fail, Stop())


def test_abandons_work_that_takes_too_long(stuck: threading.Event) -> None:
    started = time.monotonic()

    with pytest.raises(TimeoutError):
        run_within(0.1, stuck.wait, Stop())

    assert time.monotonic() - started < LONG / 2


def test_abandons_work_when_the_end_is_requested(stuck: threading.Event) -> None:
    stop = Stop()
    threading.Timer(0.1, stop.request).start()

    with pytest.raises(StoppedError):
        run_within(LONG, stuck.wait, stop)


def test_gives_results_in_order() -> None:
    tasks = [partial(lambda number: number * 2, number) for number in range(50)]

    assert run_all(tasks, Stop()) == [number * 2 for number in range(50)]


def test_first_failure_abandons_the_others(stuck: threading.Event) -> None:
    started = time.monotonic()
    tasks: list[Callable[[], object]] = [stuck.wait, stuck.wait, fail, *[stuck.wait] * 20]

    with pytest.raises(ValueError, match="broken"):
        run_all(tasks, Stop())

    assert time.monotonic() - started < LONG / 2


def test_waits_for_work_that_checks_for_the_end() -> None:
    stop, ended = Stop(), threading.Event()

    def end() -> None:
        with pytest.raises(StoppedError):
            stop.pause(LONG)
        time.sleep(0.1)
        ended.set()

    with pytest.raises(ValueError, match="broken"):
        run_all([end, fail], stop)

    assert ended.is_set()


def test_maps_in_order() -> None:
    assert map_all(lambda number: number * 2, range(1000), [1 << 20] * 1000) == [*range(0, 2000, 2)]


def test_map_gives_small_files_to_one_thread_and_large_ones_to_several() -> None:
    def thread(_: int) -> int:
        time.sleep(0.001)
        return threading.get_ident()

    assert len(set(map_all(thread, range(200), [1] * 200))) == 1
    assert len(set(map_all(thread, range(200), [1 << 30] * 200))) > 1


def test_map_ends_at_first_failure() -> None:
    done: list[int] = []

    def fail(number: int) -> None:
        if number == 0:
            raise ValueError("the first")
        done.append(number)

    with pytest.raises(ValueError, match="the first"):
        map_all(fail, range(100_000), [1 << 20] * 100_000)

    assert len(done) < 99_999


def test_waits_for_task() -> None:
    go_on, done = threading.Event(), []

    def work(_: Stop) -> None:
        go_on.wait(LONG)
        done.append("task")

    with Background() as background:
        background.start("task", work)
        threading.Timer(0.1, go_on.set).start()
        background.wait("task")
        done.append("block")

    assert done == ["task", "block"]


def test_raises_exception_of_a_task() -> None:
    with Background() as background:
        background.wait("unknown")
        background.start("task", lambda _: fail())
        with pytest.raises(ValueError, match="broken"):
            background.wait("task")


def test_interrupt_ends_running_task() -> None:
    ended = threading.Event()

    def work(stop: Stop) -> None:
        try:
            stop.pause(LONG)
        except StoppedError:
            ended.set()
            raise

    with contextlib.suppress(KeyboardInterrupt), Background() as background:
        background.start("task", work)
        raise KeyboardInterrupt

    assert ended.is_set()


def test_waits_for_no_task_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for the lock of an import that Ctrl-C interrupted."""
    monkeypatch.setattr(parallel, "_LONG_GRACE", 0.05)
    held, ended = threading.Event(), threading.Event()

    def work(_: Stop) -> None:
        held.wait(LONG)
        ended.set()

    with Background() as background:
        background.start("task", work)

    assert not ended.is_set()
    held.set()
