"""When a failed request is tried again, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

from cuwheel import limits
from cuwheel.fetch.slow import slow_factor
from cuwheel.system.parallel import Stop


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How long to go on when a server doesn't answer, is busy or breaks off.

    Attributes:
        pause: seconds before the first new attempt; each later pause is twice as long.
        attempts: how many in a row may bring nothing new.
        connect: seconds to connect to one address of a host.
        answer: seconds until an answer begins (a mirror may have to fetch the file itself first),
            and between two pieces of it.
        limit: seconds without anything new after which all is over; less than `rate` allows in it
            is nothing.
        rate: bytes a second that have to come.
        total: seconds after which all is over, whatever has come.
    """

    pause: float = 0.5
    attempts: int = 5
    connect: float = 5.0
    answer: float = 20.0
    limit: float = 29.0
    rate: float = limits.NETWORK_RATE
    total: float = limits.NETWORK_TOTAL

    @property
    def least(self) -> int:
        """Bytes that have to come in `limit`."""
        return int(self.rate * self.limit)

    def stretched(self, factor: float) -> RetryPolicy:
        """The same for a line that is so many times slower."""
        return replace(
            self,
            connect=self.connect * factor,
            answer=self.answer * factor,
            limit=self.limit * factor,
            rate=self.rate / factor,
            total=self.total * factor,
        )


RETRY_POLICY = RetryPolicy()


class Attempts:
    """Counts the attempts in a row that brought nothing new, and waits between them.

    Args:
        retry_policy: how long to go on, where the line isn't said to be slow.
        stop: ends the waiting.
    """

    def __init__(self, retry_policy: RetryPolicy = RETRY_POLICY, stop: Stop | None = None) -> None:
        self.retry_policy = retry_policy.stretched(slow_factor())
        self.stop = stop or Stop()
        self._end = monotonic() + self.retry_policy.total
        self.note_progress()

    @property
    def left(self) -> float:
        """Seconds until all is over."""
        return min(self._last_news + self.retry_policy.limit, self._end) - monotonic()

    @property
    def slow_reason(self) -> str:
        """Which limit it is that has passed."""
        policy = self.retry_policy
        if monotonic() >= self._end:
            return f"it took more than {policy.total:.0f} seconds"
        return f"less than {policy.least} bytes came in {policy.limit:.0f} seconds"

    @property
    def timeout(self) -> tuple[float, float]:
        """Seconds of the next attempt: to connect to one address, and for each read."""
        left = max(0.1, self.left)
        return min(self.retry_policy.connect, left), min(self.retry_policy.answer, left)

    def note_progress(self) -> None:
        """Start counting anew: something new has come."""
        self._failed = 0
        self._last_news = monotonic()

    def reset_count(self) -> None:
        """Start counting attempts anew, at another server; the time goes on."""
        self._failed = 0

    def may_retry(self, asked: float = 0.0) -> bool:
        """After a failed attempt: wait and say True, or say False when it's enough.

        Args:
            asked: seconds that the server asked to wait; more than is left is too much.

        Raises:
            StoppedError: the end was asked for.
        """
        self.stop.check()
        self._failed += 1
        pause = asked or self.retry_policy.pause * 2 ** (self._failed - 1)
        if self._failed >= self.retry_policy.attempts or pause >= self.left:
            return False
        self.stop.pause(pause)
        return True
