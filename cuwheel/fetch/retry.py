"""When a failed request is tried again, and when it is given up."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cuwheel.fetch.sockets import CONNECT_LIMIT
from cuwheel.system.parallel import Stop

# Seconds to connect to one address of a host, and until an answer begins: a mirror may have to
# fetch the file itself first.
TIMEOUT = (5.0, 20.0)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How long to go on when a server doesn't answer or breaks off.

    Attributes:
        pause: seconds before the first new attempt; each later pause is twice as long.
        attempts: how many in a row may bring nothing new.
        silence: seconds without anything new after which no attempt is started.
        limit: seconds without anything new after which the last attempt has ended too.
    """

    pause: float = 0.5
    attempts: int = 5
    silence: float = 9.0
    limit: float = 29.0


RETRY_POLICY = RetryPolicy()


class Attempts:
    """Counts the attempts in a row that brought nothing new, and waits between them.

    Args:
        retry_policy: how long to go on.
        stop: ends the waiting.
    """

    def __init__(self, retry_policy: RetryPolicy, stop: Stop | None = None) -> None:
        self.retry_policy = retry_policy
        self.stop = stop or Stop()
        self.progressed()

    @property
    def timeout(self) -> tuple[float, float]:
        """Seconds for the next attempt: to connect to one address; until the answer begins."""
        left = self.retry_policy.limit - self._silent - CONNECT_LIMIT
        return TIMEOUT[0], min(TIMEOUT[1], max(1.0, left))

    def progressed(self) -> None:
        """Start counting anew: something new has come."""
        self._failed = 0
        self._since = time.monotonic()

    def turn(self) -> None:
        """Start counting attempts anew, at another server; the time goes on."""
        self._failed = 0

    def may_retry(self) -> bool:
        """After a failed attempt: wait and say True, or say False when it's enough.

        Raises:
            StoppedError: the end was asked for.
        """
        self.stop.check()
        self._failed += 1
        if self._failed >= self.retry_policy.attempts or self._silent > self.retry_policy.silence:
            return False
        self.stop.pause(self.retry_policy.pause * 2 ** (self._failed - 1))
        return True

    @property
    def _silent(self) -> float:
        return time.monotonic() - self._since
