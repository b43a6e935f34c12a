from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from cuwheel.standalone.memory_gate import free_memory, ledger
from cuwheel.standalone.memory_gate.ledger import Ledger, SharedFolder
from tests.support.gated import MIB, PYTHON, gate_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Holds the folder's lock until it is killed.
_HOLD = """
import fcntl, os, signal, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
signal.pause()
"""
_ENTER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import ledger
one = ledger.Ledger(sys.argv[2])
one.wait(1 << 20)
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Give what runs a script until the test's end, from its first line of output on."""
    started = []

    def run(code: str, *words: str | Path) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([PYTHON, "-ISBc", code, *words], stdout=subprocess.PIPE)
        started.append(child)
        assert child.stdout
        child.stdout.readline()
        return child

    yield run
    for child in started:
        child.kill()
        child.communicate()


def entries(folder: Path) -> list[Path]:
    return list(folder.glob("gated-*/[0-9]*"))


def test_leaves_nothing_behind(tmp_path: Path) -> None:
    mine = Ledger(str(tmp_path))
    mine.wait(MIB)
    assert len(entries(tmp_path)) == 1

    mine.leave()

    assert not entries(tmp_path)


def test_keeps_boots_and_machines_apart(tmp_path: Path) -> None:
    Ledger(str(tmp_path))

    assert (tmp_path / f"gated-{free_memory.boot()}").is_dir()


def test_removes_what_the_dead_left(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    other = start(_ENTER, gate_folder(), tmp_path)
    assert len(entries(tmp_path)) == 1

    other.kill()
    other.wait()
    mine = Ledger(str(tmp_path))
    mine.wait(MIB, alone=free_memory.MACHINE)

    assert len(entries(tmp_path)) == 1
    mine.leave()


def test_expects_more_of_who_takes_more(tmp_path: Path) -> None:
    mine = Ledger(str(tmp_path))
    mine.wait(100 * MIB)

    mine.tell(200 * MIB)

    (entry,) = entries(tmp_path)
    assert entry.read_text().split()[:2] == [str(250 * MIB), str(200 * MIB)]
    mine.leave()


@pytest.mark.parametrize("text", ["", "x", "1 2 3 4 5", "a b c d e f g"])
def test_passes_over_what_is_no_entry(tmp_path: Path, text: str) -> None:
    import fcntl  # noqa: PLC0415 - for this test alone

    mine = Ledger(str(tmp_path))
    path = tmp_path / f"gated-{free_memory.boot()}" / "00000000000000000001-1"
    path.write_text(text)
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        mine.wait(MIB, alone=free_memory.MACHINE)

    mine.leave()


def test_is_not_stopped_by_who_was_stopped(
    tmp_path: Path,
    start: Callable[..., subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "_LOCKED", 0.3)
    mine = Ledger(str(tmp_path))
    holder = start(_HOLD, tmp_path / f"gated-{free_memory.boot()}" / "lock")
    os.kill(holder.pid, signal.SIGSTOP)

    began = time.monotonic()
    mine.wait(MIB)

    assert 0.3 <= time.monotonic() - began < 5
    mine.leave()


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
def test_sees_that_swap_grows(
    tmp_path: Path, seen: list[tuple[float, int]], *, expected: bool
) -> None:
    found = [SharedFolder(str(tmp_path)).is_swapping(swapped, now) for now, swapped in seen]

    assert found[-1] is expected


def test_raises_when_its_folder_is_gone(tmp_path: Path) -> None:
    mine = Ledger(str(tmp_path / "shared"))
    (tmp_path / "shared" / f"gated-{free_memory.boot()}").rmdir()

    with pytest.raises(FileNotFoundError):
        mine.wait(MIB)
