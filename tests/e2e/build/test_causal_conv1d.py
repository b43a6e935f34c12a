"""The main job as a user does it: clean clone, nox, one real package, its wheel from the index."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

SESSION = "build-causal-conv1d-130"
ONE_ARCH = ("--arch", "90")  # a quarter of the recipe's list: minutes, not a quarter of an hour


@pytest.fixture(scope="module")
def clone(module_path: Path, shared_cache: Path) -> Path:
    """A clean clone in which the wheel was built for one arch."""
    folder = module_path / "cuwheel"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    done = _nox(folder, shared_cache, "-s", SESSION, "--", *ONE_ARCH)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture(scope="module")
def wheel(clone: Path) -> Path:
    [found] = (clone / "dist").glob("*.whl")
    return found


@pytest.fixture
def index(clone: Path, wheel: Path, shared_cache: Path) -> Iterator[str]:
    """What the clone publishes, over loopback HTTP, as README says."""
    done = _nox(clone, shared_cache, "-s", "index", "--", "--to", "public")
    assert f"{wheel.parent.parent}/public: 1 wheel" in done.stdout, done.stdout
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(clone / "public"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


def test_wheel_is_named_by_target(wheel: Path) -> None:
    here = f"cp3{sys.version_info.minor}"

    assert re.fullmatch(
        rf"causal_conv1d-1\.6\.1\+cu130torch2\.11-{here}-{here}-manylinux_2_\d+_x86_64\.whl",
        wheel.name,
    )


def test_provenance_names_every_material(wheel: Path) -> None:
    statement = json.loads(wheel.with_name(f"{wheel.name}.provenance.json").read_text())

    materials = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    names = " ".join(material["name"] for material in materials)
    wanted = ("source", "0001-take-archs", "lock cuda130", "CUDA toolchain", "package torch")
    assert [name for name in wanted if name not in names] == []


def test_second_run_does_nothing(clone: Path, wheel: Path, shared_cache: Path) -> None:
    before = wheel.stat().st_mtime_ns

    done = _nox(clone, shared_cache, "-s", SESSION, "--", *ONE_ARCH)

    assert "up to date" in done.stdout
    assert wheel.stat().st_mtime_ns == before


def test_libraries_come_from_site_packages(clone: Path) -> None:
    [smoke] = (clone / "work").glob("*/stages/smoke.json")

    libraries = dict(json.loads(smoke.read_text())["libraries"])

    assert libraries["libcudart.so.13"] == "nvidia/cu13/lib/libcudart.so.13"
    assert libraries["libc10_cuda.so"] == "torch/lib/libc10_cuda.so"


def test_smoke_session_runs_on_published_wheel(clone: Path, shared_cache: Path) -> None:
    target = SESSION.removeprefix("build-")

    done = _nox(clone, shared_cache, "-s", "smoke", "--", target, *ONE_ARCH)

    assert done.returncode == 0, done.stdout


def test_pip_takes_wheel_from_index(index: str, wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "virtualenv", "-q", str(tmp_path / "venv")]
    subprocess.run(pip, check=True)
    requirements = tmp_path / "requirements.txt"
    version = wheel.name.split("-")[1]
    digest = sha256_of_file(wheel)
    requirements.write_text(f"causal-conv1d=={version} --hash=sha256:{digest}\n")

    done = subprocess.run(
        [
            tmp_path / "venv/bin/pip",
            "install",
            "--index-url",
            index,
            "--no-deps",
            "-r",
            requirements,
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    installed = tmp_path.glob(f"venv/lib/python3*/site-packages/causal_conv1d-{version}.dist-info")
    assert len(list(installed)) == 1


def _nox(folder: Path, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    nox = shutil.which("nox", path=str(os.path.dirname(sys.executable))) or "nox"  # noqa: PTH120
    environment = {**os.environ, "CUWHEEL_CACHE": str(cache), "COLUMNS": "200"}
    environment.pop("CUWHEEL_PROJECT", None)
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [nox, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
