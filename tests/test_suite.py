"""What the suite does with its own runs: missing parts, leftovers, ignored signals, time limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import Finished, run
from tests.support.machines.leftovers import end_all_of
from tests.support.requirements import VARIABLE, summarize_skips

# Starts the tests as `nohup … &` does.
_IGNORING = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_TESTS = """
import subprocess, sys, time
import pytest
from tests.support.requirements import lack

STARTED = []

@pytest.mark.parametrize("number", [1, 2, 3])
def test_heeds_signal(number):
    with subprocess.Popen(["sleep", "600"]) as child:
        child.send_signal(number)
        assert child.wait(20) == -number

def test_leaves_child(tmp_path):
    STARTED.append(subprocess.Popen(["sh", "-c", "sleep 600", str(tmp_path / "child")]))

def test_has_no_child():
    STARTED[0].wait(20)

def test_leaves_orphan(tmp_path):
    script = "sleep 601 > /dev/null 2>&1 &"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)

@pytest.mark.timeout(0.5)
def test_hangs():
    time.sleep(600)

@pytest.mark.parametrize("part", ["redis", "cgroup", "fish"])
def test_needs(part):
    lack(part, f"there is no {part}", "all of it")
"""


@pytest.fixture(scope="module")
def suite(module_path: Path) -> Path:
    """A project of one test file, with the hooks and settings of ours."""
    folder = module_path / "suite"
    (folder / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "tests")
    (folder / "tests" / "test_it.py").write_text(_TESTS)
    return folder


@pytest.fixture(scope="module")
def done(suite: Path) -> Finished:
    """That project's tests, run by a program that ignores signals, on a machine with redis."""
    options = ("-n", "1", "-rA", "-o", "tmp_path_retention_policy=all")
    return run_pytest(suite, *options, **{VARIABLE: "sandbox, redis"})


def run_pytest(suite: Path, *options: str, **variables: str) -> Finished:
    own = ("-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={suite / 'temp'}")
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return run([sys.executable, "-c", _IGNORING, *own, *options], env=env, cwd=suite, check=False)


@pytest.mark.e2e
def test_missing_part_is_a_skip_that_says_what_it_costs(done: Finished) -> None:
    assert "cgroup: there is no cgroup; unproved here: all of it" in done.output


@pytest.mark.e2e
def test_one_line_says_what_was_not_proved_and_what_installs_it(done: Finished) -> None:
    line = "not proved here: 2 tests, which need cgroup 1, fish 1; to run them: "
    assert f"{line}apt-get install fish\n" in done.output


def test_says_nothing_where_no_test_was_skipped() -> None:
    assert summarize_skips([]) == ""


@pytest.mark.e2e
def test_missing_part_is_a_failure_where_it_has_to_be_there(done: Finished) -> None:
    assert f"{VARIABLE} names redis, but there is no redis" in done.output


@pytest.mark.e2e
def test_programs_of_tests_heed_signals_that_nohup_ignores(done: Finished) -> None:
    assert done.output.count("PASSED tests/test_it.py::test_heeds_signal[") == 3


@pytest.mark.e2e
def test_ends_child_before_the_next_test(done: Finished) -> None:
    assert "PASSED tests/test_it.py::test_has_no_child" in done.output


@pytest.mark.e2e
def test_ends_and_names_what_is_nobodys_child(done: Finished, suite: Path) -> None:
    processes = psutil.process_iter(["cwd"])

    assert "ended what a test left: sleep 601" in done.output
    assert [one for one in processes if (one.info["cwd"] or "").startswith(str(suite))] == []


@pytest.mark.e2e
def test_test_that_hangs_fails(done: Finished) -> None:
    assert "FAILED tests/test_it.py::test_hangs - Failed: Timeout (>0.5s)" in done.output


def test_refuses_to_require_what_is_no_part(suite: Path) -> None:
    done = run_pytest(suite, **{VARIABLE: "sandbox,redsi"})

    assert done.status == 4
    assert f"{VARIABLE} names redsi; parts are sandbox, bwrap, " in done.output


def test_leaves_folder_of_another_run_alone(tmp_path: Path) -> None:
    """One whose name ends as ours does: TMPDIR of the other run came before it."""
    ours = tmp_path / "run"
    theirs = tmp_path / "other" / ours.relative_to("/")
    theirs.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"], cwd=theirs) as process:
        ended = end_all_of(ours)
        still_runs = process.poll() is None
        process.kill()

    assert (ended, still_runs) == ([], True)
