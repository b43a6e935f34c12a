"""A package with a CUDA kernel, built in an image of Debian that debootstrap makes."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.containers import Podman, debian_image, make_podman
from tests.support.engine import PACKAGES, Engine, make_engine
from tests.support.requirements import require
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
        "the source was given with --source",
    ]


def test_knows_that_nothing_has_changed(built: Engine) -> None:
    status, output = build(built)

    assert status == 0
    assert output.count("is up to date: nothing to do") == 1
    assert "without network" not in output


def test_image_is_part_of_the_key(built: Engine) -> None:
    done = built.build("tiny-capi", "--python", "3.11", "--explain-key")

    digest = built.variables["IMAGE"].removeprefix("sha256:")[:12]
    assert f"container image: {digest} -> absent" in done.output


def test_makes_same_bytes_again(built: Engine, tmp_path: Path) -> None:
    again = dataclasses.replace(built, work=tmp_path / "work", dist=tmp_path / "dist")

    status, output = build(again, "--no-cache")

    assert status == 0, output
    assert [path.read_bytes() for path in again.wheels()] == [
        path.read_bytes() for path in built.wheels()
    ]


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
