"""Recipes of a folder run only after its user has allowed it, once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from tests.support.machines.pythons import SAFE_PATH

Run = Callable[..., subprocess.CompletedProcess[str]]

# Answers a prompt with the first argument, and prints the exit code of the check.
AT_TERMINAL = """
import os, pty, sys
from cuwheel import entry
from cuwheel.base.errors import CuwheelError
process, terminal = pty.fork()
if not process:
    os.environ["CUWHEEL_ENTRY"] = "cuwheel"
    try:
        entry.check_trust("build")
    except CuwheelError as error:
        os._exit(error.exit_code)
    os._exit(0)
os.write(terminal, sys.argv[1].encode())
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"""
RECIPE = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\nRECIPE = 1\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed cuwheel: its package outside of the checkout."""
    site = tmp_path_factory.mktemp("site")
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "cuwheel", site / "cuwheel", ignore=compiled)
    shutil.copytree(ROOT / "envs", site / "cuwheel" / "envs")
    return site


@pytest.fixture
def project(tmp_path: Path) -> Path:
    recipes = tmp_path / "project" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "x.py").write_text(RECIPE)
    return recipes.parent


@pytest.fixture
def run(site: Path, project: Path, tmp_path: Path) -> Run:
    """Runner of `cuwheel …` as it is typed in the project."""
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith("CUWHEEL_")},
        "HOME": str(tmp_path / "home"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONPATH": str(site),
        "CUWHEEL_CACHE": str(tmp_path / "cache"),
    }

    def start(
        *arguments: str,
        cwd: Path = project,
        env: Mapping[str, str] | None = None,
        script: str = "",
        answer: str = "",
    ) -> subprocess.CompletedProcess[str]:
        command = ["-c", script, answer] if script else ["-m", "cuwheel.entry", *arguments]
        return subprocess.run(
            [sys.executable, SAFE_PATH, *command],
            cwd=cwd,
            env={**variables, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return start


def has_run(project: Path) -> bool:
    return (project / "recipes" / "ran").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        *((), ("help",), ("help", "--targets"), ("--version",), ("completion", "bash")),
        *(("explain", "/dev/null"), ("audit", "x.whl"), ("pick", "--help"), ("diagnose", "numpy")),
    ],
    ids=" ".join,
)
def test_runs_no_recipe_of_a_stranger(run: Run, project: Path, arguments: tuple[str, ...]) -> None:
    finished = run(*arguments)

    assert not has_run(project)
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("command", ["build", "lock", "matrix", "nightly", "release", "new"])
def test_refuses_commands_that_need_recipes(run: Run, project: Path, command: str) -> None:
    finished = run(command, "x-130")

    assert (finished.returncode, has_run(project)) == (2, False)
    assert f"cuwheel trust {project}" in finished.stderr


def test_runs_recipes_that_are_trusted_until_they_are_not(run: Run, project: Path) -> None:
    assert run("trust", str(project)).returncode == 0
    run("help")
    assert has_run(project)

    (project / "recipes" / "ran").unlink()
    assert run("trust", "--remove").returncode == 0
    run("help")
    assert not has_run(project)


def test_named_project_is_trusted(run: Run, project: Path) -> None:
    run("help", env={"CUWHEEL_PROJECT": str(project)})

    assert has_run(project)


def test_project_of_init_is_trusted(run: Run, tmp_path: Path) -> None:
    assert run("init", "own", cwd=tmp_path).returncode == 0

    assert "hello-cuda-130" in run("help", cwd=tmp_path / "own").stdout


def test_replaced_folder_is_not_trusted(run: Run, project: Path) -> None:
    run("trust")
    project.rename(project.with_name("away"))
    shutil.copytree(project.with_name("away"), project)

    run("help")

    assert not has_run(project)


def test_link_to_a_trusted_folder_counts_as_that_folder(run: Run, project: Path) -> None:
    run("trust")
    link = project.with_name("link")
    link.symlink_to(project)

    run("help", cwd=link)

    assert has_run(project)


def test_folder_that_everybody_can_write_is_never_trusted(run: Run, project: Path) -> None:
    run("trust")
    (project / "recipes").chmod(0o777)

    finished = run("trust")

    assert (finished.returncode, "chmod o-w" in finished.stderr) == (2, True)
    run("help")
    assert not has_run(project)


def test_fix_names_variable_that_moves_the_list(run: Run, project: Path, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    refused = run("trust")
    variable = re.search(r"XDG_\w+", refused.stderr)

    assert refused.returncode == 121
    assert variable
    moved = {variable[0]: str(tmp_path / "other")}
    assert run("trust", env=moved).returncode == 0
    run("help", env=moved)
    assert has_run(project)


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"x": 1}', "\x00"])
def test_damaged_list_trusts_nothing(run: Run, project: Path, tmp_path: Path, content: str) -> None:
    path = tmp_path / "state" / "cuwheel" / "trusted-projects.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)

    assert run("build", "x-130").returncode == 2
    assert not has_run(project)


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("\n", 2)])
def test_prompts_once_at_a_terminal(run: Run, answer: str, status: int) -> None:
    first = run(script=AT_TERMINAL, answer=answer)
    second = run(script=AT_TERMINAL, answer="\n")

    assert (first.stdout, second.stdout) == (f"{status}\n", f"{status}\n")
