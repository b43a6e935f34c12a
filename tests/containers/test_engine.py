"""podman runs small images; engines that can't speak as podman 4.3 and docker 20.10 do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.containers import refusals
from cuwheel.containers.engine import Engine, Inside
from cuwheel.containers.image import parse_image
from cuwheel.containers.mounts import Shared
from cuwheel.errors import ContainerError
from cuwheel.paths import ROOT
from cuwheel.system.console import Console
from tests.support.containers import Podman, image_id, make_podman
from tests.support.requirements import require

if TYPE_CHECKING:
    from collections.abc import Iterator

PODMAN = Engine(program="podman")
NOBODYS = parse_image(f"sha256:{'0' * 64}")
NO_RANGES = (
    "Error: writing blob: adding layer: potentially insufficient UIDs or GIDs available in user "
    "namespace (requested 0:42 for /etc/gshadow): Check /etc/subuid and /etc/subgid: lchown"
)
NO_DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?"


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    require("podman", "that builds run in containers")
    made = make_podman(tmp_path_factory.mktemp("podman"))
    yield made
    made.reset()


@pytest.fixture
def shell(podman: Podman, monkeypatch: pytest.MonkeyPatch) -> str:
    """An image that holds a shell and nothing else."""
    for name, value in podman.variables.items():
        monkeypatch.setenv(name, value)
    return image_id(podman, "localhost/cuwheel-test/shell")


@pytest.mark.e2e
def test_takes_image_that_is_there(shell: str) -> None:
    PODMAN.obtain(parse_image(shell), Console(), offline=True)


@pytest.mark.e2e
def test_names_image_that_nobody_has(shell: str) -> None:
    assert shell
    with pytest.raises(ContainerError, match="podman has no image") as caught:
        PODMAN.obtain(NOBODYS, Console(), offline=False)

    assert "registries don't know it" in caught.value.why


@pytest.mark.e2e
def test_downloads_nothing_offline(shell: str) -> None:
    assert shell
    with pytest.raises(ContainerError) as caught:
        PODMAN.obtain(parse_image(f"localhost:1/none@sha256:{'0' * 64}"), Console(), offline=True)

    assert "--offline allows no download" in caught.value.why


@pytest.mark.e2e
def test_says_why_image_can_not_be_pulled(shell: str) -> None:
    assert shell
    with pytest.raises(ContainerError, match="could not be pulled") as caught:
        PODMAN.obtain(parse_image(f"localhost:1/none@sha256:{'0' * 64}"), Console(), offline=False)

    assert "connection refused" in caught.value.why


@pytest.mark.e2e
def test_names_image_without_python(shell: str) -> None:
    with pytest.raises(ContainerError, match="has no Python") as caught:
        PODMAN.look_inside(parse_image(shell))

    assert "python3.12" in caught.value.why
    assert "apt-get install python3-venv" in caught.value.fix


@pytest.mark.e2e
def test_runs_without_network_and_privilege(shell: str, tmp_path: Path) -> None:
    (tmp_path / "ask").write_text(
        '#!/bin/sh\nwhile read -r line; do echo "$line"; done </proc/net/dev >$OUT/devices\n'
        'while read -r line; do echo "$line"; done </proc/self/status >$OUT/status\n'
        'echo "$CUWHEEL_IMAGE" >$OUT/image\nexit 7\n'
    )
    (tmp_path / "ask").chmod(0o755)
    shared = Shared(network=False, read=(ROOT,), write=(tmp_path,), passed={"OUT": str(tmp_path)})
    inside = Inside(python=str(tmp_path / "ask"), compiler="")

    status = PODMAN.run_cuwheel(("build",), parse_image(shell), inside, shared, name="cuwheel-test")

    devices = (tmp_path / "devices").read_text().splitlines()[2:]
    assert status == 7
    assert [line.partition(":")[0] for line in devices] == ["lo"]
    assert "CapEff:\t0000000000000000" in (tmp_path / "status").read_text()
    assert (tmp_path / "image").read_text() == f"{shell}\n"
    assert (tmp_path / "status").owner() == Path.home().owner()


@pytest.mark.e2e
def test_says_that_no_container_could_be_started(shell: str, tmp_path: Path) -> None:
    shared = Shared(network=False, read=(ROOT, tmp_path / "gone"), write=(), passed={})
    inside = Inside(python="python3", compiler="")

    with pytest.raises(ContainerError, match="podman can't run a container here"):
        PODMAN.run_cuwheel((), parse_image(shell), inside, shared, name="cuwheel-test")


@pytest.mark.parametrize(
    ("compiler", "expected"),
    [
        ("/usr/bin/g++", ()),
        ("", ()),
        ("/opt/rh/toolset/bin/g++", ("--env", "CXX=/opt/rh/toolset/bin/g++")),
    ],
)
def test_takes_compiler_of_the_images_path(compiler: str, expected: tuple[str, ...]) -> None:
    assert Inside(python="python3", compiler=compiler).choices() == expected


def test_says_that_nothing_is_installed() -> None:
    assert refusals.no_engine(None).what == "neither podman nor docker is installed"
    assert refusals.no_engine("docker").what == "docker is not installed"


@pytest.mark.parametrize(
    ("program", "said", "words"),
    [
        ("podman", NO_RANGES, "usermod --add-subuids"),
        ("docker", NO_DAEMON, "start docker's daemon"),
        ("podman", "Error: OCI runtime error: runc: exotic", "podman run --rm IMAGE true"),
    ],
)
def test_says_what_to_do(
    program: str, said: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = tmp_path / "subuid"
    ranges.write_text("1234:100000:65536\n")
    monkeypatch.setattr(refusals, "_SUBUID", ranges)

    refused = refusals.engine_refused(program, said, uid=1234)

    assert refused.why == said
    assert words in refused.fix


def test_knows_user_without_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_SUBUID", tmp_path / "gone")

    refused = refusals.engine_refused("podman", "Error: exotic", uid=os.getuid() or 1234)

    assert "usermod --add-subuids" in refused.fix


def test_layer_that_needs_ids_is_no_fault_of_the_registry() -> None:
    image = parse_image(f"debian@sha256:{'0' * 64}")

    assert "can't run a container" in refusals.pull_failed("podman", image, NO_RANGES).what
