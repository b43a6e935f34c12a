"""How a cell stands is read from what lies beside the wheels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cuwheel.build.rebuild_key import key_of
from cuwheel.errors import BuildFailedError
from cuwheel.matrix.state import Cell, read_state
from cuwheel.system.files import sha256_of_file
from cuwheel.workspace.failure_record import write_failure
from tests.support.factories import locked_target, make_job, make_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.job import Job


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    job = make_job(locked_target(), make_workspace(tmp_path))
    return Cell(job=job, options=(job.target.name,))


def _publish(job: Job, **key: str) -> None:
    """Leave what a finished build leaves."""
    dist = job.workspace.dist
    (dist / "simple" / "tiny").mkdir(parents=True)
    wheel = dist / "tiny-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    sha256 = sha256_of_file(wheel)
    for name, text in {
        f"{wheel.name}.provenance.json": sha256,
        f"{wheel.name}.metadata": "Metadata-Version: 2.1",
        "simple/index.html": '<a href="tiny/index.html">',
        "simple/tiny/index.html": f'<a href="../../{wheel.name}#sha256={sha256}">',
    }.items():
        (dist / name).write_text(text)
    summary = {
        "wheel": wheel.name,
        "size": 5,
        "sha256": sha256,
        "archs": ["90"],
        "ptx_archs": [],
        "platform_tag": "any",
        "external": [],
        "durations": [["build", 3.0], ["smoke", 1.5]],
        "peak_memory": 1,
    }
    record = dist / ".cuwheel" / f"{job.target.id}.json"
    record.parent.mkdir()
    written = {"key": {**key_of(job), **key}, "summary": summary, "date": "2026-11-23T01:00:00"}
    record.write_text(json.dumps(written))


def test_nothing_there_is_missing(cell: Cell) -> None:
    assert read_state(cell).kind == "missing"


def test_what_a_build_would_make_again_is_outdated(cell: Cell) -> None:
    _publish(cell.job, archs="80")

    state = read_state(cell)

    assert (state.kind, state.detail) == ("outdated", "archs: 80 -> 90")
    assert state.is_due


def test_built_says_hash_date_and_time(cell: Cell) -> None:
    _publish(cell.job)

    state = read_state(cell)

    assert (state.kind, state.date, state.seconds) == ("built", "2026-11-23T01:00:00", 4.5)
    assert state.sha256 == sha256_of_file(cell.job.workspace.dist / state.wheel)
    assert not state.is_due


def test_failed_says_what_its_log_shows(cell: Cell, tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n")
    error = BuildFailedError("it failed", command=("make",), status=1, log=log, tail=())
    write_failure(error, cell.job.workspace.dist, cell.id)

    state = read_state(cell)

    assert (state.kind, state.detail) == ("failed", "it failed")
    assert state.anchor == "arch-newer-than-nvcc"
    assert (cell.job.workspace.dist / ".cuwheel" / state.log).read_text() == log.read_text()


def test_failure_of_something_else_hides_no_wheel(cell: Cell) -> None:
    """A wheel that is as a build would make it counts, whatever failed before or since."""
    _publish(cell.job)
    error = BuildFailedError("it failed", command=("make",), status=1, log=None, tail=())
    write_failure(error, cell.job.workspace.dist, cell.id)

    assert read_state(cell).kind == "built"


def test_impossible_stays_so(cell: Cell) -> None:
    said = "torch has no wheel for this Python"

    state = read_state(Cell(job=cell.job, options=(), impossible=said))

    assert (state.kind, state.detail, state.is_due) == ("impossible", said, False)
