"""The workflow of a release: what starts it, what it may, and what its steps do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.paths import ROOT
from tests.support.publish.releases import Project

# A stand-in of `gh` that logs its calls; releases are folders below RELEASES, drafts are in DRAFT.
_GH = """#!/bin/sh
echo "$@" >> "$LOG"
case $1-$2 in
release-list) ls "$RELEASES" ;;
release-download) mkdir -p "$7" && cp "$RELEASES/$3/release.json" "$7" ;;
release-view) echo "$DRAFT" ;;
api-*) cat "run-${2##*/}" ;;
esac
"""
# The session without nox, in the Python of the tests.
_NOX = f"""#!/bin/sh
shift 3
exec {sys.executable} -m cuwheel release "$@"
"""
TAG = "v2026-11-20"


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    path = ROOT / ".github" / "workflows" / "release.yml"
    return dict(yaml.safe_load(path.read_text()))


@pytest.fixture
def runner(project: Project) -> Path:
    """The folder of a job, with stand-ins for `gh` and `nox`, and one release that is there."""
    programs = project.folder / "bin"
    programs.mkdir()
    for name, text in (("gh", _GH), ("nox", _NOX)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    other = project.folder / "there" / TAG
    other.mkdir(parents=True)
    project.add("1.0+cu130")
    result = project.publish(to=project.folder / "first")
    (result.folder / "release.json").rename(other / "release.json")
    return project.folder


def step_of(workflow: dict[Any, Any], job: str, name: str) -> str:
    [result] = [step for step in workflow["jobs"][job]["steps"] if step.get("name") == name]
    return str(result["run"])


def run_step(script: str, runner: Path, **variables: str) -> dict[str, str]:
    """Run a step as the runner does; gives its outputs."""
    output = runner / "output"
    output.touch()
    subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=runner,
        check=True,
        env={
            **os.environ,
            "PATH": f"{runner / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "CUWHEEL_CACHE": str(runner / "cache"),
            "CUWHEEL_INVOKED_FROM": str(runner),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(runner / "summary"),
            "LOG": str(runner / "calls"),
            "RELEASES": str(runner / "there"),
            "REQUIRE": "",
            "YANK": "",
            "REASON": "",
            "UNYANK": "",
            **variables,
        },
    )
    return dict(line.split("=", 1) for line in output.read_text().splitlines())


def test_no_pull_request_starts_it(workflow: dict[Any, Any]) -> None:
    assert set(workflow[True]) == {"workflow_dispatch"}  # YAML reads `on` as true


def test_publishes_only_on_request(workflow: dict[Any, Any]) -> None:
    publish = workflow[True]["workflow_dispatch"]["inputs"]["publish"]

    assert publish["default"] is False
    assert "inputs.publish" in workflow["jobs"]["publish"]["if"]
    assert "inputs.publish" in workflow["jobs"]["pages"]["if"]


def test_what_may_write_runs_nothing_of_the_checkout(workflow: dict[Any, Any]) -> None:
    jobs = workflow["jobs"]

    assert jobs["collect"]["permissions"] == {"actions": "read", "contents": "read"}
    for name in ("publish", "pages"):
        assert not [step for step in jobs[name]["steps"] if "checkout" in step.get("uses", "")]


def check_runs(
    workflow: dict[Any, Any], runner: Path, run: str = "7", records: str = "", failed: str = "false"
) -> str:
    """The output of the step that looks at the runs, which has to end as expected."""
    script = step_of(workflow, "collect", "See whose runs they are")
    variables = {"GH_REPO": "me/it", "BRANCH": "main", "RUN": run, "RECORDS": records}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=runner,
        check=False,
        env={
            **os.environ,
            "PATH": f"{runner / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "LOG": str(runner / "calls"),
            "FAILED": failed,
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert (done.returncode == 0) == (done.stdout == ""), done.stdout
    return done.stdout


def write_run(runner: Path, number: str, **changed: str) -> None:
    """GitHub's data of a run."""
    facts = {
        "repository": "me/it",
        "branch": "main",
        "path": ".github/workflows/build.yml@refs/heads/main",
        "conclusion": "success",
    }
    (runner / f"run-{number}").write_text("\n".join({**facts, **changed}.values()) + "\n")


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, ""),
        ({"path": ".github/workflows/build.yml"}, ""),
        ({"repository": "mallory/it"}, "its code is of mallory/it, not of me/it"),
        ({"repository": ""}, "its code is of nobody knows whom"),
        ({"branch": "feature"}, "it is of feature; name one of the branch main"),
        ({"path": ".github/workflows/ci.yml"}, "it is of .github/workflows/ci.yml; name one of"),
        ({"conclusion": "failure"}, "it ended as failure; wanted: success"),
        ({"conclusion": ""}, "it ended as still running"),
    ],
)
def test_takes_only_runs_of_the_own_default_branch(
    changed: dict[str, str], fault: str, workflow: dict[Any, Any], runner: Path
) -> None:
    write_run(runner, "7", **changed)

    assert fault in check_runs(workflow, runner)


def test_takes_a_run_of_which_builds_failed_on_request(
    workflow: dict[Any, Any], runner: Path
) -> None:
    write_run(runner, "7", conclusion="failure")
    write_run(runner, "8", conclusion="cancelled")

    assert check_runs(workflow, runner, failed="true") == ""
    assert "it ended as cancelled" in check_runs(workflow, runner, run="8", failed="true")


def test_looks_at_the_run_of_the_records_too(workflow: dict[Any, Any], runner: Path) -> None:
    write_run(runner, "7")
    nightly = ".github/workflows/nightly-gpu.yml"
    write_run(runner, "8", path=nightly)
    write_run(runner, "9", path=nightly, repository="mallory/it")

    assert check_runs(workflow, runner, records="8") == ""
    assert "run 9: its code is of mallory/it" in check_runs(workflow, runner, records="9")
    assert "this is no number" in check_runs(workflow, runner, records="../9")


@pytest.mark.e2e
def test_puts_what_is_new_together(workflow: dict[Any, Any], runner: Path) -> None:
    """A wheel of an earlier release is known by its record; its links lead to that release."""
    cell = runner / "cells" / "cell-toy-130"
    (runner / "dist").rename(runner / "old")
    (cell / "dist").mkdir(parents=True)
    wheel = Project(folder=cell).add("2.0+cu130")
    statement_of(runner / "old" / "toy-1.0+cu130-py3-none-any.whl").unlink()
    (runner / "old" / "toy-1.0+cu130-py3-none-any.whl").rename(
        cell / "dist" / "toy-1.0+cu130-py3-none-any.whl"
    )
    base = "https://github.com/me/it/releases/download"

    run_step(step_of(workflow, "collect", "Get the records of the releases before"), runner)
    outputs = run_step(
        step_of(workflow, "collect", "Put it together"),
        runner,
        BASE_URL=base,
        PUBLISH="true",
    )

    assert outputs["is_new"] == "true"
    release = runner / "public" / "releases" / outputs["tag"]
    result = json.loads((release / "release.json").read_text())
    assert [wheel["entry"]["name"] for wheel in result["wheels"]] == [wheel.name]
    assert result["previous"] == TAG
    page = (runner / "public" / "simple" / "toy" / "index.html").read_text()
    assert f"{base}/{TAG}/toy-1.0%2Bcu130-py3-none-any.whl" in page
    assert f"{base}/{outputs['tag']}/toy-2.0%2Bcu130-py3-none-any.whl" in page
    assert "# v" in (runner / "summary").read_text()


@pytest.mark.e2e
def test_withdraws_a_wheel_of_an_earlier_release(workflow: dict[Any, Any], runner: Path) -> None:
    (runner / "cells" / "cell-toy-130" / "dist").mkdir(parents=True)
    script = step_of(workflow, "collect", "Put it together")
    options = {"BASE_URL": "https://h/x", "PUBLISH": "true", "REASON": "wrong on sm_120"}

    run_step(step_of(workflow, "collect", "Get the records of the releases before"), runner)
    outputs = run_step(script, runner, YANK="toy==1.0+cu130", **options)

    assert outputs["is_new"] == "true"
    page = (runner / "public" / "simple" / "toy" / "index.html").read_text()
    assert 'data-yanked="wrong on sm_120"' in page


@pytest.mark.e2e
def test_dry_run_is_in_the_summary_alone(workflow: dict[Any, Any], runner: Path) -> None:
    (runner / "cells" / "cell-toy-130").mkdir(parents=True)
    (runner / "dist").rename(runner / "cells" / "cell-toy-130" / "dist")
    script = step_of(workflow, "collect", "Put it together")

    outputs = run_step(script, runner, BASE_URL="https://h/x", PUBLISH="false")

    assert outputs == {}
    assert not (runner / "public").exists()
    assert "## Wheels" in (runner / "summary").read_text()


@pytest.mark.parametrize("draft", ["", "true"])
def test_release_is_a_draft_until_it_is_whole(
    draft: str, workflow: dict[Any, Any], runner: Path
) -> None:
    (runner / "release").mkdir()
    (runner / "release" / "toy.whl").touch()

    run_step(step_of(workflow, "publish", "Publish"), runner, TAG=TAG, COMMIT="abc", DRAFT=draft)

    requested = [line.split()[1] for line in (runner / "calls").read_text().splitlines()]
    begun = ["view", "delete"] if draft else ["view"]
    assert requested == [*begun, "create", "upload", "edit"]
