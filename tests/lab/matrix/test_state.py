"""States of cells, read from the records in the folder of wheels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuwheel.base.errors import BuildFailedError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.pipeline.rebuild_key import key_of
from cuwheel.build.workspace.failure_record import write_failure
from cuwheel.build.workspace.job import Job
from cuwheel.lab.matrix.state import Cell, read_state
from tests.support.factories import locked_target, make_workspace
from tests.support.lab.matrices import make_cell


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return make_cell(locked_target(), make_workspace(tmp_path))


def _publish(job: Job, **key: str) -> None:
    """Write the files of a finished build."""
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


def test_cell_without_records_is_missing(cell: Cell) -> None:
    assert read_state(cell).kind == "missing"


def test_wheel_of_other_inputs_is_outdated(cell: Cell) -> None:
    _publish(cell.job, archs="80")

    state = read_state(cell)

    assert (state.kind, state.detail) == ("outdated", "archs: 80 -> 90")
    assert state.is_due


def test_built_has_hash_date_and_time(cell: Cell) -> None:
    _publish(cell.job)

    state = read_state(cell)

    assert (state.kind, state.date, state.seconds) == ("built", "2026-11-23T01:00:00", 4.5)
    assert state.sha256 == sha256_of_file(cell.job.workspace.dist / state.wheel)
    assert not state.is_due


def test_failed_has_log_and_anchor(cell: Cell, tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n")
    error = BuildFailedError("it failed", command=("make",), status=1, log=log, tail=())
    write_failure(error, cell.job.workspace.dist, cell.id)

    state = read_state(cell)

    assert (state.kind, state.detail) == ("failed", "it failed")
    assert state.anchor == "arch-newer-than-nvcc"
    assert (cell.job.workspace.dist / ".cuwheel" / state.log).read_text() == log.read_text()


def test_failure_hides_no_current_wheel(cell: Cell) -> None:
    _publish(cell.job)
    error = BuildFailedError("it failed", command=("make",), status=1, log=None, tail=())
    write_failure(error, cell.job.workspace.dist, cell.id)

    assert read_state(cell).kind == "built"


def test_impossible_stays_so(cell: Cell) -> None:
    why = "torch has no wheel for this Python"

    state = read_state(Cell(job=cell.job, impossible=why))

    assert (state.kind, state.detail, state.is_due) == ("impossible", why, False)
