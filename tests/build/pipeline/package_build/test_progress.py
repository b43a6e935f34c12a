"""The progress line of a build."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.system.console import Console, Live
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


def test_shows_steps_of_ninja(line: Line) -> None:
    progress = Progress(line, 4)

    progress.see("[3/47] Building CUDA object kernel.o", 1 << 30)
    progress.see("a warning", 1 << 30)

    assert line.text.startswith("step 3/47, ")
    assert line.text.endswith(" so far, 4 jobs, 1.0 GiB")


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

        Progress(line, 2).see("", 0)

    assert line.text.startswith("first.cu and 1 more, ")
