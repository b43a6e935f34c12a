from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.diagnose.facts.python_choice import find_environment


def make_environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("asked", ["env", "env/bin/python", "{}/env"])
def test_takes_path(tmp_path: Path, asked: str) -> None:
    python = make_environment(tmp_path / "env")

    assert find_environment(asked.format(tmp_path), {}, tmp_path).path == python


def test_takes_conda_environment_beside_active_one(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "conda" / "envs" / "mine")
    active = tmp_path / "conda" / "envs" / "other"

    found = find_environment("mine", {"CONDA_PREFIX": str(active)}, tmp_path)

    assert (found.path, found.how) == (python, "the conda environment mine")


def test_takes_conda_environment_of_base(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "conda" / "envs" / "mine")

    found = find_environment("mine", {"CONDA_PREFIX": str(tmp_path / "conda")}, tmp_path)

    assert found.path == python


def test_takes_conda_environment_that_conda_noted(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "far" / "mine")
    noted = tmp_path / "home" / ".conda" / "environments.txt"
    noted.parent.mkdir(parents=True)
    noted.write_text(f"{tmp_path / 'far' / 'mine'}\n")

    found = find_environment("mine", {"HOME": str(tmp_path / "home")}, tmp_path)

    assert found.path == python


@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_takes_active_environment(tmp_path: Path, name: str) -> None:
    python = make_environment(tmp_path / "env")

    found = find_environment(None, {name: str(tmp_path / "env")}, tmp_path)

    assert (found.path, found.how) == (python, f"${name}")


def test_takes_python_on_path(tmp_path: Path) -> None:
    found = find_environment(None, {"PATH": "/usr/bin:/bin"}, tmp_path)

    assert (found.path, found.how) == (Path("/usr/bin/python3"), "python3 on PATH")


def test_says_that_nothing_is_there(tmp_path: Path) -> None:
    found = find_environment(None, {"PATH": str(tmp_path)}, tmp_path)

    assert found.path is None
    assert "no python3 on PATH" in found.fault


def test_says_which_names_there_are(tmp_path: Path) -> None:
    make_environment(tmp_path / "conda" / "envs" / "mine")

    found = find_environment("min", {"CONDA_PREFIX": str(tmp_path / "conda")}, tmp_path)

    assert "a conda environment (found: mine)" in found.fault


@pytest.mark.parametrize("name", ["VIRTUAL_ENV"])
def test_names_environment_that_was_deleted(tmp_path: Path, name: str) -> None:
    found = find_environment(None, {name: str(tmp_path / "gone")}, tmp_path)

    assert found.fault == f"the folder {tmp_path / 'gone'} does not exist"


def test_names_environment_whose_python_was_deleted(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    python.unlink()
    python.symlink_to(tmp_path / "gone")

    found = find_environment("env", {}, tmp_path)

    assert "no longer exists" in found.fault
