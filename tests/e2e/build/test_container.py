"""A package with a CUDA kernel, built in an image of Debian that debootstrap makes."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import EXIT_CODES
from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from tests.support.engine import PACKAGES, Engine, make_engine
from tests.support.lab.matrices import BROKEN, kernel_of, matrix_engine
from tests.support.machines.containers import Podman, debian_image, make_podman
from tests.support.machines.slurm import slurm_cluster
from tests.support.requirements import require
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

_CALLS_OUT = """
import socket
socket.create_connection(("192.0.2.1", 80), 5)
"""
_WAITS = """
import pathlib, time
pathlib.Path("{started}").touch()
time.sleep(300)
"""


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    require("podman", "that builds run in containers")
    made = make_podman(tmp_path_factory.mktemp("podman"))
    yield made
    made.reset()


@pytest.fixture(scope="module")
def image(podman: Podman, shared_cache: Path) -> str:
    return debian_image(podman, shared_cache)


@pytest.fixture(scope="module")
def inside(
    podman: Podman,
    image: str,
    project: Path,
    shared_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Engine:
    """The engine outside, whose builds run in the image; the Python is Debian's."""
    made = make_engine(tmp_path_factory.mktemp("inside"), project, shared_cache)
    variables = {**podman.variables, "IMAGE": image}
    return dataclasses.replace(made, variables=variables)


def build(engine: Engine, *options: str) -> tuple[int, str]:
    image = engine.variables["IMAGE"]
    done = engine.build("tiny-capi", "--container", image, "--python", "3.11", *options)
    return done.status, done.output


@pytest.fixture(scope="module")
def built(inside: Engine) -> Engine:
    status, output = build(inside)
    assert status == 0, output
    return inside


def changed(folder: Path, beginning: str) -> Path:
    """The source of tiny-capi with something at the beginning of its setup.py."""
    shutil.copytree(PACKAGES / "tiny_capi", folder)
    setup = folder / "setup.py"
    setup.write_text(beginning + setup.read_text())
    return folder


def test_provenance_names_image(built: Engine) -> None:
    [path] = built.dist.glob("*.provenance.json")
    stated = json.loads(path.read_text())["predicate"]["buildDefinition"]

    image = built.variables["IMAGE"]
    [material] = [one for one in stated["resolvedDependencies"] if "image" in one["name"]]
    assert stated["externalParameters"]["container"] == image
    assert material["digest"] == {"sha256": image.removeprefix("sha256:")}
    assert stated["internalParameters"]["notHermetic"] == [
        "no sandbox (the system refuses namespaces): the build could reach other files",
        "the source was given with --source (a folder, not under version control)",
    ]


def test_knows_that_nothing_has_changed(built: Engine) -> None:
    status, output = build(built)

    assert status == 0
    assert output.count("is up to date: nothing to do") == 1
    assert "pip install" in output
    assert "without network" not in output


def test_image_is_part_of_the_key(built: Engine) -> None:
    done = built.build("tiny-capi", "--python", "3.11", "--dry-run")

    digest = built.variables["IMAGE"].removeprefix("sha256:")[:12]
    assert f"container image: {digest} -> absent" in done.output


def test_makes_same_bytes_again(built: Engine, tmp_path: Path) -> None:
    again = dataclasses.replace(built, work=tmp_path / "work", dist=tmp_path / "dist")

    status, output = build(again, "--no-cache")

    assert status == 0, output
    assert [path.read_bytes() for path in again.wheels()] == [
        path.read_bytes() for path in built.wheels()
    ]


def test_rebuilds_in_the_image_that_the_provenance_names(built: Engine, tmp_path: Path) -> None:
    words = ("--source", PACKAGES / "tiny_capi", "--work", tmp_path)

    done = run(
        [built.python, "-m", "cuwheel", "rebuild", *built.wheels(), *words],
        env=built.environment(),
        cwd=ROOT,
        check=False,
    )

    assert done.status == 0, done.output
    assert "the same bytes" in done.output
    assert "another material" not in done.output


def test_package_can_not_reach_the_network(inside: Engine, tmp_path: Path) -> None:
    own = dataclasses.replace(inside, work=tmp_path / "work", dist=tmp_path / "dist")

    status, output = build(own, "--source", str(changed(tmp_path / "tiny_capi", _CALLS_OUT)))

    assert status == 61, output
    assert "Network is unreachable" in output


def test_kill_ends_the_container(inside: Engine, podman: Podman, tmp_path: Path) -> None:
    own = dataclasses.replace(inside, work=tmp_path / "work", dist=tmp_path / "dist")
    started = tmp_path / "work" / "started"
    source = changed(tmp_path / "tiny_capi", _WAITS.format(started=started))
    options = ("--container", inside.variables["IMAGE"], "--python", "3.11")

    with own.start("tiny-capi", *options, "--source", str(source)) as child:
        wait_for(started.exists)
        [running] = podman.ask("ps", "--format", "{{.Names}}").split()
        child.send_signal(signal.SIGKILL)
        child.wait()

    wait_for(lambda: running not in podman.ask("ps", "--all", "--format", "{{.Names}}"))


def matrix(engine: Engine, *words: str) -> tuple[int, str]:
    """The session `matrix` of tiny-capi alone, for Debian's Python."""
    folders = ("--work", str(engine.work), "--dist", str(engine.dist))
    options = ("--only", "tiny-capi-*", "--python", "3.11", *folders)
    done = run(
        [engine.python, "-m", "cuwheel", "matrix", *words, *options],
        env=engine.environment(),
        cwd=ROOT,
        check=False,
    )
    return done.status, done.output


@pytest.mark.nightly
def test_matrix_builds_its_cells_in_the_image(
    inside: Engine, podman: Podman, shared_cache: Path, tmp_path: Path
) -> None:
    own = matrix_engine(tmp_path, inside.project, shared_cache)
    own = dataclasses.replace(own, variables=inside.variables)
    container = ("--container", inside.variables["IMAGE"])

    status, output = matrix(own, "build", *container)

    assert status == 0, output
    assert "tiny-capi-130-cp311: built" in output
    assert "1 cell: 1 built" in output
    assert "without network" in output
    # What it was built with is in the image; here it would be built again.
    assert "1 cell: 1 built" in matrix(own, *container)[1]
    assert "1 cell: 1 outdated" in matrix(own)[1]
    assert '"include": []' in matrix(own, "--json", *container)[1]
    assert "1 of 1" not in matrix(own, "build", *container)[1]
    assert not podman.ask("ps", "--all", "--quiet")


def test_failed_cell_of_a_matrix_says_what_was_wrong(
    inside: Engine, shared_cache: Path, tmp_path: Path
) -> None:
    own = matrix_engine(tmp_path, inside.project, shared_cache)
    own = dataclasses.replace(own, variables=inside.variables)
    kernel_of(own).write_text(BROKEN)

    status, output = matrix(own, "build", "--container", inside.variables["IMAGE"])

    assert status == EXIT_CODES["cells-failed"], output
    assert "1 cell: 1 failed" in output
    [log] = (own.dist / ".cuwheel").glob("*.failed.log")
    assert "this kernel isn't finished" in log.read_text()


@pytest.mark.nightly
def test_cells_of_a_cluster_are_built_in_the_image(
    inside: Engine, shared_cache: Path, module_path: Path, tmp_path: Path
) -> None:
    own = matrix_engine(tmp_path, inside.project, shared_cache)
    options = ("--executor", "slurm", "--cores", "1", "--time-limit", "10")
    with slurm_cluster(module_path) as cluster:
        variables = {**inside.variables, "SLURM_CONF": cluster.environment["SLURM_CONF"]}
        own = dataclasses.replace(own, variables=variables)
        status, output = matrix(own, "build", *options, "--container", inside.variables["IMAGE"])

    assert status == 0, output
    assert "tiny-capi-130-cp311: built on node" in output
    assert "1 cell: 1 built" in output
    [log] = (own.dist / ".cuwheel").glob("*.log")
    assert "without network" in log.read_text()
    [path] = own.dist.glob("*.provenance.json")
    assert inside.variables["IMAGE"] in path.read_text()
