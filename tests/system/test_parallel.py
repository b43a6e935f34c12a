"""Work that ends, fails, or is left behind."""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from cuwheel.system import parallel
from cuwheel.system.parallel import (
    Stop,
    StoppedError,
    in_background,
    map_all,
    run_all,
    run_within,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONG = 60.0  # seconds that no test waits


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """What never comes while a test runs."""
    event = threading.Event()
    yield event
    event.set()


def fail() -> None:
    raise ValueError("broken")


def test_gives_what_work_gives() -> None:
    assert run_within(LONG, lambda: 7, Stop()) == 7


def test_raises_what_work_raises() -> None:
    with pytest.raises(ValueError, match="broken"):
        run_within(LONG, fail, Stop())


def test_leaves_work_behind_that_takes_too_long(stuck: threading.Event) -> None:
    started = time.monotonic()

    with pytest.raises(TimeoutError):
        run_within(0.1, stuck.wait, Stop())

    assert time.monotonic() - started < LONG / 2


def test_leaves_work_behind_when_the_end_is_asked_for(stuck: threading.Event) -> None:
    stop = Stop()
    threading.Timer(0.1, stop.ask).start()

    with pytest.raises(StoppedError):
        run_within(LONG, stuck.wait, stop)


def test_gives_results_in_order() -> None:
    tasks = [partial(lambda number: number * 2, number) for number in range(50)]

    assert run_all(tasks, Stop()) == [number * 2 for number in range(50)]


def test_first_failure_leaves_the_others_behind(stuck: threading.Event) -> None:
    started = time.monotonic()
    tasks: list[Callable[[], object]] = [stuck.wait, stuck.wait, fail, *[stuck.wait] * 20]

    with pytest.raises(ValueError, match="broken"):
        run_all(tasks, Stop())

    assert time.monotonic() - started < LONG / 2


def test_waits_for_work_that_looks_whether_it_shall_end() -> None:
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


def test_waits_for_what_was_begun() -> None:
    go_on, done = threading.Event(), []

    def work(_: Stop) -> None:
        go_on.wait(LONG)
        done.append("task")

    with in_background() as background:
        background.start("task", work)
        threading.Timer(0.1, go_on.set).start()
        background.wait("task")
        done.append("block")

    assert done == ["task", "block"]


def test_waits_for_nothing_that_was_not_begun() -> None:
    with in_background() as background:
        background.wait("other")


def test_raises_what_a_task_raised() -> None:
    def fail(_: Stop) -> None:
        raise ValueError("broken")

    with in_background() as background:
        background.start("task", fail)
        with pytest.raises(ValueError, match="broken"):
            background.wait("task")


def test_interrupt_ends_what_runs() -> None:
    ended = threading.Event()

    def work(stop: Stop) -> None:
        try:
            stop.pause(LONG)
        except StoppedError:
            ended.set()
            raise

    with contextlib.suppress(KeyboardInterrupt), in_background() as background:
        background.start("task", work)
        raise KeyboardInterrupt

    assert ended.is_set()


def test_waits_for_no_task_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for the lock of an import which a Ctrl-C broke off."""
    monkeypatch.setattr(parallel, "_LONG_GRACE", 0.05)
    held, ended = threading.Event(), threading.Event()

    def work(_: Stop) -> None:
        held.wait(LONG)
        ended.set()

    with in_background() as background:
        background.start("task", work)

    assert not ended.is_set()
    held.set()
