"""The script of the GitHub workflow: unfinished cells of a matrix, and its report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

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


def test_joins_the_seconds_of_cells(tmp_path: Path) -> None:
    for cell, seconds in (
        ("one", {"a.cu 80 90": {"80": 1}}),
        ("two", {"a.cu 80 90": {"90": 2}, "b.cu": {"": 3}, "c.cu 90": 4}),
    ):
        path = tmp_path / "cells" / f"cell-{cell}" / "seconds" / "tiny" / "seconds.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(seconds))
    out = tmp_path / "out"
    (out / "tiny").mkdir(parents=True)
    (out / "tiny" / "seconds.json").write_text('{"b.cu": 7}')  # as earlier releases wrote it

    for _ in range(2):  # what an earlier run has left stays
        command = [sys.executable, "-I", str(ROOT / "ci" / "github_cells.py"), "seconds"]
        subprocess.run([*command, str(tmp_path / "cells"), str(out)], check=True)
        shutil.rmtree(tmp_path / "cells" / "cell-one", ignore_errors=True)

    joined = json.loads((out / "tiny" / "seconds.json").read_text())
    assert joined == {"a.cu 80 90": {"80": 1, "90": 2}, "b.cu": {"": 3}}


def _step(name: str) -> str:
    """The script of a step of cells.yml."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "cells.yml").read_text())
    [script] = [
        step["run"] for step in workflow["jobs"]["build"]["steps"] if step.get("name") == name
    ]
    return str(script)


def test_what_shards_compiled_gets_into_the_cells_cache(tmp_path: Path) -> None:
    """Each step runs as on a runner: with `bash -e`, in the checkout."""
    cell = tmp_path / "cell"
    for shard in ("1", "2"):
        folder = tmp_path / shard
        (folder / "cache" / "compiles" / "old").mkdir(parents=True)
        (folder / "cache" / "compiles" / "old" / "restored").touch()
        _run_step("Take what shards compiled", folder)
        time.sleep(0.01)
        made = folder / "cache" / "compiles" / "tiny" / "sccache" / shard
        made.parent.mkdir(parents=True)
        made.write_text(shard)
        _run_step("Pack the share", folder)
        share = cell / "shares" / f"share-tiny.shard-{shard}"
        share.mkdir(parents=True)
        (folder / "share.tar").rename(share / "share.tar")

    _run_step("Take what shards compiled", cell)

    compiles = cell / "cache" / "compiles"
    files = sorted(str(path.relative_to(compiles)) for path in compiles.rglob("*"))
    assert files == ["tiny", "tiny/sccache", "tiny/sccache/1", "tiny/sccache/2"]


def _run_step(name: str, folder: Path) -> None:
    subprocess.run(
        ["bash", "-e", "-c", _step(name)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "CUWHEEL_CACHE": str(folder / "cache")},
        check=True,
    )
