"""Questions with a time limit: whatever answers late, or not at all, or with an error, is left.

A program that the kernel can't end (one that waits for a lost GPU, or for a server of files) can't
be waited for either. So each question has a thread of its own, which doesn't keep us from ending.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from cuwheel.errors import CuwheelError

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")


class TimedCall(Generic[Answer]):
    """Something that is being found out.

    Args:
        seconds: how long it may take, from now on.
        find: finds it out.
    """

    def __init__(self, seconds: float, find: Callable[[], Answer]) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._find = find
        self._answer: list[Answer] = []
        self._fault = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def answer(self, otherwise: Answer) -> tuple[Answer, str]:
        """Wait for the answer.

        Args:
            otherwise: what to go on with where there is none.

        Returns:
            The answer, and why there is none; empty where there is one.
        """
        self._thread.join(max(0.0, self._end - time.monotonic()))
        if self._answer:
            return self._answer[0], ""
        return otherwise, self._fault or f"no answer within {self._seconds:.0f} s"

    def _run(self) -> None:
        try:
            self._answer.append(self._find())
        except CuwheelError as problem:
            self._fault = f"{problem.what}: {problem.why}" if problem.why else problem.what
        except Exception as problem:  # noqa: BLE001 - no broken machine may end the report
            self._fault = f"{type(problem).__name__}: {problem}"
