"""Whole nightly runs of tiny packages, in processes; updates of a checkout lose no change."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import EXIT_CODES
from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from cuwheel.lab.nightly.nightly import commit_of, update_checkout
from tests.support.check.environments import make_driver
from tests.support.documents import read_document
from tests.support.engine import TIME_LIMIT, Engine, Outcome
from tests.support.factories import commit_all
from tests.support.lab.matrices import BROKEN, OWN_PYTHON, kernel_of, matrix_engine
from tests.support.lab.nightly_runs import make_recorder
from tests.support.waiting import wait_for


@pytest.fixture
def engine(tmp_path: Path, project: Path, shared_cache: Path) -> Engine:
    engine = matrix_engine(tmp_path, project, shared_cache)
    return dataclasses.replace(engine, variables={"CUWHEEL_RUNTIME": str(tmp_path / "run")})


def _command(engine: Engine, *arguments: str) -> list[str]:
    folders = ("--work", str(engine.work), "--dist", str(engine.dist))
    options = ("--to", str(engine.dist.parent / "nightly"), "--python", OWN_PYTHON)
    return [str(engine.python), "-m", "cuwheel", "nightly", *arguments, *options, *folders]


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
def test_continues_after_a_failure_and_runs_the_hook(engine: Engine) -> None:
    cell = f"tiny-capi-130-cp{OWN_PYTHON.replace('.', '')}"
    mail = engine.dist.parent / "mail"
    kernel = kernel_of(engine)
    sound = kernel.read_text()
    kernel.write_text(BROKEN + sound)
    arguments = ("tiny-capi-130", "tiny-skbuild-130", "--on-failure", f"cat > {mail}")

    first = _run(engine, *arguments)

    assert first.status == EXIT_CODES["nightly-failed"], first.output
    steps = _steps(engine)
    assert steps.pop(f"build {cell}") == "failed"
    assert sorted(steps.values()) == ["passed", "passed", "passed", "skipped"]
    assert "this kernel isn't finished" in mail.read_text()
    assert "this kernel isn&#x27;t finished" in (_latest(engine) / "index.html").read_text()

    kernel.write_text(sound)
    mail.unlink()
    second = _run(engine, *arguments)

    assert second.status == 0, second.output
    assert _steps(engine)[f"build {cell}"] == "passed"
    assert [state for name, state in _steps(engine).items() if "smoke tiny-skbuild" in name] == [
        "passed"
    ]
    assert "no usable GPU" in second.output
    assert not mail.exists()


def test_names_the_holder_of_the_lock(engine: Engine, tmp_path: Path) -> None:
    lock = tmp_path / "run" / "cuwheel-machine.lock"
    lock.parent.mkdir()
    with lock.open("w") as stream:
        stream.write("another's process 7")
        stream.flush()
        fcntl.flock(stream, fcntl.LOCK_EX)

        done = _run(engine, "tiny-capi-130", "--no-wait")

    assert done.status == EXIT_CODES["gpu-in-use"]
    assert "this machine is in use by another run" in done.output
    assert "because  another's process 7 has locked" in done.output
    assert not _latest(engine).exists()


@pytest.mark.e2e
def test_each_gpu_has_a_lock(engine: Engine, tmp_path: Path) -> None:
    driver = make_driver(tmp_path / "driver")

    _run(engine, "no-such-target", LD_LIBRARY_PATH=str(driver))

    [lock] = (tmp_path / "run").iterdir()
    assert lock.name.startswith("cuwheel-GPU-")
    assert _report(engine)["gpus"]


@pytest.mark.e2e
def test_unknown_target_fails_the_plan(engine: Engine) -> None:
    done = _run(engine, "tiny-cappi-130")

    assert done.status == EXIT_CODES["nightly-failed"]
    assert _steps(engine)["plan"] == "failed"
    assert "there is no cell" in done.output


@pytest.mark.e2e
def test_time_limit_ends_a_run_with_a_report(engine: Engine) -> None:
    kernel_of(engine).write_text(_slow(kernel_of(engine).read_text()))

    mail = engine.dist.parent / "mail"
    options = ("--time-limit", "1", "--on-failure", f"cat > {mail}")

    done = _run(engine, "tiny-capi-130", "tiny-skbuild-130", *options)

    assert done.status == EXIT_CODES["nightly-time"], done.output
    assert "ended" in _steps(engine).values()
    assert _report(engine)["ended"]
    assert mail.read_text().splitlines()[0].endswith(": ended")


def _slow(kernel: str) -> str:
    """Return a kernel that nvcc needs minutes for."""
    lines = "".join(f"template __global__ void spin<{n}>(float *);\n" for n in range(3000))
    return (
        "template <int N> __global__ void spin(float *x) {\n"
        "#pragma unroll\nfor (int i = 0; i < 200; ++i) x[i] = x[i] * N + i; }\n" + lines + kernel
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_report_of_an_interrupted_run(engine: Engine, number: signal.Signals) -> None:
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


@pytest.mark.nightly
@pytest.mark.e2e
def test_updated_run_continues_with_the_new_commit(engine: Engine, tmp_path: Path) -> None:
    """The new commit's code makes the plan, where perf can run; the report holds the update."""
    upstream, clone = tmp_path / "upstream", tmp_path / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "tests", "bench", ".git", "dist", "work")
    shutil.copytree(ROOT, upstream, ignore=ignored, symlinks=True)
    old = commit_all(upstream)
    subprocess.run(["git", "clone", "-q", upstream, clone], check=True)
    cycle = upstream / "cuwheel" / "lab" / "nightly" / "cycle.py"
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


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    folder = tmp_path / "upstream"
    folder.mkdir()
    (folder / "recipe.py").write_text("one\n")
    commit_all(folder)
    return folder


@pytest.fixture
def checkout(tmp_path: Path, upstream: Path) -> Path:
    run(["git", "clone", "-q", upstream, tmp_path / "checkout"], env=os.environ)
    return tmp_path / "checkout"


def test_takes_the_newer_commit(tmp_path: Path, upstream: Path, checkout: Path) -> None:
    (upstream / "recipe.py").write_text("two\n")
    newer = commit_all(upstream)
    recorder = make_recorder(tmp_path / "run")

    assert update_checkout(checkout, recorder)

    [step] = recorder.run.steps
    assert step.state == "passed"
    assert step.detail.endswith(f" to {newer[:12]}")
    assert recorder.run.commit == commit_of(checkout, os.environ) == newer


def test_reports_changed_files(tmp_path: Path, checkout: Path) -> None:
    (checkout / "recipe.py").write_text("mine\n")
    recorder = make_recorder(tmp_path / "run")

    assert not update_checkout(checkout, recorder)

    [step] = recorder.run.steps
    assert step.state == "passed"
    assert step.detail == "nothing new; changed here: recipe.py"


def test_refuses_to_overwrite_a_change(tmp_path: Path, upstream: Path, checkout: Path) -> None:
    (upstream / "recipe.py").write_text("two\n")
    commit_all(upstream)
    (checkout / "recipe.py").write_text("mine\n")
    recorder = make_recorder(tmp_path / "run")

    assert not update_checkout(checkout, recorder)

    [step] = recorder.run.steps
    assert step.state == "failed"
    assert "would be overwritten" in step.detail
    assert (checkout / "recipe.py").read_text() == "mine\n"


def test_refuses_to_merge(tmp_path: Path, upstream: Path, checkout: Path) -> None:
    for folder, name in ((upstream, "theirs"), (checkout, "ours")):
        (folder / name).write_text(name)
        commit_all(folder)
    recorder = make_recorder(tmp_path / "run")

    assert not update_checkout(checkout, recorder)

    assert recorder.run.steps[0].detail == "status 128: Not possible to fast-forward, aborting."


def test_folder_without_git_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path, os.environ) == ""
