"""The line that a person sees while a build runs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import rich.console

from cuwheel.build import progress
from cuwheel.build.progress import Progress
from cuwheel.system.console import Live
from tests.support.eventlines import compile_line, tool_line, write_log

if TYPE_CHECKING:
    from pathlib import Path


class Line(Live):
    """Remembers what it was told to show."""

    def __init__(self) -> None:
        super().__init__(rich.console.Console(file=io.StringIO()), "building")
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


def test_guesses_time_by_steps_that_worked(line: Line, clock: Clock, tmp_path: Path) -> None:
    """38 of 40 steps came out of the cache: the other two took 50 seconds each."""
    worked = [tool_line(compile="1"), compile_line(id="1"), tool_line(compile="2")]
    log = write_log(tmp_path, *_hits(*range(38)), *worked, compile_line(id="2"))
    told = Progress(line, 1, log)
    clock.now = 103.8

    told.see("[40/73] Building CUDA object kernel.o", 0)

    assert line.text.startswith("step 40/73 (38 from the cache), about 27:30 left, 1:44 so far")


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

    assert line.text.startswith("step 1/2, about 10.0 s left, ")


def test_takes_line_that_is_being_written_when_it_is_whole(
    line: Line, clock: Clock, tmp_path: Path
) -> None:
    [whole] = _hits(1)
    log = tmp_path / "events.jsonl"
    log.write_text(whole[:20])
    told = Progress(line, 1, log)
    clock.now = 1.0
    told.see("[1/3] a", 0)
    assert line.text.startswith("step 1/3, about ")
    log.write_text(f"{whole}\n")

    told.see("[2/3] b", 0)

    assert line.text.startswith("step 2/3 (1 from the cache), ")
