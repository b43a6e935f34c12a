"""The script of the GitHub workflow: unfinished cells of a matrix, and its report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT

_FAILURE = {"what": "it broke", "cause": "arch-newer-than-nvcc"}
_CELLS = {"include": [{"id": name} for name in ("one", "two", "three")]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The artifacts: `one` was built, `two` failed, `three` ran out of time."""
    for name, document in (
        ("one", {"state": "built", "wheel": {"sha256": "0123abcd"}}),
        ("two", {"state": "failed", "wheel": None, "failure": _FAILURE}),
    ):
        (tmp_path / f"cell-{name}").mkdir()
        (tmp_path / f"cell-{name}" / "result.json").write_text(json.dumps(document) + "\n")
    return tmp_path


def _run(action: str, cells: object, folder: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "ci" / "github_cells.py"
    command = [sys.executable, "-I", str(script), action, json.dumps(cells), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_next_round_gets_unfinished_cells(folder: Path) -> None:
    done = _run("left", _CELLS, folder)

    assert done.stdout == '{"include":[{"id":"three"}]}\n'


def test_workflow_compares_with_an_empty_matrix(folder: Path) -> None:
    workflow = (ROOT / ".github" / "workflows" / "build.yml").read_text()

    done = _run("left", {"include": [{"id": "one"}]}, folder)

    assert f"!= '{done.stdout.strip()}'" in workflow


def test_report_fails_unless_all_are_built(folder: Path) -> None:
    done = _run("report", _CELLS, folder)

    assert done.returncode == 1
    assert done.stdout.splitlines()[2:] == [
        "| one | built | 0123abcd |",
        "| two | failed | it broke (arch-newer-than-nvcc) |",
        "| three | unfinished |  |",
    ]
    assert _run("report", {"include": [{"id": "one"}]}, folder).returncode == 0


def test_reports_the_error_of_a_build(folder: Path) -> None:
    document = {"schema": "error", "what": "no such option", "exit_code": 2}
    (folder / "cell-one" / "result.json").write_text(json.dumps(document))

    assert "| one | failed | no such option |" in _run("report", _CELLS, folder).stdout


def test_build_without_a_result_has_failed(folder: Path) -> None:
    (folder / "cell-one" / "result.json").write_text("")

    assert "| one | failed |" in _run("report", _CELLS, folder).stdout
