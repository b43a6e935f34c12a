"""podman runs small images; engines that can't speak as podman 4.3 and docker 20.10 do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import SandboxError
from cuwheel.base.system.console import Console
from cuwheel.build.sandbox.containers.engine import Container, engine_failed, open_container
from cuwheel.build.sandbox.containers.image import parse_image
from tests.support.machines.containers import Podman, image_id, make_podman
from tests.support.requirements import require

DIGEST = f"sha256:{'0' * 64}"
REMOTE = f"localhost:1/none@{DIGEST}"
NO_RANGES = (
    "Error: writing blob: adding layer: potentially insufficient UIDs or GIDs available in user "
    "namespace (requested 0:42 for /etc/gshadow): Check /etc/subuid and /etc/subgid: lchown"
)
NO_DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?"


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    require("podman", "that builds run in containers")
    programs = make_podman(tmp_path_factory.mktemp("podman"))
    yield programs
    programs.reset()


@pytest.fixture
def shell(podman: Podman, monkeypatch: pytest.MonkeyPatch) -> str:
    """An image that holds a shell and nothing else."""
    for name, value in podman.variables.items():
        monkeypatch.setenv(name, value)
    return image_id(podman, "localhost/cuwheel-test/shell")


def open_podman(reference: str, *, offline: bool = False) -> Container:
    return open_container(reference, "podman", Console(), Caller(os.environ), offline=offline)


@pytest.mark.e2e
@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize(
    ("reference", "offline", "what", "why"),
    [
        (DIGEST, False, "podman has no image", "registries don't know it"),
        (REMOTE, True, "podman has no image", "--offline allows no download"),
        (REMOTE, False, "could not be pulled", "connection refused"),
    ],
)
def test_reports_image_that_is_missing(
    reference: str,
    offline: bool,  # noqa: FBT001 - a table's column
    what: str,
    why: str,
) -> None:
    with pytest.raises(SandboxError, match=what) as caught:
        open_podman(reference, offline=offline)

    assert why in caught.value.why


@pytest.mark.e2e
def test_reports_image_without_python(shell: str) -> None:
    with pytest.raises(SandboxError, match="has no Python") as caught:
        open_podman(shell, offline=True)

    assert "python3.12" in caught.value.why
    assert "apt-get install python3-venv" in caught.value.fix


@pytest.mark.e2e
def test_runs_without_network_and_privilege(shell: str, tmp_path: Path) -> None:
    (tmp_path / "python").write_text(
        '#!/bin/sh\nwhile read -r line; do echo "$line"; done </proc/net/dev >$OUT/devices\n'
        'while read -r line; do echo "$line"; done </proc/self/status >$OUT/status\n'
        'echo "$CUWHEEL_IMAGE" >$OUT/image\nexit 7\n'
    )
    (tmp_path / "python").chmod(0o755)
    python = str(tmp_path / "python")
    container = Container(
        program="podman", image=parse_image(shell), python=python, caller=Caller(os.environ)
    )

    status = container.run(
        ("build",), write=(tmp_path,), network=False, variables={"OUT": str(tmp_path)}
    )

    devices = (tmp_path / "devices").read_text().splitlines()[2:]
    assert status == 7
    assert [line.partition(":")[0] for line in devices] == ["lo"]
    assert "CapEff:\t0000000000000000" in (tmp_path / "status").read_text()
    assert (tmp_path / "image").read_text() == f"{shell}\n"
    assert (tmp_path / "status").owner() == Path.home().owner()


@pytest.mark.e2e
def test_reports_that_no_container_started(shell: str, tmp_path: Path) -> None:
    container = Container(
        program="podman",
        image=parse_image(shell),
        python="no-python-here",
        caller=Caller(os.environ),
    )

    with pytest.raises(SandboxError, match="podman can't run a container here"):
        container.run((), write=(tmp_path,), network=False)


@pytest.mark.parametrize(
    ("compiler", "passed"),
    [("/usr/bin/g++", False), ("", False), ("/opt/rh/toolset/bin/g++", True)],
)
def test_command_line_has_the_images_compiler_and_no_value_of_a_variable(
    compiler: str,
    passed: bool,  # noqa: FBT001 - a table's column
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "podman").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$(dirname "$0")/words"\n')
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy.example")
    image = parse_image(DIGEST)
    container = Container(
        program="podman",
        image=image,
        python="python3",
        caller=Caller(os.environ),
        compiler=compiler,
    )

    container.run(("build",), write=(tmp_path,), network=True)

    words = (tmp_path / "words").read_text().splitlines()
    assert (f"CXX={compiler}" in words) == passed
    assert "HTTPS_PROXY" in words
    assert not any("secret" in word for word in words)


@pytest.mark.parametrize(
    ("program", "output", "words"),
    [
        ("podman", NO_RANGES, "usermod --add-subuids"),
        ("docker", NO_DAEMON, "start docker's daemon"),
        ("podman", "Error: OCI runtime error: runc: exotic", "podman run --rm IMAGE true"),
    ],
)
def test_gives_a_fix(program: str, output: str, words: str) -> None:
    error = engine_failed(program, output)

    assert error.why == output
    assert words in error.fix


def test_layer_that_needs_ids_is_no_fault_of_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = '[ "$1" = image ] && echo "image not known" || echo "needs newuidmap"'
    (tmp_path / "podman").write_text(f"#!/bin/sh\n{script}\nexit 125\n")
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(SandboxError, match="can't run a container"):
        open_podman(REMOTE)
