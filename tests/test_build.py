"""What a package's own build sees, and what a person sees of it."""

from __future__ import annotations

import io
import shutil
import socket
from typing import TYPE_CHECKING

import pytest
import rich.console

from cuwheel.console import Live
from cuwheel.process import isolation
from cuwheel.stages.build import _Progress
from tests.engine import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine import Engine


class Line(Live):
    """Remembers what it was told to show."""

    def __init__(self) -> None:
        super().__init__(rich.console.Console(file=io.StringIO()), "building")
        self.text = ""

    def show(self, text: str) -> None:
        self.text = text


@pytest.fixture
def package(tmp_path: Path) -> Callable[[str], Path]:
    """Give a tiny package whose setup.py begins with some lines of the test's own."""

    def make(lines: str) -> Path:
        tree = tmp_path / "tiny_capi"
        shutil.copytree(PACKAGES / "tiny_capi", tree)
        setup = tree / "setup.py"
        setup.write_text(lines + setup.read_text())
        return tree

    return make


def test_gets_nothing_of_callers_environment(
    package: Callable[[str], Path], engine: Engine
) -> None:
    tree = package(
        "import os\n"
        "assert 'CALLER_SECRET' not in os.environ\n"
        "assert os.environ['CFLAGS'].startswith('-O2 ')\n"
        "assert (os.environ['TZ'], os.environ['LC_ALL']) == ('UTC', 'C.UTF-8')\n"
        "assert os.umask(0o022) == 0o022\n"
    )

    done = engine.build(
        "tiny-capi", "--source", str(tree), CALLER_SECRET="s3cret", CFLAGS="-O0", TZ="Asia/Tokyo"
    )

    assert done.status == 0, done.output


def test_reaches_no_network(package: Callable[[str], Path], engine: Engine) -> None:
    if not isolation():
        pytest.skip("this system allows no network namespace; the provenance says so")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        tree = package(
            "import socket\n"
            f"assert socket.socket().connect_ex(('127.0.0.1', {port})) != 0, 'reached'\n"
        )

        done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == 0, done.output


def test_progress_tells_steps_of_ninja() -> None:
    line = Line()
    progress = _Progress(line, jobs=4)

    progress.see("[3/47] Building CUDA object kernel.o", 1 << 30)

    assert line.text.startswith("step 3/47, ")
    assert line.text.endswith(" so far, 4 jobs, 1024 MiB")


def test_progress_gives_no_time_that_has_passed() -> None:
    line = Line()
    progress = _Progress(line, jobs=1)

    progress.see("[4/4] Linking kernel.so", 0)
    progress.see("", 0)

    assert "left" not in line.text
