from __future__ import annotations

import threading

from cuwheel.base.errors import UsageError
from cuwheel.check.diagnose.facts.probe import TimedCall


def refuse() -> str:
    raise UsageError("this is wrong", why="it is so")


def test_gives_answer_or_reason() -> None:
    assert TimedCall(1, lambda: "yes").answer("no") == ("yes", "")
    assert TimedCall(1, lambda: str([].pop())).answer("no")[1] == "IndexError: pop from empty list"
    assert TimedCall(1, refuse).answer("no") == ("no", "this is wrong: it is so")


def test_waits_no_longer_than_its_limit() -> None:
    never = threading.Event()

    answer = TimedCall(0.1, lambda: str(never.wait())).answer("no")

    never.set()
    assert answer == ("no", "no answer within 0 s")
