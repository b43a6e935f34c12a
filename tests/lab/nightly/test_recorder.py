"""Steps with real programs, and the report after each."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from cuwheel.lab.nightly.record import read_run
from tests.support.lab.nightly_runs import make_recorder, python_command
from tests.support.waiting import wait_for

_FAILS = """
import sys
print("error: tiny-130: the package's own build failed")
print("ptxas fatal   : Value 'sm_52' is not defined for option 'gpu-name'")
sys.exit(61)
"""
_HANGS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(600)
"""


def test_report_is_written_after_each_step(tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "run")

    recorder.run_step("diagnose", python_command("print('ok')"))

    assert read_run(tmp_path / "run") == recorder.run
    assert recorder.run.state == "running"
    assert (tmp_path / "run" / "logs" / "diagnose.log").read_text() == "ok\n"
    recorder.finish()
    assert read_run(tmp_path / "run").state == "passed"


def test_failed_step_has_its_error(tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "run")

    step = recorder.run_step("build", python_command(_FAILS), about="tiny-130")

    assert step.state == "failed"
    assert step.detail == "status 61: tiny-130: the package's own build failed"
    assert step.log == "logs/build-tiny-130.log"
    assert "sm_52" in step.explanation


def test_failure_log_is_kept_and_explained(tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "run")
    more = tmp_path / "tiny.failed.log"
    more.write_text("g++: fatal error: Killed signal terminated program cc1plus\n")

    step = recorder.run_step("build", python_command("raise SystemExit(61)"), failure_log=more)

    assert "memory" in step.explanation
    assert (tmp_path / "run" / "logs" / "build.program.log").read_text() == more.read_text()


@pytest.mark.e2e
def test_time_limit_ends_a_step_with_its_children(tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "run", seconds=3)
    started = time.monotonic()

    step = recorder.run_step("build", python_command(_HANGS, str(tmp_path / "pid")))

    assert time.monotonic() - started < 30
    assert (step.state, step.detail) == ("ended", "the time limit was reached")
    wait_for(lambda: not _runs(int((tmp_path / "pid").read_text())))


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_log_of_interrupted_step_holds_no_secret(tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "run")
    code = f"print({'ghp_' + 'a' * 36!r}, flush=True); time.sleep(1); os.kill({os.getpid()}, 2)"

    with pytest.raises(KeyboardInterrupt):
        recorder.run_step("build", python_command(f"import os, time; {code}; time.sleep(600)"))

    assert (tmp_path / "run" / "logs" / "build.log").read_text() == "<masked: GitHub Token>\n"


def test_nothing_begins_after_the_time_limit(tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "run", seconds=0)

    step = recorder.run_step("smoke", python_command(f"open({str(tmp_path / 'ran')!r}, 'w')"))

    assert (step.state, step.detail) == ("skipped", "the time limit was reached")
    assert not (tmp_path / "ran").exists()
    recorder.finish()
    assert recorder.run.state == "ended"


def test_missing_program_is_a_failed_step(tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "run")

    step = recorder.run_step("update", ["/no/such/git", "pull"])

    assert step.detail.startswith("status 127: /no/such/git could not be started")
