"""Whole nightly runs of tiny packages, in processes of their own."""

from __future__ import annotations

import dataclasses
import fcntl
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import GpuInUseError, NightlyFailedError, NightlyTimeError
from cuwheel.paths import ROOT
from tests.support.diagnosed import make_driver
from tests.support.documents import read_document
from tests.support.engine import TIME_LIMIT, Engine, Outcome
from tests.support.factories import commit_all
from tests.support.matrices import BROKEN, OWN_PYTHON, kernel_of, matrix_engine
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def engine(tmp_path: Path, project: Path, shared_cache: Path) -> Engine:
    made = matrix_engine(tmp_path, project, shared_cache)
    return dataclasses.replace(made, variables={"CUWHEEL_RUNTIME": str(tmp_path / "run")})


def _command(engine: Engine, *arguments: str) -> list[str]:
    folders = ("--work", str(engine.work), "--dist", str(engine.dist))
    words = ("--to", str(engine.dist.parent / "nightly"), "--python", OWN_PYTHON)
    return [str(engine.python), "-m", "cuwheel", "nightly", *arguments, *words, *folders]


def _run(engine: Engine, *arguments: str, cwd: Path = ROOT, **variables: str) -> Outcome:
    done = subprocess.run(
        _command(engine, *arguments),
        env=engine.environment(**variables),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    return Outcome(status=done.returncode, output=done.stdout + done.stderr)


def _latest(engine: Engine) -> Path:
    return engine.dist.parent / "nightly" / "latest"


def _report(engine: Engine) -> dict[str, Any]:
    return read_document((_latest(engine) / "nightly.json").read_text(), "nightly")


def _steps(engine: Engine) -> dict[str, str]:
    steps = _report(engine)["steps"]
    return {f"{step['name']} {step['about']}".strip(): step["state"] for step in steps}


@pytest.mark.e2e
def test_cycle_goes_on_behind_a_failure_and_tells_of_it(engine: Engine) -> None:
    cell = f"tiny-capi-130-cp{OWN_PYTHON.replace('.', '')}"
    mail = engine.dist.parent / "mail"
    kernel = kernel_of(engine)
    sound = kernel.read_text()
    kernel.write_text(BROKEN + sound)
    asked = ("tiny-capi-130", "tiny-skbuild-130", "--on-failure", f"cat > {mail}")

    first = _run(engine, *asked)

    assert first.status == NightlyFailedError.exit_code, first.output
    steps = _steps(engine)
    assert steps.pop(f"build {cell}") == "failed"
    assert sorted(steps.values()) == ["passed", "passed", "passed", "skipped"]
    assert "this kernel isn't finished" in mail.read_text()
    assert "this kernel isn&#x27;t finished" in (_latest(engine) / "index.html").read_text()

    kernel.write_text(sound)
    mail.unlink()
    second = _run(engine, *asked)

    assert second.status == 0, second.output
    assert _steps(engine)[f"build {cell}"] == "passed"
    assert [state for name, state in _steps(engine).items() if "smoke tiny-skbuild" in name] == [
        "passed"
    ]
    assert "no usable GPU" in second.output
    assert not mail.exists()


def test_says_who_holds_the_machine(engine: Engine, tmp_path: Path) -> None:
    lock = tmp_path / "run" / "cuwheel-machine.lock"
    lock.parent.mkdir()
    with lock.open("w") as stream:
        stream.write("another's process 7")
        stream.flush()
        fcntl.flock(stream, fcntl.LOCK_EX)

        done = _run(engine, "tiny-capi-130", "--no-wait")

    assert done.status == GpuInUseError.exit_code
    assert "this machine is in use by another run" in done.output
    assert "because  another's process 7 has locked" in done.output
    assert not _latest(engine).exists()


def test_each_gpu_has_a_lock(engine: Engine, tmp_path: Path) -> None:
    driver = make_driver(tmp_path / "driver")

    _run(engine, "no-such-target", LD_LIBRARY_PATH=str(driver))

    [lock] = (tmp_path / "run").iterdir()
    assert lock.name.startswith("cuwheel-GPU-")
    assert _report(engine)["gpus"]


def test_target_that_is_none_fails_the_plan(engine: Engine) -> None:
    done = _run(engine, "tiny-cappi-130")

    assert done.status == NightlyFailedError.exit_code
    assert _steps(engine)["plan"] == "failed"
    assert "there is no cell" in done.output


@pytest.mark.e2e
def test_time_limit_ends_it_with_a_report(engine: Engine) -> None:
    kernel_of(engine).write_text(_slow(kernel_of(engine).read_text()))

    mail = engine.dist.parent / "mail"
    options = ("--time-limit", "1", "--on-failure", f"cat > {mail}")

    done = _run(engine, "tiny-capi-130", "tiny-skbuild-130", *options)

    assert done.status == NightlyTimeError.exit_code, done.output
    assert "ended" in _steps(engine).values()
    assert _report(engine)["ended"]
    assert mail.read_text().splitlines()[0].endswith(": ended")


def _slow(kernel: str) -> str:
    """What nvcc needs minutes for."""
    lines = "".join(f"template __global__ void spin<{n}>(float *);\n" for n in range(3000))
    return (
        "template <int N> __global__ void spin(float *x) {\n"
        "#pragma unroll\nfor (int i = 0; i < 200; ++i) x[i] = x[i] * N + i; }\n" + lines + kernel
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_report_of_a_run_that_is_ended(engine: Engine, number: signal.Signals) -> None:
    with subprocess.Popen(
        _command(engine, "tiny-capi-130"),
        env=engine.environment(),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        wait_for(lambda: [*(engine.dist.parent / "nightly").glob("*/logs/diagnose.log")])
        child.send_signal(number)
        child.wait(60)

    assert _report(engine)["steps"][-1]["state"] == "ended"
    assert _report(engine)["ended"]


@pytest.mark.e2e
def test_run_of_the_new_commit_goes_on(engine: Engine, tmp_path: Path) -> None:
    """The new commit's code makes the plan, where perf can run; the report holds the update."""
    upstream, clone = tmp_path / "upstream", tmp_path / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "tests", "bench", ".git", "dist", "work")
    shutil.copytree(ROOT, upstream, ignore=ignored, symlinks=True)
    old = commit_all(upstream)
    subprocess.run(["git", "clone", "-q", upstream, clone], check=True)
    cycle = upstream / "cuwheel" / "nightly" / "cycle.py"
    stage = 'console.stage(f"new in {sys.prefix}")'
    cycle.write_text(cycle.read_text().replace('console.stage("plan")', stage))
    new = commit_all(upstream)

    done = _run(engine, "tiny-skbuild-130", "--update", cwd=clone, PYTHONPATH=str(clone))

    assert done.status == 0, done.output
    assert re.search(r"^new in /.*/engine/perf-\w+ *$", done.output, re.MULTILINE), done.output
    report = _report(engine)
    assert report["commit"] == new
    assert report["steps"][0]["detail"] == f"{old[:12]} to {new[:12]}"
    assert [step["name"] for step in report["steps"]].count("update") == 1
