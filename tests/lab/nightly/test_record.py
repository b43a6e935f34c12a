"""Folders of reports, and the link `latest`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.base.system.output.documents import as_file
from cuwheel.lab.nightly.record import (
    REPORT,
    NightlyRun,
    earlier_runs,
    new_run_folder,
    publish,
    read_run,
    remove_old_runs,
)
from tests.support.lab.nightly_runs import STARTED, make_run


def _write(reports: Path, day: int, run: NightlyRun) -> Path:
    folder = new_run_folder(reports, f"2026-11-{day}T02:30:00+00:00")
    (folder / REPORT).write_text(as_file(run))
    return folder


def test_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = _write(tmp_path, 23, make_run())

    assert read_run(folder) == make_run()


_OTHER = '{"schema": "nightly", "schema_version": "2.0"}'


@pytest.mark.parametrize("content", ["[]", '{"steps": [{"no": 1}]}', _OTHER, "{"])
def test_refuses_other_content(tmp_path: Path, content: str) -> None:
    (tmp_path / REPORT).write_text(content)

    with pytest.raises(
        ValueError,
        match=r"is not the record of a nightly run|no Step|Expecting|its schema is nightly 2",
    ):
        read_run(tmp_path)


def test_two_runs_of_one_second_have_two_folders(tmp_path: Path) -> None:
    first, second = (new_run_folder(tmp_path, STARTED) for _ in range(2))

    assert [first.name, second.name] == ["2026-11-23T02-30-00Z", "2026-11-23T02-30-00Z-2"]


def test_latest_leads_to_the_last_run(tmp_path: Path) -> None:
    for day in (21, 22):
        publish(_write(tmp_path, day, make_run()))

    assert (tmp_path / "latest").resolve().name == "2026-11-22T02-30-00Z"
    assert json.loads((tmp_path / "latest" / REPORT).read_text())["host"] == "builder"
    assert [path.name for path in tmp_path.glob(".*")] == [MARKER]


def test_newest_runs_stay(tmp_path: Path) -> None:
    *_, last = [_write(tmp_path, day, make_run()) for day in (20, 21, 22, 23)]
    (tmp_path / "baselines").mkdir()
    (tmp_path / "2026-notes").mkdir()

    removed = remove_old_runs(last, 2)

    assert removed == ("2026-11-20T02-30-00Z", "2026-11-21T02-30-00Z")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {MARKER, "2026-11-22T02-30-00Z", last.name, "baselines", "2026-notes"}


def test_active_run_stays(tmp_path: Path) -> None:
    running = _write(tmp_path, 23, make_run(ended=""))
    killed = _write(tmp_path, 22, make_run(ended=""))
    last = _write(tmp_path, 23, make_run())

    assert remove_old_runs(last, 1) == (killed.name,)
    assert running.is_dir()


def test_finds_earlier_runs(tmp_path: Path) -> None:
    first, broken, last = (_write(tmp_path, day, make_run()) for day in (21, 22, 23))
    (broken / REPORT).unlink()

    assert [name for name, _ in earlier_runs(last)] == [first.name]
