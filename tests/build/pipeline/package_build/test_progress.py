"""The progress line of a build."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.system.console import Console, Live
from cuwheel.base.system.disks import DiskWatch
from cuwheel.build.pipeline.package_build.progress import Progress


class Line(Live):
    """A line that keeps its text."""

    def __init__(self) -> None:
        super().__init__(Console(rich.console.Console(file=io.StringIO())), "building")
        self.text = ""

    def show(self, text: str) -> None:
        self.text = text


@pytest.fixture
def line() -> Line:
    return Line()


def _progress(line: Line, folder: Path, *, jobs: int = 4, known: int = 0) -> Progress:
    return Progress(line, jobs, folder / "events.jsonl", known, DiskWatch(folder))


def _log_compiles(folder: Path, *files: str) -> None:
    """Append to an event log as the launcher does."""
    fields = {"kind": "compile", "id": "1", "name": "nvcc", "cached": "", "archs": ["90"]}
    times = {"start": 1.0, "end": 2.0, "status": 0}
    with (folder / "events.jsonl").open("a") as log:
        for file in files:
            print(json.dumps({**fields, **times, "file": file}), file=log)


def test_shows_steps_of_ninja(line: Line, tmp_path: Path) -> None:
    progress = _progress(line, tmp_path)

    progress.see("[3/47] Building CUDA object kernel.o", 1 << 30)
    progress.see("a warning", 1 << 30)

    assert line.text.startswith("0 files compiled, step 3/47, ")
    assert line.text.endswith(" so far, 4 jobs, 1.0 GiB")


def test_counts_files_of_all_extensions(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ninja's steps start anew with each; links aren't files."""
    monkeypatch.setattr("cuwheel.build.pipeline.package_build.progress._LOOK_INTERVAL", 0.0)
    progress = _progress(line, tmp_path, known=73)
    _log_compiles(tmp_path, "a.cu", "b.cu", "")
    progress.see("[2/2] linking the first extension", 0)
    with (tmp_path / "events.jsonl").open("a") as log:
        log.write('{"kind": "com')  # being written
    progress.see("[1/20] nvcc c.cu", 0)

    assert line.text.startswith("2 of about 73 files, ")


def test_knows_the_least_space_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had filled the disk is gone when the program has failed."""
    free = iter([100 << 20, 1 << 20, 50 << 20])
    monkeypatch.setattr("cuwheel.base.system.disks.free_disk", lambda _: next(free))
    watch = DiskWatch(tmp_path)

    watch.look()

    assert watch.full == tmp_path


def test_names_files_that_compile(line: Line, tmp_path: Path) -> None:
    """As a compiler's process shows them: the longest is named, a link isn't counted."""
    argvs = [[str(tmp_path / "first.cu"), "-c"], ["second.cpp", "-c"], ["linked.cpp", "-shared"]]
    compiler = tmp_path / "compiler"
    compiler.write_text("import time; print(flush=True); time.sleep(300)")
    with contextlib.ExitStack() as stack:
        for argv in argvs:
            child = stack.enter_context(
                subprocess.Popen([sys.executable, str(compiler), *argv], stdout=subprocess.PIPE)
            )
            stack.callback(child.kill)
            assert child.stdout
            assert child.stdout.readline()

        _progress(line, tmp_path, jobs=2).see("", 0)

    assert "first.cu and 1 more, " in line.text
