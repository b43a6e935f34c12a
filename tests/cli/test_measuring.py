"""The session `perf` from its command line to its report and status."""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import CuwheelError, ProbeError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.base.system.gpu_lock import hold_gpus
from cuwheel.check.diagnose.facts.machine import find_driver
from cuwheel.cli import measuring
from cuwheel.cli.dispatch import run_command
from cuwheel.lab.nightly.cycle import lock_names
from cuwheel.lab.perf.records import read_run
from tests.support.build.recipe_files import write_recipe
from tests.support.documents import read_document
from tests.support.lab.perf_runs import PROBE, install_driver, make_run, write_package, write_probe
from tests.support.machines.pythons import SAFE_PATH
from tests.support.requirements import require
from tests.support.secrets import files_with


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write_recipe(folder, "measured", "build=Setuptools(), link=Link(),")
    write_probe(folder / "recipes" / "perf", PROBE)
    return folder


def command_line(project: Path, *words: str | Path) -> tuple[list[str], dict[str, str]]:
    """The session as a command, and the variables that it gets."""
    command = [sys.executable, SAFE_PATH, "-m", "cuwheel", "perf", *map(str, words)]
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


@pytest.mark.e2e
def test_wheel_on_top_of_an_environment(project: Path) -> None:
    wheel, report = write_package(project), project / "report"
    words = ("--wheel", wheel, "--python", sys.executable, "--report", report, "--quick", "--sweep")

    result = perf(project, *words)

    assert result.status == 0, result.output
    written = read_document((report / "perf.json").read_text(), "perf")
    assert written["wheel"] == wheel.name
    assert len(written["sweep"]) == 2
    assert (report / "perf.png").read_bytes().startswith(b"\x89PNG")
    assert "measured 1.0+cu130 on Test GPU" in (report / "perf.html").read_text()
    assert len(list((report / "history").iterdir())) == 1
    assert "left out" in result.output


def pin_source(project: Path, tests: str) -> None:
    """Have the recipe pin a source with tests, and name them."""
    with tarfile.open(project / "measured-1.0.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("measured-1.0/tests/test_measured.py")
        member.size = len(tests)
        archive.addfile(member, io.BytesIO(tests.encode()))
    sha256 = hashlib.sha256((project / "measured-1.0.tar.gz").read_bytes()).hexdigest()
    recipe = project / "recipes" / "measured.py"
    text = recipe.read_text().replace("http://127.0.0.1:9", project.as_uri())
    text = text.replace("0" * 64, sha256).replace("smoke=", 'upstream_tests=("tests",), smoke=')
    recipe.write_text(text)


@pytest.mark.e2e
def test_runs_the_tests_of_the_pinned_source(project: Path) -> None:
    wheel, report = write_package(project), project / "report"
    pin_source(project, "from measured import double\ndef test_it():\n    assert double(2) == 4\n")
    words = ("--wheel", wheel, "--python", sys.executable, "--report", report, "--quick")

    result = perf(project, *words, "--upstream-tests")

    assert result.status == 0, result.output
    written = read_document((report / "perf.json").read_text(), "perf")
    assert (written["upstream_tests"]["passed"], written["upstream_tests"]["failed"]) == (1, 0)


@pytest.mark.e2e
def test_wheel_on_top_of_an_environment_reaches_nothing_outside(project: Path) -> None:
    require("sandbox", "that a wheel is measured in a sandbox")
    attack = f"import os\nos.system('touch {project}/reached 2>&-')\n"
    wheel = write_package(project, f"{attack}def double(x):\n    return 2 * x\n")
    words = ("--wheel", wheel, "--python", sys.executable, "--report", project / "r", "--quick")

    result = perf(project, *words)

    assert result.status == 0, result.output
    assert not (project / "reached").exists()
    assert "without a sandbox" in perf(project, *words, "--sandbox", "none").output
    assert (project / "reached").exists()


@pytest.mark.e2e
def test_model_of_a_hub_is_refused_where_nothing_can_download_it(project: Path) -> None:
    require("sandbox", "that a model's code gets no network")
    words = ("--wheel", write_package(project), "--python", sys.executable, "--quick", "--sweep")

    result = perf(project, *words, "--model", "some/name")

    assert result.status == UsageError.exit_code
    assert "download the model and give its folder" in result.output


@pytest.mark.e2e
def test_model_is_a_folder_where_nox_was_started(project: Path) -> None:
    (project / "elsewhere" / "weights").mkdir(parents=True)
    words = ("--wheel", write_package(project), "--python", sys.executable, "--quick", "--sweep")
    more = ("--model", "weights", "--report", project / "r")

    result = perf(project, *words, *more, CUWHEEL_INVOKED_FROM=str(project / "elsewhere"))

    assert result.status == 0, result.output
    written = read_document((project / "r" / "perf.json").read_text(), "perf")
    assert written["sweep"][0]["what"] == str(project / "elsewhere" / "weights")


@pytest.mark.e2e
def test_wrong_result_ends_so(project: Path) -> None:
    wheel = write_package(project, "def double(x):\n    return x\n")
    words = ("--wheel", wheel, "--python", sys.executable, "--report", project / "r", "--quick")

    result = perf(project, *words)

    assert result.status == 92
    assert "measured 1.0+cu130 gives wrong results on Test GPU" in result.output
    assert (project / "r" / "perf.html").is_file()


@pytest.mark.e2e
def test_report_holds_no_secret(project: Path) -> None:
    value = "it's <correct> horse_battery"
    code = f"def double(x):\n    print({value!r})\n    raise ValueError({value!r})\n"
    words = ("--wheel", write_package(project, code), "--python", sys.executable, "--quick")

    result = perf(
        *(project, *words, "--report", project / "report"), MY_TOKEN=value, MEASURED_LIKE=value
    )

    assert result.status == ProbeError.exit_code, result.output
    report = {path: path.read_text() for path in (project / "report").glob("perf.[hjl]*")}
    assert {path.suffix for path in report} == {".html", ".json", ".log"}
    assert [path.name for path, text in report.items() if "horse_battery" in text] == []
    assert read_run(project / "report" / "perf.json").variables == {
        "MEASURED_LIKE": "<masked: value of MY_TOKEN>"
    }
    assert files_with("horse_battery", project / "report" / "history") == []


@pytest.mark.e2e
def test_machine_without_a_driver_is_reported_first(project: Path) -> None:
    wheel = write_package(project)

    result = perf(project, "--wheel", wheel, "--python", "/nowhere", LD_LIBRARY_PATH="/nowhere")

    assert result.status == 91
    assert "NVIDIA's driver isn't installed here" in result.output


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("causal-conv1d-130", "--dist", "."), "has no wheel of causal-conv1d-130"),
        (("causal-conv1d",), 'there is no target "causal-conv1d"'),
        (("--dist", "."), "there is nothing to measure"),
        (("--wheel", "x.whl"), "there is no wheel"),
        (("--tolerance", "0"), "0 is not a percentage between 0 and 100"),
        (("--requests", "none"), "none is not a positive number"),
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
def test_shares_the_gpu_on_request(project: Path, lock: Path) -> None:
    words = ("--wheel", write_package(project), "--python", sys.executable, "--quick")

    with hold_gpus([lock], "the other run", on_wait=print, gives_up=lambda: True):
        command, env = command_line(project, *words, "--shared-gpu", "--json")
        shared = process.run(
            command, env=env, cwd=project, check=False, error_log=project / "stderr"
        )

    assert shared.status == 0, shared.output
    assert read_document(shared.output, "perf")["recipe"] == "measured"


def test_report_that_is_replaced_stays_where_a_release_reads_it(tmp_path: Path) -> None:
    given = argparse.Namespace(history=str(tmp_path / "elsewhere"), json=False)

    for answer in ("SLOWER", "SAME"):
        measuring._report(
            make_run(answer=answer), tmp_path / "report", given, Console(), Caller(os.environ)
        )

    [copy] = (tmp_path / "report" / "history").glob("*.json")
    assert read_run(copy).answer == "SLOWER"
