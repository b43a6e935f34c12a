"""A build takes nothing from a hostile caller on a hostile machine.

One build by setuptools reports all that it sees. One by CMake gives the same bytes as usual.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.system.files import sha256_of_file
from tests.support.engine import PACKAGES, Engine, Outcome, make_engine
from tests.support.requirements import require

# Facts that setup.py prints first, and a change of its own environment.
_REPORT = """
import json, os, socket
mask = os.umask(0o022)
os.umask(mask)
reached = socket.socket().connect_ex(("127.0.0.1", {port})) == 0
print("FACTS", json.dumps(dict(env=dict(os.environ), mask=mask, reached=reached)))
os.environ["NVCC_APPEND_FLAGS"] = "-lineinfo"
"""
_PROGRAMS = ("cicc", "g++", "gcc", "ld", "nvcc", "patchelf", "ptxas", "python3", "strip")


@dataclass(frozen=True, kw_only=True)
class HostileBuild:
    """A build by setuptools, and the facts that its setup.py printed."""

    done: Outcome
    facts: Mapping[str, Any]


def write_programs(folder: Path) -> Path:
    """Write a toolkit and compilers that fail, and leave a file `used-…` next to `bin`."""
    home = folder / "cuda"
    (home / "bin").mkdir(parents=True)
    for name in _PROGRAMS:
        program = home / "bin" / name
        program.write_text(
            f'#!/bin/sh\ntouch "{home}/used-{name}"\n'
            'echo "Cuda compilation tools, release 12.0, V12.0.76"\nexit 1\n'
        )
        program.chmod(0o755)
    return home


def variables_of(home: Path) -> dict[str, str]:
    """Return the variables of a caller who wants these programs to be used."""
    return {
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "CUDA_HOME": str(home),
        "CUDA_PATH": str(home),
        "CUDACXX": f"{home}/bin/nvcc",
        "NVCC_PREPEND_FLAGS": "--no-such-option",
        "NVCC_APPEND_FLAGS": "--no-such-option",
        "CFLAGS": "-O0",
        "TZ": "Asia/Tokyo",
        "CALLER_SECRET": "s3cret",
    }


@pytest.fixture(scope="module")
def home(module_path: Path) -> Path:
    return write_programs(module_path)


@pytest.fixture(scope="module")
def hostile_build(module_path: Path, home: Path, project: Path, shared_cache: Path) -> HostileBuild:
    """A build of tiny-capi; a server listens on loopback meanwhile."""
    tree = module_path / "tiny_capi"
    shutil.copytree(PACKAGES / "tiny_capi", tree)
    (tree / "build.py").write_text("raise SystemExit('the package was taken for the frontend')\n")
    engine = make_engine(module_path, project, shared_cache)
    with socket.create_server(("127.0.0.1", 0)) as server:
        setup = tree / "setup.py"
        setup.write_text(_REPORT.format(port=server.getsockname()[1]) + setup.read_text())
        done = engine.build("tiny-capi", "--source", str(tree), **variables_of(home))
    assert done.status == 0, done.output
    [log] = engine.work.glob("*/logs/build.log")
    lines = {line for line in log.read_text().splitlines() if line.startswith("FACTS ")}
    [facts] = {line.partition(" ")[2] for line in lines}
    return HostileBuild(done=done, facts=json.loads(facts))


@pytest.mark.e2e
def test_caller_sets_nothing(hostile_build: HostileBuild, home: Path) -> None:
    env = hostile_build.facts["env"]

    assert "CALLER_SECRET" not in env
    assert env["CFLAGS"].startswith("-O2 ")
    assert (env["TZ"], env["LC_ALL"]) == ("UTC", "C.UTF-8")
    assert [name for name, value in env.items() if str(home) in value] == []
    assert [name for name, value in env.items() if "--no-such-option" in value] == []
    assert hostile_build.facts["mask"] == 0o022
    output = " ".join(hostile_build.done.output.split())
    assert output.count("the package passes -lineinfo to nvcc, which was removed") == 1


@pytest.mark.e2e
def test_reaches_no_network(hostile_build: HostileBuild) -> None:
    require("sandbox", "that a build reaches no network")

    assert hostile_build.facts["reached"] is False


@pytest.mark.e2e
@pytest.mark.usefixtures("hostile_build")
def test_uses_no_program_of_the_caller(home: Path) -> None:
    assert list(home.glob("used-*")) == []


@pytest.mark.e2e
def test_cmake_gives_the_same_bytes_behind_a_link(
    built: Callable[[str], Engine], engine: Engine, tmp_path: Path
) -> None:
    """CMake looks for a toolkit itself, and resolves folders."""
    home = write_programs(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    behind = dataclasses.replace(engine, work=tmp_path / "link" / ".." / "link" / "work")

    done = behind.build("tiny-skbuild", **variables_of(home))

    assert done.status == 0, done.output
    assert list(home.glob("used-*")) == []
    [wheel], [usual] = behind.wheels(), built("tiny-skbuild").wheels()
    assert sha256_of_file(wheel) == sha256_of_file(usual)
