from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.recipe.platform import AARCH64
from cuwheel.build.toolchains.cross.packages import foreign_packages
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.build.workspace.job import Job
from tests.support.factories import make_job, make_target, make_workspace, write_wheel


def lock_of(folder: Path, monkeypatch: pytest.MonkeyPatch, *machines: str) -> Path:
    """A lock of a package that an index has wheels of, each with its machine's name inside."""
    dist = folder / "index"
    wheels = [
        write_wheel(
            dist,
            {"toy.py": machine.encode()},
            name="toy",
            version="1.0",
            tag=f"py3-none-manylinux_2_28_{machine}",
        )
        for machine in machines
    ]
    monkeypatch.setenv("UV_DEFAULT_INDEX", write_index(dist).as_uri())
    lock = folder / "toy.lock"
    hashes = " ".join(f"--hash=sha256:{sha256_of_file(path)}" for path in wheels)
    lock.write_text(f"toy==1.0 {hashes}\n")
    return lock


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_job(make_target(platform=AARCH64), make_workspace(tmp_path))


def test_takes_wheels_of_the_other_machine(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = lock_of(tmp_path, monkeypatch, "x86_64", "aarch64")

    folder = foreign_packages(job, lock)

    assert (folder / "toy.py").read_text() == "aarch64"
    assert folder.name.startswith("aarch64-cp")


def test_makes_them_once(tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = lock_of(tmp_path, monkeypatch, "aarch64")
    packages = foreign_packages(job, lock)
    before = (packages / "toy.py").stat().st_ctime_ns

    assert foreign_packages(job, lock) == packages
    assert (packages / "toy.py").stat().st_ctime_ns == before


def test_names_package_without_wheel_for_it(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = lock_of(tmp_path, monkeypatch, "x86_64")

    with pytest.raises(InstallError) as caught:
        foreign_packages(job, lock)

    message = f"{caught.value.what} {caught.value.why}"
    assert "toy" in message
    assert "aarch64" in message
