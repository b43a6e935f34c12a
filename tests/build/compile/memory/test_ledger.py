from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuwheel.base import free_memory
from cuwheel.base.paths import ROOT
from cuwheel.build.compile.memory import ledger
from cuwheel.build.compile.memory.ledger import Ledger
from cuwheel.build.compile.memory.scheduler import Claim

# Hold the folder's lock, or an entry, until it is killed.
_HOLD = """
import sys, time
from pathlib import Path
from cuwheel.build.compile.memory.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
if sys.argv[2] == "lock":
    held = ledger.deciding()
    held.__enter__()
else:
    ledger.enter(sys.argv[2])
print(flush=True)
time.sleep(60)
"""
_NAME = "00000000000000000001-1"


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Return a function that starts a process which holds the lock or an entry."""
    started = []

    def run(what: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-c", _HOLD, tmp_path, what],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        started.append(child)
        assert child.stdout
        child.stdout.readline()
        return child

    yield run
    for child in started:
        child.kill()
        child.communicate()


def entries(folder: Path) -> list[Path]:
    return list(folder.glob(f"gated-{free_memory.boot()}/[0-9]*"))


def test_keeps_entries_of_the_living_only(
    tmp_path: Path, hold: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    holder = hold(_NAME)
    [entry] = entries(tmp_path)
    claim = Claim(_NAME, 7, (free_memory.MACHINE,))
    entry.write_bytes(claim.written())
    shared = Ledger(tmp_path)

    alive = [other.name for other in shared.others(set())]
    own = shared.others({_NAME})
    holder.kill()
    holder.wait()

    assert (alive, own) == ([_NAME], [])
    assert shared.others(set()) == []
    assert entries(tmp_path) == []


@pytest.mark.parametrize("text", ["", "x", "1 2 3 4 5", "a b c d e f g"])
def test_passes_over_what_is_no_entry(
    tmp_path: Path, text: str, hold: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    hold(_NAME)
    entries(tmp_path)[0].write_text(text)

    assert Ledger(tmp_path).others(set()) == []
    assert len(entries(tmp_path)) == 1


def test_removes_its_entry(tmp_path: Path) -> None:
    shared = Ledger(tmp_path)
    file = shared.enter(_NAME)
    assert len(entries(tmp_path)) == 1

    shared.remove(_NAME, file)

    assert not entries(tmp_path)


def test_is_not_stopped_by_a_stopped_engine(
    tmp_path: Path,
    hold: Callable[[str], subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "_LOCKED", 0.3)
    os.kill(hold("lock").pid, signal.SIGSTOP)

    began = time.monotonic()
    with Ledger(tmp_path).deciding():
        waited = time.monotonic() - began

    assert 0.3 <= waited < 5
