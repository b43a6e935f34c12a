"""The lines that `pick` prints, typed: real pip and uv, a real server that counts."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cuwheel.base.system import process
from cuwheel.check.audit import remote
from cuwheel.check.pick.document import PickDocument
from cuwheel.check.pick.pick import PickOptions, find
from tests.support.check.offers import PAYLOAD, Index
from tests.support.servers.http import Site, serving

pytestmark = pytest.mark.e2e


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(remote, "MOST", PAYLOAD // 16)  # these wheels stand for large ones
    with serving(Site()) as site:
        yield Index(folder=tmp_path, site=site)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with pip."""
    folder = tmp_path_factory.mktemp("picked") / "env"
    words = (sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update", folder)
    subprocess.run(words, check=True)
    return folder


def pick(index: Index, environment: Path) -> PickDocument:
    asked = PickOptions(
        wanted=Requirement("toy"),
        python=str(environment),
        indexes=(index.site.url("/simple/"),),
        start=Path("/"),
    )
    return find(asked, dict(os.environ))


def run(line: str, environment: Path) -> process.Finished:
    uv = Path(sys.executable).parent
    variables = {
        "PATH": f"{uv}{os.pathsep}{os.defpath}",
        "HOME": str(environment.parent),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_NO_CACHE_DIR": "1",
        "UV_NO_CACHE": "1",
        "NO_PROXY": "127.0.0.1",
    }
    return process.run(shlex.split(line), env=variables, check=False)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_line_installs_the_wheel(installer: str, index: Index, environment: Path) -> None:
    index.add("1.0+cu130", "py3-none-any")
    index.add("2.0+cu130", "cp38-cp38-win_amd64")

    report = pick(index, environment)
    read = sum(size for _, size in index.downloads())
    done = run(report.commands[installer], environment)

    assert read < PAYLOAD / 4
    assert done.status == 0, done.output
    [installed] = environment.glob("lib/python*/site-packages/toy-*.dist-info")
    assert installed.name == "toy-1.0+cu130.dist-info"
    run(f"uv pip uninstall --python {environment}/bin/python toy", environment)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_line_refuses_other_bytes(installer: str, index: Index, environment: Path) -> None:
    wheel = index.add("1.0+cu130", "py3-none-any")
    report = pick(index, environment)
    index.site.files[f"/files/{wheel.name}"] = wheel.read_bytes().replace(bytes(8), b"tampered", 1)

    done = run(report.commands[installer], environment)

    assert done.status != 0
    assert not [*environment.glob("lib/python*/site-packages/toy-*.dist-info")]
