"""The line that a person sees while a build runs."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import rich.console

from cuwheel.build import progress
from cuwheel.build.progress import Progress
from cuwheel.system.console import Console
from cuwheel.system.output.live import Live
from tests.support.eventlines import compile_line, tool_line, write_log

if TYPE_CHECKING:
    from pathlib import Path


# Seconds until each of its 83 compiles had ended, with two jobs on two cores, on 2026-11-22.
JAX_FINUFFT = [
    *map(float, (0, 1, 1, 2, 3, 3, 11, 11, 12, 13, 13, 14, 15, 15, 16, 17, 18, 18, 19, 19, 20)),
    *map(float, (21, 21, 22, 22, 23, 23, 24, 24, 25, 25, 26, 27, 28, 29, 29, 31, 31, 32, 33, 34)),
    *map(float, (41, 43, 45, 47, 62, 63, 76, 82, 99, 112, 121, 127, 130, 138, 143, 150, 153, 158)),
    *map(float, (274, 282, 421, 618, 633, 748, 1002, 1006, 1395, 1492, 1577, 1588, 1592, 1646)),
    *map(float, (1679, 1681, 1710, 1712, 1714, 1722, 1725, 1729, 1758, 1862)),
]


class Line(Live):
    """Remembers what it was told to show."""

    def __init__(self) -> None:
        super().__init__(Console(rich.console.Console(file=io.StringIO())), "building")
        self.text = ""

    def show(self, text: str) -> None:
        self.text = text


class Clock:
    """Stands where a test puts it."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def _hits(*numbers: int) -> list[str]:
    """Compiles that a cache answered in a tenth of a second."""
    return [compile_line(id=f"h{one}", start=0.0, end=0.1) for one in numbers]


def test_tells_steps_of_ninja(line: Line, tmp_path: Path) -> None:
    told = Progress(line, 4, tmp_path / "none.jsonl")

    told.see("[3/47] Building CUDA object kernel.o", 1 << 30)

    assert line.text.startswith("step 3/47, ")
    assert line.text.endswith(" so far, 4 jobs, 1.0 GiB")


def test_gives_no_time_that_has_passed(line: Line, tmp_path: Path) -> None:
    told = Progress(line, 1, tmp_path / "none.jsonl")

    told.see("[4/4] Linking kernel.so", 0)
    told.see("", 0)

    assert "left" not in line.text


def _guesses(line: Line, clock: Clock, log: Path, ends: list[float]) -> list[tuple[float, int]]:
    """Of a build whose steps end so: when a time was shown, and the minutes that it said."""
    told, shown = Progress(line, 1, log), []
    for done, clock.now in enumerate(ends, 1):
        told.see(f"[{done}/{len(ends)}] Building CUDA object kernel.o", 0)
        if found := re.search(r"about (\d+) min left", line.text):
            shown.append((clock.now, int(found[1])))
    return shown


def test_guesses_time_where_steps_are_alike(line: Line, clock: Clock, tmp_path: Path) -> None:
    shown = _guesses(line, clock, tmp_path / "none.jsonl", [50.0 * one for one in range(1, 41)])

    assert shown[0] == (500.0, 25)
    assert all(abs(left - (2000 - now) / 60) <= 0.5 for now, left in shown)


def test_guesses_no_time_where_long_steps_come_last(
    line: Line, clock: Clock, tmp_path: Path
) -> None:
    """jax-finufft's: 41 s seem to be left when it is half an hour."""
    assert _guesses(line, clock, tmp_path / "none.jsonl", JAX_FINUFFT) == []


def test_counts_steps_that_worked_alone(line: Line, clock: Clock, tmp_path: Path) -> None:
    """30 of 70 steps came out of the cache at once: the others took 50 seconds each."""
    told = Progress(line, 1, write_log(tmp_path, *_hits(*range(30))))
    clock.now = 3.0
    told.see("[30/70] Building CUDA object kernel.o", 0)
    for worked in range(1, 21):
        clock.now = 3 + 50.0 * worked
        told.see(f"[{30 + worked}/70] Building CUDA object kernel.o", 0)

    assert line.text.startswith("step 50/70 (30 from the cache), about 17 min left, 16:43 so far")


def test_names_files_that_compile(line: Line, tmp_path: Path) -> None:
    """As a compiler's process shows them: the longest is named, a link isn't counted."""
    words = [[str(tmp_path / "first.cu"), "-c"], ["second.cpp", "-c"], ["linked.cpp", "-shared"]]
    compiler = tmp_path / "compiler"
    compiler.write_text("import time; print(flush=True); time.sleep(300)")
    with contextlib.ExitStack() as stack:
        for own in words:
            child = stack.enter_context(
                subprocess.Popen([sys.executable, str(compiler), *own], stdout=subprocess.PIPE)
            )
            stack.callback(child.kill)
            assert child.stdout
            assert child.stdout.readline()

        Progress(line, 2, tmp_path / "none.jsonl").see("", 0)

    assert line.text.startswith("first.cu and 1 more, ")


def test_guesses_nothing_while_all_comes_from_cache(
    line: Line, clock: Clock, tmp_path: Path
) -> None:
    told = Progress(line, 1, write_log(tmp_path, *_hits(1, 2)))
    clock.now = 0.5

    told.see("[2/73] Building CUDA object kernel.o", 0)

    assert line.text.startswith("step 2/73 (2 from the cache), 0.50 s so far")


def test_counts_anew_where_ninja_runs_again(line: Line, clock: Clock, tmp_path: Path) -> None:
    log = write_log(tmp_path, *_hits(1, 2))
    told = Progress(line, 1, log)
    told.see("[2/2] Linking first.so", 0)
    with log.open("a") as more:
        more.write("".join(f"{one}\n" for one in [tool_line(compile="3"), compile_line(id="3")]))
    told.see("no step", 0)
    clock.now = 10.0

    told.see("[1/2] Building CUDA object second.o", 0)

    assert line.text.startswith("step 1/2, 10.0 s so far")


def test_takes_line_that_is_being_written_when_it_is_whole(
    line: Line, clock: Clock, tmp_path: Path
) -> None:
    [whole] = _hits(1)
    log = tmp_path / "events.jsonl"
    log.write_text(whole[:20])
    told = Progress(line, 1, log)
    clock.now = 1.0
    told.see("[1/3] a", 0)
    assert line.text.startswith("step 1/3, 1.0 s so far")
    log.write_text(f"{whole}\n")

    told.see("[2/3] b", 0)

    assert line.text.startswith("step 2/3 (1 from the cache), ")
