"""Limits of the system end in an error with a fix."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, ResourceLimitError
from cuwheel.base.last_resort import limit_error, limit_error_of_program
from cuwheel.base.paths import ROOT
from tests.support.machines.pythons import SAFE_PATH

_GONE = 'mkdir gone; cd gone; rmdir "$PWD"; '


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        ImportError("x.so: failed to map segment from shared object"),
        SystemError("error return without exception set"),
        ValueError("field 'target' is required for AnnAssign"),
        RuntimeError("can't start new thread"),
        OSError(24, "Too many open files"),
    ],
)
def test_knows_limits(problem: BaseException) -> None:
    assert isinstance(limit_error(problem), ResourceLimitError)


@pytest.mark.parametrize("problem", [ImportError("no x in y"), RuntimeError("x"), OSError(2, "x")])
def test_leaves_faults_of_cuwheel_alone(problem: BaseException) -> None:
    assert limit_error(problem) is None


@pytest.mark.parametrize(
    ("output", "is_limit"),
    [
        ("x\nMemoryError\n", True),
        ("RuntimeError: can't start new thread", True),
        ("OSError: [Errno 24] Too many open files: '/x'", True),
        ("OSError: [Errno 2] No such file or directory: '/x'", False),
        ("bwrap: Can't fork for pid 1: Resource temporarily unavailable", True),
        ("MemoryError\nValueError: x", False),
        ("", False),
    ],
)
def test_knows_limits_of_programs(output: str, *, is_limit: bool) -> None:
    assert (limit_error_of_program(output) is not None) == is_limit


@pytest.mark.parametrize(
    ("module", "script", "status", "line"),
    [
        ("entry", "ulimit -v 45000; exec {} pick torch", 123, "error: cuwheel can't go on: "),
        ("entry", "exec {} help >&-", 0, ""),
        ("entry", "exec {} explain /dev/null <&- >&- 2>&-", 121, ""),
        ("entry", _GONE + "exec {} help", 2, "error: the current folder is gone"),
        ("bootstrap", _GONE + "exec {} dev -c pass", 2, "error: the current folder is gone"),
        ("entry", "ulimit -n 6; exec {} pick torch", 123, "error: cuwheel can't go on: "),
        ("entry", "ulimit -n 4; set -- {}; exec $1 -S ${{@:2}} help", 123, "it may open 4"),
        ("entry", "ulimit -f 0; exec {} init own", 121, "`ulimit -f`"),
        ("bootstrap", "ulimit -n 5; exec {} dev -c pass", 123, "error: cuwheel can't go on: "),
    ],
)
def test_ends_without_traceback(
    tmp_path: Path, module: str, script: str, status: int, line: str
) -> None:
    command = f"{sys.executable} {SAFE_PATH} -m cuwheel.{module}"

    finished = subprocess.run(
        ["bash", "-c", script.format(command)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in finished.stderr
    assert finished.returncode == status
    assert line in finished.stderr


def test_names_a_damaged_module_of_python(tmp_path: Path) -> None:
    (tmp_path / f"_ctypes{sysconfig.get_config_var('EXT_SUFFIX')}").touch()
    code = "from cuwheel.base.last_resort import report_limits; report_limits(); import ctypes"
    command = [sys.executable, "-c", code]
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}

    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    assert done.stderr.startswith("error: Python's own module _ctypes can't be imported\n")
    assert done.returncode == InstallError.exit_code
