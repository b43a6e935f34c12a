"""A matrix of tiny packages, built with the real nvcc: one fails, the others go on."""

from __future__ import annotations

import html.parser
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import EXIT_CODES
from cuwheel.base.paths import ROOT
from tests.support.documents import read_document
from tests.support.engine import Engine
from tests.support.lab.matrices import BROKEN, kernel_of, matrix_command, matrix_engine, run_matrix
from tests.support.waiting import wait_for


@pytest.fixture
def engine(tmp_path: Path, project: Path, shared_cache: Path) -> Engine:
    return matrix_engine(tmp_path, project, shared_cache)


def states_of(output: str) -> dict[str, str]:
    """Return states by package from the last table in an output."""
    return dict(re.findall(r"^(tiny-\w+) +13\.0 +\S+ +- +(\w+)", output, re.MULTILINE))


@pytest.mark.e2e
def test_builds_the_others_after_a_failure(engine: Engine) -> None:
    kernel = kernel_of(engine)
    sound = kernel.read_text()
    kernel.write_text(BROKEN + sound)

    first = run_matrix(engine, "build")

    assert first.status == EXIT_CODES["cells-failed"], first.output
    assert states_of(first.output) == {"tiny-capi": "failed", "tiny-skbuild": "built"}
    assert "1 of 2 cells failed" in first.output
    [wheel] = engine.wheels()
    changed = wheel.stat().st_mtime_ns

    assert states_of(run_matrix(engine).output) == states_of(first.output)
    [log] = (engine.dist / ".cuwheel").glob("*.failed.log")
    assert "this kernel isn't finished" in log.read_text()
    _check_page(engine.dist / "matrix.html", log.name)

    kernel.write_text(sound)
    second = run_matrix(engine, "build")

    assert second.status == 0, second.output
    assert states_of(second.output) == {"tiny-capi": "built", "tiny-skbuild": "built"}
    assert "(1 of 1)" in second.output  # only the one that failed
    assert wheel.stat().st_mtime_ns == changed
    assert not [*(engine.dist / ".cuwheel").glob("*.failed.*")]
    assert read_document(run_matrix(engine, "--json").output, "matrix")["include"] == []


@pytest.mark.e2e
def test_stops_at_the_first_failure_with_no_keep_going(engine: Engine) -> None:
    kernel_of(engine).write_text(BROKEN)

    done = run_matrix(engine, "build", "--no-keep-going")

    assert states_of(done.output) == {"tiny-capi": "failed", "tiny-skbuild": "missing"}


@pytest.mark.e2e
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.nightly)]
)
def test_continues_after_a_signal(engine: Engine, number: signal.Signals) -> None:
    with subprocess.Popen(
        matrix_command(engine, "build"),
        env=engine.environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as child:
        wait_for(lambda: len(engine.wheels()) == 1, 200)
        time.sleep(1)  # in the middle of the second
        os.killpg(child.pid, number)
        output, _ = child.communicate(timeout=60)

    [wheel] = engine.wheels()
    changed = wheel.stat().st_mtime_ns
    if number == signal.SIGINT:  # the table is still printed
        assert sorted(states_of(output).values()) == ["built", "missing"]

    done = run_matrix(engine, "build")

    assert done.status == 0, done.output
    assert "(1 of 1)" in done.output
    assert wheel.stat().st_mtime_ns == changed


def _check_page(page: Path, log: str) -> None:
    """The page shows both cells, links only existing files, and loads nothing."""
    links: list[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in {"script", "img"}
            links.extend(value for name, value in attrs if name in {"href", "src"} and value)

    text = page.read_text()
    Reader().feed(text)

    assert f".cuwheel/{log}" in links
    anchors = {link for link in links if link.startswith("#")}
    assert all(f' id="{anchor[1:]}"' in text for anchor in anchors)
    files = (page.parent / link.replace("%2B", "+") for link in links if link not in anchors)
    assert all(file.is_file() for file in files)
    assert text.count("<tr id=") == 2


@pytest.mark.e2e
def test_build_of_one_cell_reports_as_json(engine: Engine) -> None:
    kernel = kernel_of(engine)
    sound = kernel.read_text()
    kernel.write_text(BROKEN + sound)

    failed = _build_as_json(engine)
    log = (engine.dist / ".cuwheel" / failed["failure"]["log"]).read_text()
    kernel.write_text(sound)
    built = _build_as_json(engine)

    assert failed["state"] == "failed"
    assert failed["target"] == built["target"]
    assert "this kernel isn't finished" in log
    assert built["state"] == "built"
    wheel = built["wheel"]
    assert (engine.dist / wheel["wheel"]).stat().st_size == wheel["size"]
    assert {stage for stage, _ in wheel["durations"]} >= {"build", "audit", "smoke"}


def _build_as_json(engine: Engine) -> dict[str, Any]:
    folders = ("--work", str(engine.work), "--dist", str(engine.dist))
    done = subprocess.run(
        [str(engine.python), "-m", "cuwheel", "build", "tiny-capi-130", "--json", *folders],
        env=engine.environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    [line] = done.stdout.splitlines()
    document = read_document(line, "build")
    assert (done.returncode == 0) == (document["state"] == "built")
    return document
