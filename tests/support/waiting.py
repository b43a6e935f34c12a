"""Waiting in tests for what other processes do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIME_LIMIT = 60.0  # seconds; on a busy machine a process may start late


def wait_for(fact: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIME_LIMIT
    while not fact():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.001)
