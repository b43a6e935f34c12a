"""The workflow for a runner with a GPU: triggers, permissions and issues."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cuwheel.base.paths import ROOT

# A stand-in for `gh` that logs arguments and texts; OPEN is an open issue's number.
_GH = """#!/bin/sh
echo "$@" >> "$LOG"
case $1-$2 in
issue-list) echo "$OPEN" ;;
*) cat body.md >> "$LOG" ;;
esac
"""


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    path = ROOT / ".github" / "workflows" / "nightly-gpu.yml"
    return dict(yaml.safe_load(path.read_text()))


def test_no_pull_request_starts_it(workflow: dict[Any, Any]) -> None:
    assert set(workflow[True]) == {"schedule", "workflow_dispatch"}  # YAML reads `on` as true


def test_only_the_reporting_job_may_write(workflow: dict[Any, Any]) -> None:
    jobs = workflow["jobs"]

    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in jobs["nightly"]
    assert jobs["tell"]["permissions"] == {"issues": "write"}
    assert "self-hosted" not in jobs["tell"]["runs-on"]
    assert not [step for step in jobs["tell"]["steps"] if "checkout" in step.get("uses", "")]


def test_two_runs_never_share_the_gpu(workflow: dict[Any, Any]) -> None:
    assert workflow["concurrency"] == {"group": "nightly-gpu", "cancel-in-progress": False}


@pytest.mark.parametrize(("is_open", "arguments"), [("", "issue create"), ("7", "issue comment 7")])
def test_issue_holds_the_summary(
    workflow: dict[Any, Any], tmp_path: Path, is_open: str, arguments: str
) -> None:
    step = workflow["jobs"]["tell"]["steps"][-1]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(_GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    (tmp_path / "nightly").mkdir()
    (tmp_path / "nightly" / "summary.txt").write_text("- failed  perf tiny-130\n")
    log = tmp_path / "log"

    subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={
            "PATH": f"{tmp_path / 'bin'}:{os.defpath}",
            "LOG": str(log),
            "OPEN": is_open,
            "TITLE": step["env"]["TITLE"],
            "RUN": "https://example.invalid/runs/1",
        },
        check=True,
    )

    output = log.read_text()
    assert arguments in output
    assert "https://example.invalid/runs/1" in output
    assert "- failed  perf tiny-130" in output
