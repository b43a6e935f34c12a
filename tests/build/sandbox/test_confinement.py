"""What a program of a Python environment sees: both kinds of sandbox, and none."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.build.sandbox.mounts import gpu_mounts
from tests.build.sandbox.test_backends import PARTS
from tests.support.requirements import require

_ENVIRON = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(params=["bubblewrap", "unshare"])
def confinement(request: pytest.FixtureRequest, tmp_path: Path) -> Confinement:
    require(PARTS[request.param], "that a program sees no more than it was given")
    environment = tmp_path / "environment"
    for name in ("shown", "covered"):
        (environment / name).mkdir(parents=True)
        (environment / name / "file").write_text(f"{name}\n")
    (tmp_path / "given").write_text("given\n")
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "decoy").write_text("decoy\n")
    return Confinement(
        sandbox=choose_sandbox(request.param),
        environment=environment,
        base=Path(sys.executable).resolve(),
        folder=tmp_path / "own",
        read=(tmp_path / "given",),
        covered=(environment / "covered", environment / "shown" / "file", Path("/lost/cuda")),
        decoy=tmp_path / "decoy",
    )


def output(confinement: Confinement, script: str) -> str:
    return run(confinement.command(["sh", "-c", script]), env=_ENVIRON, check=False).output


def test_shows_only_what_is_given(confinement: Confinement) -> None:
    top = confinement.folder.parent

    assert output(confinement, f"ls {top}; cat {top}/given; ls -d /lost; pwd").split("\n")[:-1] == [
        "environment",
        "given",
        "own",
        "given",
        "ls: cannot access '/lost': No such file or directory",
        str(confinement.folder),
    ]


def test_covers_files_and_folders(confinement: Confinement) -> None:
    environment = confinement.environment

    assert (
        output(confinement, f"ls {environment}/covered; cat {environment}/shown/file") == "decoy\n"
    )


def test_writes_only_into_its_folder(confinement: Confinement) -> None:
    environment = confinement.environment

    refused = output(confinement, f"echo x > {environment}/new; echo x > /tmp/x; echo x > y")

    assert "Read-only file system" in refused
    written = confinement.folder
    # Below /tmp there may be places where something is shown, which are empty.
    files = [path for path in written.rglob("*") if path.is_file() and path.stat().st_size]
    assert sorted(path.relative_to(written).as_posix() for path in files) == ["tmp/x", "y"]
    confinement.empty()
    assert not written.exists()


def test_runs_the_environments_base(confinement: Confinement) -> None:
    assert confinement.base
    words: list[str | Path] = [
        confinement.base,
        "-I",
        "-c",
        "import ctypes, json; print(json.dumps(1))",
    ]

    assert run(confinement.command(words), env=_ENVIRON).output == "1\n"


def test_has_gpus_only_where_they_are_given(
    confinement: Confinement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another device of the machine replaces a GPU's: few machines have one."""
    monkeypatch.setattr("cuwheel.build.sandbox.mounts._GPU_DEVICES", ("loop-control", "hwrng"))
    devices = gpu_mounts()

    without = output(confinement, "ls /dev").split()
    with_gpu = output(dataclasses.replace(confinement, has_gpu=True), "ls /dev").split()

    assert {mount.target.name for mount in devices} == set(with_gpu) - set(without)


def test_changes_nothing_without_a_sandbox(tmp_path: Path) -> None:
    written = Confinement(
        sandbox="none", environment=tmp_path, base=Path(sys.executable), folder=tmp_path / "own"
    )

    assert written.command(["true"]) == ["true"]
    assert [path.name for path in written.folder.iterdir()] == ["tmp"]
