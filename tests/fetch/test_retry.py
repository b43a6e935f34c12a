"""How long the default policy goes on, by a clock that only moves when something waits."""

from __future__ import annotations

import pytest

from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.system.parallel import Stop, StoppedError


class Clock(Stop):
    """A clock, and pauses that move it on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("cuwheel.fetch.retry.monotonic", lambda: made.now)
    return made


def give_up(attempts: Attempts, clock: Clock, takes: float) -> int:
    """Try until it is enough, each time for so many seconds; how often that was."""
    times = 1
    clock.now += takes
    while attempts.may_retry():
        times += 1
        clock.now += min(takes, attempts.left)
    return times


def test_asks_server_that_refuses_five_times_in_eight_seconds(clock: Clock) -> None:
    times = give_up(Attempts(stop=clock), clock, takes=0.0)

    assert (times, clock.now) == (5, 0.5 + 1 + 2 + 4)


@pytest.mark.parametrize(
    "takes",
    [RETRY_POLICY.connect, 2 * RETRY_POLICY.connect, RETRY_POLICY.answer, RETRY_POLICY.limit],
    ids=["one address", "two addresses", "no answer", "no name"],
)
def test_gives_up_within_thirty_seconds(takes: float, clock: Clock) -> None:
    give_up(Attempts(stop=clock), clock, takes)

    assert clock.now < 30


def test_asks_again_after_a_connection_fell_silent(clock: Clock) -> None:
    assert give_up(Attempts(stop=clock), clock, takes=RETRY_POLICY.answer) == 2


def test_no_attempt_waits_longer_than_is_left(clock: Clock) -> None:
    attempts = Attempts(stop=clock)
    assert attempts.timeout == (RETRY_POLICY.connect, RETRY_POLICY.answer)

    clock.now += RETRY_POLICY.limit - 3

    assert attempts.timeout == (3.0, 3.0)


def test_counts_anew_after_progress(clock: Clock) -> None:
    attempts = Attempts(stop=clock)
    give_up(attempts, clock, takes=0.0)

    attempts.note_progress()

    assert attempts.left == RETRY_POLICY.limit
    assert give_up(attempts, clock, takes=0.0) == RETRY_POLICY.attempts


def test_time_goes_on_at_another_server(clock: Clock) -> None:
    attempts = Attempts(stop=clock)
    give_up(attempts, clock, takes=0.0)

    attempts.reset_count()

    assert attempts.left == RETRY_POLICY.limit - 7.5
    assert attempts.may_retry()


def test_waits_no_longer_for_a_busy_server_than_for_a_silent_one(clock: Clock) -> None:
    attempts = Attempts(stop=clock)

    assert attempts.may_retry(asked=20.0)
    assert not attempts.may_retry(asked=20.0)

    assert (clock.now, attempts.left) == (20.0, RETRY_POLICY.limit - 20)


def test_gives_up_in_the_end_however_well_it_goes_on(clock: Clock) -> None:
    attempts = Attempts(stop=clock)

    while attempts.left > 0:
        clock.now += 20.0
        attempts.note_progress()

    assert clock.now == RETRY_POLICY.total
    assert attempts.slow_reason == "it took more than 14400 seconds"


def test_slow_line_gets_more_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_SLOW_NETWORK", "4")

    stretched = Attempts(stop=clock).retry_policy

    assert stretched.limit == 4 * RETRY_POLICY.limit
    assert stretched.total == 4 * RETRY_POLICY.total
    assert stretched.least == RETRY_POLICY.least


def test_waits_no_longer_when_the_end_is_asked_for() -> None:
    stop = Stop()
    attempts = Attempts(stop=stop)
    stop.ask()

    with pytest.raises(StoppedError):
        attempts.may_retry()
