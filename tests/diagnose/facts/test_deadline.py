from __future__ import annotations

import threading

from cuwheel.diagnose.facts.deadline import TimedCall
from cuwheel.errors import UsageError


def refuse() -> str:
    raise UsageError("this is wrong", why="it is so")


def test_gives_answer() -> None:
    assert TimedCall(1, lambda: "yes").answer("no") == ("yes", "")


def test_says_why_there_is_none() -> None:
    assert TimedCall(1, lambda: str([].pop())).answer("no")[1] == "IndexError: pop from empty list"
    assert TimedCall(1, refuse).answer("no") == ("no", "this is wrong: it is so")


def test_waits_no_longer_than_told() -> None:
    never = threading.Event()

    answer = TimedCall(0.1, lambda: str(never.wait())).answer("no")

    never.set()
    assert answer == ("no", "no answer within 0 s")
