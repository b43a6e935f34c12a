"""`cuwheel init` writes a project that can be built, over nothing that is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cuwheel.base.errors import FileAccessError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.build.locks.lock_jobs import lock_jobs
from cuwheel.build.locks.resolve import find_faults
from cuwheel.build.recipe.catalogue import load_catalogue, target_names
from cuwheel.build.recipe.recipe_check import check_recipe
from cuwheel.cli.commands.project import FIRST_TARGET
from cuwheel.cli.dispatch import run_command
from cuwheel.version import __version__
from tests.support.golden import Golden

_NO_CUWHEEL = """
import sys, runpy
sys.modules["cuwheel.under_nox"] = None
runpy.run_path(sys.argv[1])
"""


def init(folder: Path, *options: str) -> None:
    run_command("init", [str(folder), *options], Console())


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_first_recipe_can_be_built(tmp_path: Path) -> None:
    init(tmp_path / "new")

    entries = load_catalogue([tmp_path / "new"])

    assert target_names(entries) == (FIRST_TARGET,)
    assert entries[0].recipe is not None
    check_recipe(entries[0].recipe)


def test_lock_matches_first_recipe(tmp_path: Path) -> None:
    init(tmp_path)

    jobs = lock_jobs(["build:hello-cuda"], load_catalogue([tmp_path]))

    assert find_faults(jobs) == {job.command: [] for job in jobs}


def test_workflow_installs_this_release(tmp_path: Path) -> None:
    init(tmp_path)

    workflow = yaml.safe_load((tmp_path / ".github" / "workflows" / "build.yml").read_text())

    commands = [step["run"] for step in workflow["jobs"]["build"]["steps"] if "run" in step]
    assert commands == [
        f"pip install ./vendor/cuwheel-{__version__}-py3-none-any.whl",
        "cuwheel matrix build --keep-going",
    ]


def test_bare_project_has_no_recipe(tmp_path: Path) -> None:
    init(tmp_path, "--bare")

    names = files_of(tmp_path)

    assert {"noxfile.py", "recipes/.gitkeep", "envs/.gitkeep", "patches/README.md"} <= names
    assert not [name for name in names if "hello" in name]
    assert "hello" not in (tmp_path / "README.md").read_text()


def test_shows_how_to_go_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUWHEEL_INVOKED_FROM", raising=False)

    run_command("init", ["my wheels"], Console())

    assert "cd 'my wheels'" in capsys.readouterr().err


def test_help_lists_commands_and_targets(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
) -> None:
    init(tmp_path)
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path))

    run_command("help", [], Console())

    commands, targets = capsys.readouterr().out.split("\nWhat `cuwheel build` makes here\n")
    golden.check("help/commands.txt", commands)
    assert "\n  hello-cuda-130 " in targets


def test_keeps_what_new_repositories_have(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")

    init(tmp_path)

    assert (tmp_path / "README.md").read_text() == "mine"
    assert (tmp_path / "noxfile.py").is_file()


@pytest.mark.parametrize("name", ["noxfile.py", "recipes/mine.py"])
def test_writes_over_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")

    with pytest.raises(UsageError, match="has a project, or part of one"):
        init(tmp_path)

    assert files_of(tmp_path) == {name}


def test_refuses_file_in_place_of_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FileAccessError, match="is not a folder"):
        init(tmp_path / "file")


def test_nox_without_cuwheel_shows_how_to_get_it(tmp_path: Path) -> None:
    init(tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", _NO_CUWHEEL, str(tmp_path / "noxfile.py")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "`pipx inject nox ./cuwheel`" in done.stderr
