"""A release in a process of its own, with the locked twine: to pypiserver, and into pip and uv."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from tests.support.documents import read_document
from tests.support.publish.releases import Project
from tests.support.servers.packages import serving_packages

pytestmark = pytest.mark.e2e

SECRET = "not-to-be-seen"  # a password


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(folder=tmp_path)
    made.add("1.0+cu130")
    made.add("2.0+cu130")
    return made


def install(name: str, address: str, target: Path) -> str:
    """What an installer gives from the index; its words where it failed."""
    uv: list[str | Path] = [Path(sys.executable).with_name("uv"), "pip", "install", "--no-cache"]
    programs: dict[str, list[str | Path]] = {
        "pip": [sys.executable, "-m", "pip", "install", "--no-cache-dir"],
        "uv": [*uv, "--no-config", "--python", sys.executable],
    }
    done = process.run(
        [*programs[name], "--target", target, "--index-url", f"{address}/simple/", "toy"],
        env={"PATH": os.defpath, "HOME": str(target.parent), "PIP_CONFIG_FILE": os.devnull},
        check=False,
    )
    installed = target / "toy.py"
    return installed.read_text() if installed.is_file() else done.output


def test_release_is_uploaded_and_installed(project: Project, tmp_path: Path) -> None:
    folders = ("--dist", project.dist, "--to", project.site, "--work", tmp_path / "work")
    command = (sys.executable, "-m", "cuwheel", "release", *folders)
    with serving_packages(tmp_path / "packages") as address:
        done = process.run(
            [*command, "--publish", "--json", "--upload", address],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "NO_PROXY": "127.0.0.1",
                "TWINE_USERNAME": "me",
                "TWINE_PASSWORD": SECRET,
            },
            error_log=tmp_path / "stderr",
        )
        said = [install(name, address, tmp_path / name) for name in ("pip", "uv")]

    found = read_document(done.output, "release")
    assert found["missing"] == [path.name for path in sorted(project.dist.glob("*.whl"))]
    assert ["2.0+cu130" in one for one in said] == [True, True], said
    log = (tmp_path / "work" / "release" / "upload.log").read_text()
    assert "Uploading toy-1.0+cu130" in log
    assert SECRET not in log + (tmp_path / "stderr").read_text() + done.output
