"""`audit` in other repositories: the action `ci/audit-wheels` and the pre-commit hook, for real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cuwheel.base.errors import EXIT_CODES, AuditError
from cuwheel.base.paths import ROOT
from tests.support.check.audits import make_wheel
from tests.support.documents import read_document

pytestmark = pytest.mark.e2e

_FOLDER = ROOT / "ci" / "audit-wheels"


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's step in a workspace, as a runner does."""
    action: dict[str, Any] = yaml.safe_load((_FOLDER / "action.yml").read_text())
    [step] = action["runs"]["steps"]
    values = {name: one["default"] for name, one in action["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()}
    known = {"github.action_path": str(_FOLDER)}
    known |= {f"inputs.{name}": value for name, value in values.items()}
    given = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: known[found[1]], text)
        for name, text in step["env"].items()
    }
    return subprocess.run(
        [step["shell"], "-c", step["run"]],
        cwd=folder,
        env={
            **os.environ,
            **given,
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",  # noqa: PTH120
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(folder),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        },
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checkout with a bad wheel, and a module that nobody may take from it."""
    folder = tmp_path / "workspace"
    (folder / "dist").mkdir(parents=True)
    (folder / "json.py").write_text("raise SystemExit('the wrong json')\n")
    make_wheel(folder / "dist", "-Wl,-z,execstack")
    return folder


def test_action_annotates_each_finding_and_fails(workspace: Path) -> None:
    [wheel] = (workspace / "dist").glob("*.whl")

    done = run_action(workspace)

    assert done.returncode == AuditError.exit_code, done.stderr
    assert f"::error title={wheel.name}%3A " in done.stderr
    assert f"file=dist/{wheel.name}" in done.stderr
    assert "executable stack" in done.stdout
    summary = (workspace / "summary.md").read_text().replace("\\_", "_")
    assert f"| {wheel.name} | 1 error" in summary


def test_action_writes_data_and_lets_pass(workspace: Path) -> None:
    done = run_action(workspace, fail_on="never", wheels="\ndist\n", json="audit.json")

    assert done.returncode == 0, done.stderr
    [found] = read_document((workspace / "audit.json").read_text(), "audit")["wheels"]
    assert found["verdict"] == "error"
    assert read_document(done.stdout, "audit")["wheels"] == [found]


def test_action_says_that_there_is_no_wheel(workspace: Path) -> None:
    done = run_action(workspace, wheels="wheelhouse")

    assert done.returncode == 2
    assert f"{workspace}/wheelhouse: there is no such file" in done.stderr


def test_hook_stops_a_commit(tmp_path: Path) -> None:
    """A repository like any other, and `pre-commit` as a person has it."""
    repository = tmp_path / "repository"
    repository.mkdir()
    make_wheel(repository, "-Wl,-rpath,/tmp/lib")
    for words in (("init", "--quiet"), ("add", "--all")):
        subprocess.run(["git", *words], cwd=repository, check=True)

    def hook(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["-m", "pre_commit", "try-repo", str(ROOT), "audit-wheels", *words]
        return subprocess.run(
            [sys.executable, *command],
            cwd=repository,
            env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "hooks")},
            check=False,
            capture_output=True,
            text=True,
        )

    stopped = hook("--all-files")

    assert f"exit code: {EXIT_CODES['audit-warning']}" in stopped.stdout, stopped.stdout
    assert "a folder below site-packages" in stopped.stdout
    assert stopped.returncode == 1
