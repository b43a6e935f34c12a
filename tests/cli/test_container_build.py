"""Builds in a container: their parts, what is passed on, and the states of a matrix's cells."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import SandboxError, SmokeError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.github import SUMMARY_VARIABLE
from cuwheel.base.system.pythons import own_python
from cuwheel.build.sandbox.containers.image import IMAGE_VARIABLE
from cuwheel.build.workspace.failure_record import failure_path, write_failure
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.cli.commands.matrix import answer_states
from cuwheel.cli.container_build import parts_of, request_inside
from cuwheel.cli.dispatch import run_command
from cuwheel.cli.target_choice import read_request
from cuwheel.lab.matrix.state import as_data, from_data, read_states
from tests.support.build.recipe_files import write_recipe
from tests.support.factories import make_target, make_workspace
from tests.support.lab.matrices import make_cell

IMAGE = f"debian@sha256:{'0' * 64}"


def inside(*options: str) -> BuildRequest:
    return request_inside(
        read_request(["tiny-130", "--container", IMAGE, *options], Caller(os.environ))
    )


def parts(*options: str) -> list[tuple[str, bool]]:
    names = ("no_cache", "dry_run", "stage", "until", "part")
    return [
        (" ".join(part.request.argv(*names)), part.network) for part in parts_of(inside(*options))
    ]


def test_package_is_built_without_network() -> None:
    assert parts() == [("--part preflight", True), ("--part build", False), ("", True)]


def test_builds_again_once() -> None:
    again = [("--no-cache --part preflight", True), ("--no-cache --part build", False), ("", True)]

    assert parts("--no-cache") == again


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("patch", [("--until patch", True)]),
        ("build", [("--until preflight", True), ("--until build", False)]),
        (
            "audit",
            [("--until preflight", True), ("--until build", False), ("--until audit", True)],
        ),
    ],
)
def test_stops_after_a_stage(last: str, expected: list[tuple[str, bool]]) -> None:
    assert parts("--until", last) == expected


@pytest.mark.parametrize(("stage", "network"), [("source", True), ("build", False)])
def test_runs_one_stage(stage: str, network: bool) -> None:  # noqa: FBT001 - a table's column
    assert parts("--stage", stage) == [(f"--stage {stage}", network)]


def test_foretells_without_network() -> None:
    assert parts("--dry-run") == [("--dry-run", False)]


def test_hands_every_option_on(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        name: (tmp_path / name).resolve() for name in ("work", "dist", "source")
    }
    request = BuildRequest(
        targets=("tiny-130",), python=("3.12",), arch=("90",), link="static", jobs=3, **values
    )
    outside: dict[str, Any] = {"container": IMAGE, "container_engine": "docker", "offline": True}

    inside = replace(request, host_compiler="system")
    assert request_inside(replace(request, **outside)) == inside


def test_folders_have_their_real_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert inside("--dist", str(tmp_path / "link")).dist == tmp_path / "real"


def test_python_is_that_of_nox() -> None:
    assert inside().argv()[:3] == ("tiny-130", "--python", own_python().release)


STAND_IN = """\
#!/bin/sh
[ "$1" = image ] && exit 0
case "$*" in
    *" sh -c "*) printf '/usr/bin/python3\\ncompiler \\n'; exit 0 ;;
    *"--part build"*)
        echo "| of the package |" >>"$GITHUB_STEP_SUMMARY"
        [ -z "$FAILURE" ] && exit 75
        printf %s "$FAILURE" >"$RECORD"
        exit 61 ;;
    *"--part preflight"*) exit 75 ;;
esac
echo "| wheel | $STATUS |" >>"$GITHUB_STEP_SUMMARY"
exit $STATUS
"""


@pytest.fixture
def build_in_fake_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Builds where podman is a shell script; the step's summary is the file of that name."""
    (tmp_path / "podman").write_text(STAND_IN)
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(SUMMARY_VARIABLE, str(tmp_path / "summary"))
    folders = ["--work", str(tmp_path / "work"), "--dist", str(tmp_path / "dist")]
    words = ["tiny-130", "--container", IMAGE, *folders]
    return lambda: run_command("build", words, Console())


@pytest.mark.parametrize(("status", "expected"), [(0, "| wheel | 0 |"), (62, "")])
def test_step_gets_summary_of_finished_build(
    status: int,
    expected: str,
    tmp_path: Path,
    build_in_fake_engine: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the part has written in which the package's own code runs is left out."""
    monkeypatch.setenv("STATUS", str(status))

    done = build_in_fake_engine()

    summary = tmp_path / "summary"
    assert (done, summary.read_text().strip() if summary.exists() else "") == (status, expected)
    assert not list((tmp_path / "work").iterdir())


def test_step_gets_summary_of_failed_build(
    tmp_path: Path, build_in_fake_engine: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from the record, as text; a record of an earlier build stays out."""
    dist = tmp_path / "dist"
    error = SmokeError("it doesn't work", why="<img src=x> of the package", fix="mend it")
    write_failure(error, dist, "tiny-130-cp312")
    written = failure_path(dist, "tiny-130-cp312").read_text()
    older = failure_path(dist, "tiny-130-cp311")
    older.write_text(written)
    os.utime(older, (1, 1))
    monkeypatch.setenv("FAILURE", written)
    monkeypatch.setenv("RECORD", str(failure_path(dist, "tiny-130-cp312")))

    done = build_in_fake_engine()

    lines = (tmp_path / "summary").read_text().splitlines()
    assert done == 61
    assert [line for line in lines if "because" in line] == [
        "| because | \\<img src=x\\> of the package |"
    ]
    assert "| of the package |" not in lines


def test_refuses_container_in_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, IMAGE)

    with pytest.raises(UsageError, match="in a container"):
        run_command("build", ["tiny-130", "--container", IMAGE], Console())


def test_names_missing_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SandboxError, match="neither podman nor docker is installed"):
        run_command("build", ["tiny-130", "--container", IMAGE], Console())


def test_states_come_through_as_they_are(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    cells = [make_cell(make_target(python=python), workspace) for python in ("3.11", "3.12")]
    output = json.loads(json.dumps(as_data(read_states(cells))))

    assert from_data(reversed(cells), output) == tuple(reversed(read_states(cells)))


def test_answers_for_each_build_that_a_file_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_recipe(tmp_path / "project", "tiny")
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "project"))
    folders = ["--work", str(tmp_path / "work"), "--dist", str(tmp_path / "dist")]
    path = tmp_path / "states.json"
    requested = [["tiny-130", "--python", release, *folders] for release in ("3.11", "3.12")]
    path.write_text(json.dumps(requested))

    answer_states(path, Console(), Caller(os.environ))

    output = json.loads(path.read_text())
    assert [(state["id"], state["kind"]) for state in output] == [
        ("tiny-130-cp311", "missing"),
        ("tiny-130-cp312", "missing"),
    ]
