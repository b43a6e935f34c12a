"""Environments of interpreters, damaged ones too, and the choice of one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cuwheel.base.errors import InterpreterNotFoundError
from cuwheel.check.diagnose.facts import environment, imports
from cuwheel.check.diagnose.facts.environment import (
    ChosenPython,
    find_environment,
    read_environment,
)
from cuwheel.check.diagnose.rules.elsewhere import judge_active, judge_kernels
from tests.support.check.environments import Env, look_into, verdict_on
from tests.support.machines.pythons import find_release
from tests.support.requirements import lack


def test_reads_files_of_torch_that_hangs(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "IMPORT_TIME_LIMIT", 1.0)
    env.install_torch(more="import time; time.sleep(1000)")

    report = look_into(env)

    assert "no answer within 2 s" in verdict_on(report, "diagnose-not-asked").cause
    assert report.environment.frameworks[0].cuda == "13.0"


@pytest.mark.parametrize("release", ["2.7", "3.6", "3.7"])
def test_refuses_an_old_python(release: str) -> None:
    python = find_release(release)
    if python is None:
        lack("old-python", f"this machine has no Python {release}", "what diagnose says of it")

    with pytest.raises(InterpreterNotFoundError, match=r"older than 3\.8"):
        environment.read_environment(python, {"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("name", ["METADATA", "RECORD"])
def test_waits_at_no_fifo_in_metadata(env: Env, name: str) -> None:
    metadata = env.site / "odd-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (metadata / name).unlink(missing_ok=True)
    os.mkfifo(metadata / name)

    verdict = verdict_on(look_into(env), "diagnose-damaged-installation")

    assert f"{name} is not a regular file" in verdict.cause


def test_goes_on_past_damaged_metadata(env: Env) -> None:
    (env.site / "broken-1.0.dist-info").mkdir()
    (env.site / "odd-1.0.dist-info").mkdir()
    (env.site / "odd-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\0Name")
    env.install_torch()

    report = look_into(env)

    damaged = "diagnose-damaged-installation"
    verdicts = [verdict for verdict in report.verdicts if verdict.anchor == damaged]
    names = sorted(verdict.what.partition(" ")[0] for verdict in verdicts)
    assert names == ["broken-1.0.dist-info", "odd-1.0.dist-info"]
    assert report.environment.frameworks[0].was_imported


@pytest.mark.parametrize(("file", "is_read"), [("METADATA", False), ("RECORD", True)])
def test_goes_on_past_file_that_a_power_failure_has_zeroed(
    env: Env, file: str, *, is_read: bool
) -> None:
    env.install_torch()
    env.install("ext", {"ext/libext.so": env.extension("")})
    zeroed = env.site / "ext-1.2.3.dist-info" / file
    zeroed.write_bytes(b"\0" * 200 + b"\next/lib\0.so,,\n")

    report = look_into(env)

    assert verdict_on(report, "diagnose-damaged-installation").what.startswith("ext-1.2.3.dist-inf")
    assert "diagnose-not-asked" not in {verdict.anchor for verdict in report.verdicts}
    assert report.environment.frameworks[0].was_imported
    installed = environment.read_environment(env.python, {"PATH": "/usr/bin:/bin"}).distributions
    assert ("ext" in installed) is is_read


@pytest.mark.parametrize("name", ["ls", "cat", "true"])
def test_refuses_program_that_is_no_python(name: str) -> None:
    path = shutil.which(name)
    assert path

    with pytest.raises(InterpreterNotFoundError, match=f"{name} can't be examined") as caught:
        environment.read_environment(Path(path), os.environ)

    assert "environment.py" not in caught.value.why


def make_python(folder: Path) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("option", ["env", "env/bin/python", "{}/env"])
def test_takes_path(tmp_path: Path, option: str) -> None:
    python = make_python(tmp_path / "env")

    assert find_environment(option.format(tmp_path), {}, tmp_path).path == python


@pytest.mark.parametrize("active", ["conda/envs/other", "conda"])
def test_takes_conda_environment_by_name(tmp_path: Path, active: str) -> None:
    python = make_python(tmp_path / "conda" / "envs" / "mine")

    chosen = find_environment("mine", {"CONDA_PREFIX": str(tmp_path / active)}, tmp_path)

    assert (chosen.path, chosen.how) == (python, "the conda environment mine")


def test_takes_environment_of_condas_list(tmp_path: Path) -> None:
    python = make_python(tmp_path / "far" / "mine")
    listed = tmp_path / "home" / ".conda" / "environments.txt"
    listed.parent.mkdir(parents=True)
    listed.write_text(f"{tmp_path / 'far' / 'mine'}\n")

    chosen = find_environment("mine", {"HOME": str(tmp_path / "home")}, tmp_path)

    assert chosen.path == python


@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_takes_active_environment(tmp_path: Path, name: str) -> None:
    python = make_python(tmp_path / "env")

    chosen = find_environment(None, {name: str(tmp_path / "env")}, tmp_path)

    assert (chosen.path, chosen.how) == (python, f"${name}")


def test_takes_python_on_path(tmp_path: Path) -> None:
    chosen = find_environment(None, {"PATH": "/usr/bin:/bin"}, tmp_path)

    assert (chosen.path, chosen.how) == (Path("/usr/bin/python3"), "python3 on PATH")


def test_takes_python_that_runs(tmp_path: Path) -> None:
    """A shim of pyenv whose release isn't active comes first on PATH, and runs nothing."""
    shim = make_python(tmp_path / "shims").rename(tmp_path / "shims" / "bin" / "python3")
    shim.write_text("#!/bin/sh\nexit 127\n")
    python = make_python(tmp_path / "other")
    path = f"{shim.parent}:{python.parent}"

    assert find_environment(None, {"PATH": path}, tmp_path).path == python
    assert find_environment("python3", {"PATH": path}, tmp_path).path == shim


@pytest.mark.parametrize(
    ("option", "environ", "fault"),
    [
        (None, {"PATH": "{}"}, "no python3 on PATH"),
        (None, {"VIRTUAL_ENV": "{}/gone"}, "{}/gone does not exist"),
        ("env", {}, "no longer exists"),
        ("min", {"CONDA_PREFIX": "{}/conda"}, "(found: mine)"),
    ],
)
def test_explains_why_there_is_none(
    tmp_path: Path, option: str | None, environ: dict[str, str], fault: str
) -> None:
    make_python(tmp_path / "conda" / "envs" / "mine")
    deleted = make_python(tmp_path / "env")
    deleted.unlink()
    deleted.symlink_to(tmp_path / "gone")
    variables = {name: value.format(tmp_path) for name, value in environ.items()}

    chosen = find_environment(option, variables, tmp_path)

    assert chosen.path is None
    assert fault.format(tmp_path) in chosen.fault


@pytest.mark.parametrize("is_same", [True, False])
def test_names_python_that_hides_the_active_environment(env: Env, *, is_same: bool) -> None:
    folder = env.python.parent
    path = f"{folder}:/usr/bin:/bin" if is_same else "/usr/bin:/bin"
    chosen = ChosenPython(path=env.python, how="$VIRTUAL_ENV")
    environ = {"PATH": path}

    found = list(judge_active(chosen, read_environment(env.python, environ), environ))

    assert [one.command for one in found] == [f". {folder}/activate"] * (not is_same)


@pytest.mark.parametrize(
    ("place", "name", "program", "count"),
    [
        ("venv", "python3", "/usr/bin/python3", 1),
        ("venv", "other", "/usr/bin/python3", 0),
        ("venv", "python3", "python", 0),
        ("venv", "python3", "{own}", 0),
        ("home/.local", "other", "/usr/bin/python3", 0),
        ("home/.local", "other", "/gone/bin/python", 1),
        ("home/.local", "venv", "/usr/bin/python3", 1),
        ("home/.local", "python3", "/usr/bin/python3", 1),
    ],
)
def test_names_kernel_of_another_python(
    env: Env, place: str, name: str, program: str, count: int
) -> None:
    env.install("ipykernel")
    folder = env.folder / place / "share/jupyter/kernels" / name
    folder.mkdir(parents=True)
    words = [program.format(own=env.python), "-m", "ipykernel_launcher"]
    (folder / "kernel.json").write_text(json.dumps({"argv": words}))
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(env.folder / "home")}

    found = list(judge_kernels(read_environment(env.python, environ), environ))

    assert len(found) == count
    is_other = name == "other"
    assert all(one.command == f"rm -r {folder}" for one in found if is_other)
    assert all(f"--name {name}" in one.command for one in found if not is_other)
