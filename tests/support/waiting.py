"""Waiting in tests for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

TIME_LIMIT = (
    300.0  # seconds; on a busy machine a build may begin late: what it installs comes first
)


def wait_for(fact: Callable[[], object], limit: float = TIME_LIMIT) -> None:
    deadline = time.monotonic() + limit
    while not fact():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.001)
