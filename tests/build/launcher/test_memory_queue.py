"""The memory queue: what one build may do to others by what it says, and for how long."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

import pytest

from cuwheel.build.launcher import memory_queue
from cuwheel.build.launcher.memory_service import serve_memory
from cuwheel.standalone.memory_gate import free_memory
from cuwheel.standalone.memory_gate.scheduler import Claim
from cuwheel.standalone.memory_gate.service_client import ServiceClient
from tests.support.gated import MIB
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
        """A program of the other build asks for a MiB."""
        self._ask("other", self.started, alone)

    def takes_again(self) -> None:
        """A program of the greedy build asks to run alone."""
        self._ask("greedy", self.taken, "machine")

    def _ask(self, name: str, started: list[ServiceClient], alone: str) -> None:
        client = ServiceClient(str(self.folder / name))

        def wait() -> None:
            with contextlib.suppress(OSError):  # the test has ended
                client.wait(MIB, alone=alone)
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
        for name, told in (("greedy", ignored), ("other", warnings)):
            served = serve_memory(tmp_path / name, tmp_path / "memory", name, _JOBS, told.append)
            stack.enter_context(served)
        made = Two(tmp_path)
        made.warnings = warnings
        yield made


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """Set for how long a build is patient, and after one of its programs was killed."""

    def set_to(seconds: float, after_kill: float) -> None:
        monkeypatch.setattr(memory_queue, "WAIT_LIMIT", seconds)
        monkeypatch.setattr(memory_queue, "WAIT_LIMIT_AFTER_KILL", after_kill)
        monkeypatch.setattr(memory_queue, "_TOLD_AFTER", 0.1)

    return set_to


def take_all(two: Two, how: str) -> None:
    if how == "alone":
        two.greedy.wait(1, alone="machine")
    else:
        two.greedy.wait(_HUGE, _HUGE)


@pytest.mark.parametrize("how", ["alone", "an absurd amount"])
def test_promise_that_is_not_used_holds_up_others_for_a_time(
    two: Two, short: Callable[[float, float], None], how: str
) -> None:
    short(0.5, 1e9)
    take_all(two, how)
    began = time.monotonic()

    two.wants()

    wait_for(lambda: two.started)
    assert time.monotonic() - began > 0.5
    [said] = two.warnings
    assert "greedy@" in said
    assert "CUWHEEL_CACHE" in said


def test_promise_that_is_given_again_and_again_holds_up_no_longer(
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


def test_promise_is_respected_until_then(two: Two, short: Callable[[float, float], None]) -> None:
    short(1e9, 1e9)
    take_all(two, "alone")

    two.wants()

    wait_for(lambda: two.warnings)
    assert two.started == []
    two.greedy.leave()
    wait_for(lambda: two.started)


def test_who_was_killed_for_memory_is_patient_anew(
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
    most = memory_queue._QUEUED + memory_queue._QUEUED_EACH * _JOBS
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

    monkeypatch.setattr(memory_queue, "read_memory", read_memory)
    two.greedy.wait(MIB)
    began = time.monotonic()

    for used in range(500):
        two.greedy.tell(used)

    assert len(reads) <= 2 + (time.monotonic() - began) / memory_queue._FRESH


def test_nobody_waits_behind_the_end(two: Two, tmp_path: Path) -> None:
    take_all(two, "alone")
    refused: list[str] = []

    def wait(client: ServiceClient) -> None:
        with pytest.raises(OSError, match="memory service"):
            client.wait(MIB)
        refused.append("refused")

    with serve_memory(tmp_path / "ended", tmp_path / "memory", "ended", _JOBS, pytest.fail):
        threading.Thread(target=wait, args=(ServiceClient(str(tmp_path / "ended")),)).start()
        wait_for(lambda: two.claims("ended"))

    wait_for(lambda: refused)
