"""Work that is begun early, and what becomes of it."""

from __future__ import annotations

import contextlib
import threading

import pytest

from cuwheel.system.background import in_background
from cuwheel.system.parallel import Stop, StoppedError

LONG = 60.0  # seconds that no test waits


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
