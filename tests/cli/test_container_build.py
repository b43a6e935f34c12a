from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.commands.build.build import build_parser
from cuwheel.cli.container_build import parts_of, words_of
from cuwheel.cli.dispatch import run_command
from cuwheel.cli.parser import read_count
from cuwheel.containers.image import IMAGE_VARIABLE
from cuwheel.errors import ContainerError, SmokeError, UsageError
from cuwheel.model.platform import PLATFORMS
from cuwheel.system.console import Console
from cuwheel.system.output.github import SUMMARY_VARIABLE
from cuwheel.system.pythons import own_python
from cuwheel.workspace.failure_record import failure_path, write_failure

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

IMAGE = f"debian@sha256:{'0' * 64}"

# Options that say which parts there are, or where they run; the others mean the same inside.
OUTSIDE = {
    *("container", "container_engine", "dry_run", "help", "no_cache", "offline", "part"),
    *("stage", "until"),
    *("platform", "target_root"),  # an image builds for its own kind of machine
}


def given(*options: str) -> argparse.Namespace:
    return build_parser().parse(["tiny-130", "--container", IMAGE, *options])


def parts(*options: str) -> list[tuple[str, bool]]:
    return [(" ".join(part.options), part.network) for part in parts_of(given(*options))]


def test_package_is_built_without_network() -> None:
    assert parts() == [("--part preflight", True), ("--part build", False), ("", True)]


def test_builds_again_once() -> None:
    again = [("--part preflight --no-cache", True), ("--part build --no-cache", False), ("", True)]

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


@pytest.mark.parametrize("other", ["quiet", "verbose"])
def test_hands_every_option_on(other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option that `build` gets has to be handed in, or to stand in `OUTSIDE`."""
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))
    asked = []
    for action in build_parser()._actions:
        if action.dest in {*OUTSIDE, "targets", other}:  # these two don't go together
            continue
        value = str(next(iter(action.choices or ()), tmp_path / "x"))
        value = "1" if action.type is read_count else value
        asked.append([action.option_strings[0], *([] if action.nargs == 0 else [value])])

    words = list(words_of(given(*(word for option in asked for word in option))))

    handed = [words[at : at + len(option)] for option in asked for at in [words.index(option[0])]]
    assert handed == asked
    assert len(words) == 1 + sum(map(len, asked))


def test_folders_are_those_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))

    words = list(words_of(given("--dist", "out")))

    assert words[words.index("--dist") + 1] == str(tmp_path / "out")


def test_python_is_that_of_nox() -> None:
    words = list(words_of(given()))

    assert words == ["tiny-130", "--jobs", "auto", "--sandbox", "auto", *_python()]


def _python() -> tuple[str, str]:
    return "--python", own_python().release


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
def build_in_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
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
    build_in_stand_in: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the part has written in which the package's own code runs is left out."""
    monkeypatch.setenv("STATUS", str(status))

    done = build_in_stand_in()

    summary = tmp_path / "summary"
    assert (done, summary.read_text().strip() if summary.exists() else "") == (status, expected)
    assert not list((tmp_path / "work").iterdir())


def test_step_gets_summary_of_failed_build(
    tmp_path: Path, build_in_stand_in: Callable[[], int], monkeypatch: pytest.MonkeyPatch
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

    done = build_in_stand_in()

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

    with pytest.raises(ContainerError, match="neither podman nor docker is installed"):
        run_command("build", ["tiny-130", "--container", IMAGE], Console())


def test_refuses_engine_without_container() -> None:
    with pytest.raises(UsageError, match="--container-engine"):
        run_command("build", ["tiny-130", "--container-engine", "podman"], Console())


@pytest.mark.parametrize("command", ["build", "matrix"])
def test_refuses_another_kind_of_machine(command: str) -> None:
    other = next(one for one in PLATFORMS.values() if one.is_foreign)
    target = {"build": ["tiny-130"], "matrix": ["show"]}[command]
    words = [*target, "--container", IMAGE, "--platform", other.name]

    with pytest.raises(UsageError, match="can't be combined"):
        run_command(command, words, Console())
