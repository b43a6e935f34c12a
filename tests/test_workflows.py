"""What `nox -s lint` checks the workflows with: each program refuses a bad one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cuwheel.base.paths import ROOT
from cuwheel.version import __version__
from tests.support.lint.linters import commands_of_lint

ACTIONS = sorted((ROOT / "ci").glob("*/action.yml"))
STARTERS = sorted((ROOT / "cuwheel/cli/starter/github/workflows").glob("*.y*ml"))
WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.y*ml")), *STARTERS]
# An action by its tag (zizmor), an input that isn't declared (actionlint), a key that is none (the
# schema).
BAD = """
on: workflow_dispatch
permissions: {}
jobs:
  bad:
    runs-on: ubuntu-24.04
    unknown-key: 1
    steps:
      - uses: actions/checkout@v6
      - run: echo ${{ steps.nothing.outputs.x }}
"""


# The same by its tag (zizmor), a step without a shell (the schema).
BAD_ACTION = """
name: bad
description: bad
runs:
  using: composite
  steps:
    - uses: actions/checkout@v6
    - run: echo
"""
SCHEMA = "vendor.github-{}"


@pytest.mark.parametrize("program", ["actionlint", SCHEMA.format("workflows"), "zizmor"])
def test_refuses_a_bad_workflow(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "bad.yml").write_text(BAD)
    [command] = [one for one in commands_of_lint(tmp_path, monkeypatch) if program in one]

    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, check=False, capture_output=True
    )

    assert done.returncode != 0
    assert b"bad.yml" in done.stdout + done.stderr


@pytest.mark.parametrize("program", [SCHEMA.format("actions"), "zizmor"])
def test_refuses_a_bad_action(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    action = tmp_path / "ci" / "bad" / "action.yml"
    action.parent.mkdir(parents=True)
    action.write_text(BAD_ACTION)
    [command] = [one for one in commands_of_lint(tmp_path, monkeypatch) if program in one]

    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, check=False, capture_output=True
    )

    assert done.returncode != 0
    assert b"bad/action.yml" in done.stdout + done.stderr


def test_sees_every_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    [command] = [one for one in commands_of_lint(ROOT, monkeypatch) if "actionlint" in one]

    assert [word for word in command if word.endswith("ml")] == [str(path) for path in WORKFLOWS]


@pytest.mark.parametrize("program", [SCHEMA.format("actions"), "zizmor"])
def test_sees_every_action(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [command] = [one for one in commands_of_lint(ROOT, monkeypatch) if program in one]

    named = {word for word in command if word.endswith("ml")} - {str(one) for one in STARTERS}
    assert named == {str(path) for path in ACTIONS}


@pytest.mark.parametrize(
    ("name", "how_to", "heading"),
    [
        ("install-wheel", "install", "## In a workflow"),
        ("audit-wheels", "audit-in-ci", "## GitHub Actions"),
    ],
)
def test_how_to_names_each_input_of_the_action(name: str, how_to: str, heading: str) -> None:
    action = yaml.safe_load((ROOT / "ci" / name / "action.yml").read_text())
    page = (ROOT / "docs" / "how-to" / f"{how_to}.md").read_text().partition(heading)[2]

    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == list(action["inputs"])
    assert all(f"`{name}`" in page for name in action.get("outputs", ()))


def test_own_package_is_published_by_a_job_that_runs_nothing_of_the_checkout() -> None:
    text = (ROOT / ".github" / "workflows" / "package.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]

    assert text.count("id-token: write") == 1
    assert "permissions" not in jobs["build"]
    assert (jobs["publish"]["permissions"], jobs["publish"]["environment"]) == (
        {"id-token": "write"},
        "pypi",
    )
    download, publish = jobs["publish"]["steps"]
    assert download["uses"].startswith("actions/download-artifact@")
    assert publish["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert publish["with"]["attestations"] is True


@pytest.mark.parametrize(("tag", "status"), [(f"v{__version__}", 0), ("v9.9.9", 1)])
def test_tag_has_to_name_the_version(tag: str, status: int) -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "package.yml").read_text())
    [step] = [one for one in workflow["jobs"]["build"]["steps"] if one.get("env") and "run" in one]

    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=ROOT,
        env={**os.environ, "TAG": tag},
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == status
    assert (f"cuwheel/version.py says {__version__}" in done.stdout) == bool(status)
