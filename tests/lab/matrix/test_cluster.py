"""Twelve cells on a real Slurm of two nodes, with a killed job and a drained node."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from tests.support.engine import PACKAGES, TIME_LIMIT, Engine, make_engine
from tests.support.lab.matrices import OWN_PYTHON, matrix_engine
from tests.support.machines.slurm import slurm_cluster
from tests.support.packages.foreign_platform import debian_root
from tests.support.requirements import require

pytestmark = pytest.mark.e2e

_CELLS = 12


@pytest.fixture
def engine(tmp_path: Path, shared_cache: Path, project: Path) -> Engine:
    """The engine with a project of twelve packages."""
    copy = tmp_path / "project"
    shutil.copytree(project, copy)
    recipe = (copy / "recipes" / "tiny_capi.py").read_text()
    lock = (copy / "envs" / "build" / "tiny_capi.lock").read_text()
    shutil.rmtree(copy / "recipes")
    (copy / "recipes").mkdir()
    for number in range(_CELLS):
        name = f"tiny_cell{number}"
        _copy_package(copy / "packages" / name, name)
        text = re.sub(r"Archive\(.*?\),\n", f'Folder(path="packages/{name}"),\n', recipe)
        (copy / "recipes" / f"{name}.py").write_text(
            _renamed(text.replace("Archive", "Folder"), name)
        )
        (copy / "envs" / "build" / f"{name}.lock").write_text(_renamed(lock, name))
    return make_engine(tmp_path, copy, shared_cache)


def _copy_package(folder: Path, name: str) -> None:
    shutil.copytree(PACKAGES / "tiny_capi", folder)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.write_text(_renamed(path.read_text(), name))
    (folder / "src" / "tiny_capi").rename(folder / "src" / name)


def _renamed(text: str, name: str) -> str:
    return text.replace("tiny_capi", name).replace("tiny-capi", name.replace("_", "-"))


def test_killed_job_and_drained_node_lose_nothing(engine: Engine, module_path: Path) -> None:
    with slurm_cluster(module_path) as cluster:
        options = ["--executor", "slurm", "--cores", "1", "--time-limit", "10"]
        options += ["--only", "tiny-cell*"]
        folders = ["--work", str(engine.work), "--dist", str(engine.dist)]
        command = [str(engine.python), "-m", "cuwheel", "matrix", "build", "--python", OWN_PYTHON]
        with subprocess.Popen(
            [*command, *options, *folders],
            env={**engine.environment(), "SLURM_CONF": cluster.environment["SLURM_CONF"]},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as child:
            _wait(lambda: len(engine.wheels()) >= 1, child)
            running = cluster.ask("squeue", "--noheader", "--states=R", "--format=%i").split()
            cluster.ask("scancel", "--signal=KILL", "--full", running[0])
            cluster.ask("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
            output, _ = child.communicate(timeout=TIME_LIMIT)

    assert child.returncode == 0, output
    assert f"{_CELLS} cells: {_CELLS} built" in output
    assert "was lost" in output  # the killed one, which was submitted again
    assert len(engine.wheels()) == _CELLS
    logs = [path.read_text() for path in (engine.dist / ".cuwheel").glob("*.log")]
    begun = sorted(len(re.findall(r"^build *$", log, re.MULTILINE)) for log in logs)
    assert begun[:-1] == [1] * (_CELLS - 1)  # none twice
    assert begun[-1] <= 2


def test_builds_for_two_kinds_of_machine(
    tmp_path: Path, project: Path, shared_cache: Path, module_path: Path
) -> None:
    for part in ("cross-gcc", "qemu"):
        require(part, "that nodes build for arm64")
    root = debian_root(shared_cache)
    engine = matrix_engine(tmp_path, project, shared_cache)
    folder = module_path / "two-kinds"
    folder.mkdir()
    with slurm_cluster(folder) as cluster:
        options = ["build", "--executor", "slurm", "--cores", "1", "--time-limit", "30"]
        options += ["--python", root.release]
        options += ["--platform", "linux_x86_64", "--platform", "linux_aarch64"]
        options += ["--target-root", str(root.folder), "--only", "tiny-capi-*"]
        folders = ["--work", str(engine.work), "--dist", str(engine.dist)]
        done = subprocess.run(
            [str(engine.python), "-m", "cuwheel", "matrix", *options, *folders],
            env={**engine.environment(), "SLURM_CONF": cluster.environment["SLURM_CONF"]},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stdout
    assert "2 cells: 2 built" in done.stdout
    ends = ("_x86_64.whl", "_aarch64.whl")
    assert all(sum(wheel.name.endswith(end) for wheel in engine.wheels()) == 1 for end in ends)


def test_shards_of_a_cell_are_jobs_before_its_own(
    tmp_path: Path, project: Path, shared_cache: Path, module_path: Path
) -> None:
    engine = matrix_engine(tmp_path, project, shared_cache)
    folder = module_path / "shards"
    folder.mkdir()
    with slurm_cluster(folder) as cluster:
        options = ["build", "--executor", "slurm", "--cores", "1", "--time-limit", "30"]
        options += ["--shards", "2", "--python", OWN_PYTHON, "--only", "tiny-capi-*"]
        folders = ["--work", str(engine.work), "--dist", str(engine.dist)]
        done = subprocess.run(
            [str(engine.python), "-m", "cuwheel", "matrix", *options, *folders],
            env={
                **engine.environment(),
                "SLURM_CONF": cluster.environment["SLURM_CONF"],
                "CUWHEEL_COMPILE_CACHE": str(tmp_path / "compiles"),
            },
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stdout
    assert len(re.findall(r"shard-[12]-of-2: ended on node[12]", done.stdout)) == 2
    assert "2 of 2 compiles were in it" in done.stdout
    [log] = (engine.dist / ".cuwheel").glob("*-cp3??.log")
    assert "all 2 shards of the plan" in log.read_text()
    assert {path.parent.name for path in engine.work.glob("*shard*/*/shard.log")} == {"logs"}
    assert not [*engine.work.glob("*shard*/tree")]


def _wait(is_so: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + TIME_LIMIT
    while not is_so():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
