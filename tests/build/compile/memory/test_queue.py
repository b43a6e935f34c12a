"""The memory queue: how far, and for how long, a build's requests can hold up others."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuwheel.base import free_memory
from cuwheel.build.compile.memory import queue
from cuwheel.build.compile.memory.queue import SwapGrowth
from cuwheel.build.compile.memory.scheduler import Claim
from cuwheel.build.compile.memory.service import serve_memory
from cuwheel.build.compile.memory_gate.service_client import ServiceClient
from tests.support.build.gated_compiles import MIB
from tests.support.waiting import wait_for

_HUGE = 1 << 49  # bytes: more than any machine has
_JOBS = 2


class Two:
    """Two builds of one machine: one that holds all memory, and one that wants a little."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        self.started: list[ServiceClient] = []
        self.taken: list[ServiceClient] = []
        self.greedy = ServiceClient(str(folder / "greedy"))

    def wants(self, *, alone: str = "") -> None:
        """Request a MiB for a program of the other build."""
        self._request("other", self.started, alone)

    def takes_again(self) -> None:
        """Request to run a program of the greedy build alone."""
        self._request("greedy", self.taken, "machine")

    def _request(self, name: str, started: list[ServiceClient], alone: str) -> None:
        client = ServiceClient(str(self.folder / name))

        def wait() -> None:
            if client.wait(MIB, alone=alone):  # else the test has ended
                started.append(client)

        threading.Thread(target=wait, daemon=True).start()

    def claims(self, name: str) -> list[Claim]:
        """The entries of a build."""
        found = []
        for path in self.folder.glob("memory/gated-*/[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                claim = Claim.read(path.name, path.read_bytes())
                found += [claim] if claim.build.startswith(name) else []
        return found


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with contextlib.ExitStack() as stack:
        warnings: list[str] = []
        ignored: list[str] = []
        for name, messages in (("greedy", ignored), ("other", warnings)):
            served = serve_memory(
                tmp_path / name,
                tmp_path / "memory",
                name,
                jobs=_JOBS,
                per_job=MIB,
                warn=messages.append,
            )
            stack.enter_context(served)
        made = Two(tmp_path)
        made.warnings = warnings
        yield made


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """Set for how long a build is patient, and after one of its programs was killed."""

    def set_to(seconds: float, after_kill: float) -> None:
        monkeypatch.setattr(queue, "WAIT_LIMIT", seconds)
        monkeypatch.setattr(queue, "WAIT_LIMIT_AFTER_KILL", after_kill)
        monkeypatch.setattr(queue, "_WARNED_AFTER", 0.1)

    return set_to


def take_all(two: Two, how: str) -> None:
    if how == "alone":
        two.greedy.wait(1, alone="machine")
    else:
        two.greedy.wait(_HUGE, _HUGE)


@pytest.mark.parametrize("how", ["alone", "an absurd amount"])
def test_reserved_memory_that_is_not_used_holds_up_others_for_a_time(
    two: Two, short: Callable[[float, float], None], how: str
) -> None:
    short(0.5, 1e9)
    take_all(two, how)
    began = time.monotonic()

    two.wants()

    wait_for(lambda: two.started)
    assert time.monotonic() - began > 0.5
    [warning] = two.warnings
    assert "greedy@" in warning
    assert "CUWHEEL_CACHE" in warning


def test_reserved_memory_that_is_given_again_and_again_holds_up_no_longer(
    two: Two, short: Callable[[float, float], None]
) -> None:
    short(0.5, 1e9)
    take_all(two, "alone")

    two.wants()
    two.taken.append(two.greedy)

    def hands_on() -> bool:
        if two.taken and not two.claims("greedy")[1:]:
            two.takes_again()
            wait_for(lambda: two.claims("greedy")[1:])
            two.taken.pop().leave()
        return bool(two.started)

    wait_for(hands_on)


def test_reserved_memory_is_respected_until_then(
    two: Two, short: Callable[[float, float], None]
) -> None:
    short(1e9, 1e9)
    take_all(two, "alone")

    two.wants()

    wait_for(lambda: two.warnings)
    assert two.started == []
    two.greedy.leave()
    wait_for(lambda: two.started)


def test_waits_anew_after_a_kill_for_memory(
    two: Two, short: Callable[[float, float], None]
) -> None:
    short(0.1, 1e9)
    take_all(two, "alone")
    two.wants()
    wait_for(lambda: two.started)
    two.started.pop().leave()

    two.wants(alone="machine")

    wait_for(lambda: [claim.alone for claim in two.claims("other")] == ["machine"])
    two.wants()
    wait_for(lambda: len(two.claims("other")) == 2)
    assert two.started == []


def test_none_is_alone_in_a_cgroup_that_it_is_not_in(two: Two) -> None:
    two.greedy.wait(1, alone="1:2")

    [claim] = two.claims("greedy")
    assert claim.alone in claim.levels


def test_many_of_one_build_are_few_to_others(two: Two) -> None:
    held = [ServiceClient(str(two.folder / "other")) for _ in range(_JOBS)]
    for one in held:
        one.wait(MIB)
    count = 60

    for _ in range(count):
        two.wants()
    most = queue._QUEUED + queue._QUEUED_EACH * _JOBS
    wait_for(lambda: len(two.claims("other")) == most + _JOBS)
    for one in held:
        one.leave()

    for _ in range(count):
        wait_for(lambda: two.started)
        assert len(two.claims("other")) <= most + _JOBS
        two.started.pop().leave()
    assert two.claims("other") == []


def test_reads_the_machine_once_for_all(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def read_memory() -> free_memory.Memory:
        reads.append(1)
        return free_memory.read_memory()

    monkeypatch.setattr(queue, "read_memory", read_memory)
    two.greedy.wait(MIB)
    reads.clear()
    began = time.monotonic()

    for used in range(500):
        two.greedy.report(used)

    assert len(reads) <= 2 + (time.monotonic() - began) / queue._FRESH


def test_nothing_waits_after_the_end(two: Two, tmp_path: Path) -> None:
    take_all(two, "alone")
    refused: list[bool] = []

    def wait(client: ServiceClient) -> None:
        refused.append(client.wait(MIB))

    with serve_memory(
        tmp_path / "ended", tmp_path / "memory", "ended", jobs=1, per_job=1, warn=pytest.fail
    ):
        threading.Thread(target=wait, args=(ServiceClient(str(tmp_path / "ended")),)).start()
        wait_for(lambda: two.claims("ended"))

    wait_for(lambda: refused == [False])


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([(100.0, 0), (101.0, 32 * MIB)], False),
        ([(100.0, 0), (101.0, 33 * MIB)], True),
        ([(100.0, 90 * MIB), (101.0, 0)], False),
        ([(100.0, 0), (106.0, 40 * MIB), (107.0, 40 * MIB)], False),
        ([(100.0, 0), (120.0, 90 * MIB)], False),
    ],
)
def test_sees_that_swap_grows(seen: list[tuple[float, int]], *, expected: bool) -> None:
    swap = SwapGrowth()

    results = [swap.is_seen(swapped, now) for now, swapped in seen]

    assert results[-1] is expected
