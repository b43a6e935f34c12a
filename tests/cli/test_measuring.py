"""The session `perf` from its command line to its report and status."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.diagnose.facts.gpus import find_driver
from cuwheel.errors import CuwheelError, UsageError
from cuwheel.nightly.gpus import lock_names
from cuwheel.paths import ROOT
from cuwheel.system import process
from cuwheel.system.console import Console
from cuwheel.system.gpu_lock import hold_gpus
from tests.support.documents import read_document
from tests.support.measured import PROBE, install_driver, write_package, write_probe

if TYPE_CHECKING:
    from pathlib import Path

RECIPE = """\
from cuwheel import MIB, Archive, Link, Recipe, Setuptools, Smoke

RECIPE = Recipe(
    name="measured",
    version="1.0",
    license="Apache-2.0",
    homepage="https://example.invalid/measured",
    maintainers=("cuwheel-maintainers",),
    source=Archive(url="http://127.0.0.1:9/measured-{version}.tar.gz", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("90",),
    requires=("setuptools",),
    build=Setuptools(),
    link=Link(),
    smoke=Smoke(imports=("measured",)),
    max_wheel_size=2 * MIB,
)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "recipes").mkdir(parents=True)
    (folder / "recipes" / "measured.py").write_text(RECIPE)
    write_probe(folder / "recipes" / "perf", PROBE)
    return folder


def command_line(project: Path, *words: str | Path) -> tuple[list[str], dict[str, str]]:
    """The session as a command, and the variables that it gets."""
    isolation = ["-P"] if sys.version_info >= (3, 11) else []
    command = [sys.executable, *isolation, "-m", "cuwheel", "perf", *map(str, words)]
    return command, {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "PYTHONPATH": str(ROOT),
        "CUWHEEL_PROJECT": str(project),
        "LD_LIBRARY_PATH": str(install_driver(project / "driver")),
        "CUWHEEL_RUNTIME": str(project / "locks"),
    }


def perf(project: Path, *words: str | Path, **variables: str) -> process.Finished:
    command, env = command_line(project, *words)
    return process.run(command, env={**env, **variables}, cwd=project, check=False)


def test_wheel_on_top_of_an_environment(project: Path) -> None:
    wheel, report = write_package(project), project / "report"
    words = ("--wheel", wheel, "--python", sys.executable, "--report", report, "--quick", "--sweep")

    found = perf(project, *words)

    assert found.status == 0, found.output
    written = read_document((report / "perf.json").read_text(), "perf")
    assert written["wheel"] == wheel.name
    assert len(written["sweep"]) == 2
    assert (report / "perf.png").read_bytes().startswith(b"\x89PNG")
    assert "measured 1.0+cu130 on Test GPU" in (report / "perf.html").read_text()
    assert len(list((report / "history").iterdir())) == 1
    assert "left out" in found.output


@pytest.mark.e2e
def test_model_is_a_folder_where_nox_was_started(project: Path) -> None:
    (project / "elsewhere" / "weights").mkdir(parents=True)
    words = ("--wheel", write_package(project), "--python", sys.executable, "--quick", "--sweep")
    more = ("--model", "weights", "--report", project / "r")

    found = perf(project, *words, *more, CUWHEEL_INVOKED_FROM=str(project / "elsewhere"))

    assert found.status == 0, found.output
    written = read_document((project / "r" / "perf.json").read_text(), "perf")
    assert written["sweep"][0]["what"] == str(project / "elsewhere" / "weights")


def test_wrong_result_ends_so(project: Path) -> None:
    wheel = write_package(project, "def double(x):\n    return x\n")
    words = ("--wheel", wheel, "--python", sys.executable, "--report", project / "r", "--quick")

    found = perf(project, *words)

    assert found.status == 92
    assert "measured 1.0+cu130 gives wrong results on Test GPU" in found.output
    assert (project / "r" / "perf.html").is_file()


def test_machine_without_a_driver_says_so_first(project: Path) -> None:
    wheel = write_package(project)

    found = perf(project, "--wheel", wheel, "--python", "/nowhere", LD_LIBRARY_PATH="/nowhere")

    assert found.status == 91
    assert "NVIDIA's driver isn't installed here" in found.output


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("causal-conv1d-130", "--dist", "."), "has no wheel of causal-conv1d-130"),
        (("causal-conv1d",), 'there is no target "causal-conv1d"'),
        (("--dist", "."), "there is nothing to measure"),
        (("--wheel", "x.whl"), "there is no wheel"),
        (("--tolerance", "0"), "0 is not a percentage between 0 and 100"),
        (("--requests", "none"), "none is not a positive whole number"),
        (("--model", "x"), "--model x is only for concurrent requests"),
        (("--quik",), "unknown option --quik"),
    ],
)
def test_refuses(
    words: tuple[str, ...], what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        run_command("perf", words, Console())

    assert what in caught.value.what


def test_target_of_another_wheel(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_PROJECT", str(project))
    wheel = write_package(project)

    with pytest.raises(CuwheelError) as caught:
        run_command("perf", ["causal-conv1d-130", "--wheel", str(wheel)], Console())

    assert caught.value.why == "it is a wheel of measured"


@pytest.fixture
def lock(project: Path) -> Path:
    """The lock of the GPU that the driver shows."""
    driver = find_driver({"LD_LIBRARY_PATH": str(install_driver(project / "driver"))})
    (name,) = lock_names(driver.gpus)
    return project / "locks" / name


@pytest.mark.e2e
def test_waits_while_another_run_has_the_gpu(project: Path, lock: Path) -> None:
    words = ("--wheel", write_package(project), "--python", sys.executable, "--quick")
    command, env = command_line(project, *words)

    with (
        hold_gpus([lock], "the other run", on_wait=print, gives_up=lambda: True),
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run,
    ):
        assert run.stdout
        assert any(b"waiting for the other run" in line for line in run.stdout)
        run.kill()
        allowed = perf(project, *words, CUWHEEL_GPUS_HELD=lock.name)

    assert allowed.status == 0, allowed.output


@pytest.mark.e2e
def test_shares_the_gpu_where_it_is_told_to(project: Path, lock: Path) -> None:
    words = ("--wheel", write_package(project), "--python", sys.executable, "--quick")

    with hold_gpus([lock], "the other run", on_wait=print, gives_up=lambda: True):
        command, env = command_line(project, *words, "--shared-gpu", "--json")
        shared = process.run(
            command, env=env, cwd=project, check=False, error_log=project / "stderr"
        )

    assert shared.status == 0, shared.output
    assert read_document(shared.output, "perf")["recipe"] == "measured"
