"""Reports of compute-sanitizer, as NVIDIA's documentation shows them, and runs under it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.lab.perf.measurement import measure
from cuwheel.lab.perf.records import Sanitizing
from cuwheel.lab.perf.sanitizer import (
    check_sanitizer,
    find_sanitizer,
    read_report,
    small_cases,
    without_known,
)
from tests.support.lab.perf_runs import PROBE, install_driver, request_for

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at void scale<float>(T1 *, int, T1)+0xb0
=========     by thread (31,0,0) in block (3,0,0)
=========     Access to 0x7f6510c00200 is out of bounds
=========
========= Invalid __global__ write of size 4 bytes
=========     at void scale<float>(T1 *, int, T1)+0xb0
=========     by thread (30,0,0) in block (3,0,0)
=========
========= Invalid __global__ read of size 8 bytes
=========     at void at::native::vectorized_elementwise_kernel<(int)4>(int)+0x10
=========
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at scale(float *)+0x80
=========     and Read access at scale(float *)+0x100 [124 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
SANITIZER = """\
#!{python}
import os, sys
words = sys.argv[1:]
report, tool = (words[words.index(name) + 1] for name in ("--log-file", "--tool"))
with open(report, "w") as stream:
    stream.write({reports!r}.get(tool, "========= ERROR SUMMARY: 0 errors\\n"))
start = next(i for i, word in enumerate(words) if "python" in word)
os.execv(words[start], words[start:])
"""
OWN = ("_Z5scaleIfEvPT_iS0_",)


@pytest.mark.parametrize(
    ("text", "own", "problems"),
    [
        (MEMCHECK, OWN, ["scale: Invalid __global__ write of size 4 bytes (2 times)"]),
        (
            MEMCHECK,
            (),
            [
                "Invalid __global__ write of size 4 bytes (2 times)",
                "Invalid __global__ read of size 8 bytes",
            ],
        ),
        (RACECHECK, OWN, ["scale: Error: Race reported between Write access"]),
        (RACECHECK, ("_Z5otherv",), []),
        ("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", OWN, []),
    ],
)
def test_reads_problems_of_own_kernels(
    text: str, own: tuple[str, ...], problems: list[str]
) -> None:
    assert list(read_report(text, own)) == problems


def test_known_problems_are_no_faults() -> None:
    problems = ("scale: Invalid __global__ read of size 4 bytes (2 times)", "scale: Race")
    result = Sanitizing(tool="memcheck", cases=("a",), problems=problems, seconds=1.0)

    left = without_known(
        result, {"memcheck: scale: Invalid __global__ read": "upstream's issue 12"}
    )

    assert left.problems == ("scale: Race",)
    assert left.known == (f"{problems[0]}: upstream's issue 12",)
    assert without_known(result, {"racecheck: scale": "other"}) == result


def test_small_cases_are_those_of_the_grid() -> None:
    usual = {"memory": 1, "gpus": 1}
    cases = [{"name": "a", "is_grid": True, **usual}, {"name": "b", "is_grid": False, **usual}]

    assert small_cases(cases) == ("a",)
    assert small_cases(cases[1:]) == ("b",)
    assert small_cases([{**cases[1], "memory": 1 << 40}]) == ()


def test_missing_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuwheel.lab.perf.sanitizer._FOLDERS", ())

    with pytest.raises(UsageError) as caught:
        check_sanitizer({"PATH": str(tmp_path)})

    assert "there is no compute-sanitizer on this machine" in caught.value.what


def write_sanitizer(folder: Path, **reports: str) -> Path:
    """A program that runs the rest of its command, and leaves the reports of its tools."""
    path = folder / "bin" / "compute-sanitizer"
    path.parent.mkdir()
    path.write_text(SANITIZER.format(python=sys.executable, reports=reports))
    path.chmod(0o755)
    found = find_sanitizer({"PATH": str(path.parent)})
    assert found == path
    return found


@pytest.fixture
def _gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(install_driver(tmp_path / "driver")))


@pytest.mark.usefixtures("_gpu")
def test_runs_the_small_cases_under_each_tool(tmp_path: Path) -> None:
    request = request_for(tmp_path)
    program = write_sanitizer(tmp_path, racecheck=RACECHECK)

    run = measure(dataclasses.replace(request, sanitizer=program), Console())

    assert [part.tool for part in run.sanitizing] == [
        "memcheck",
        "racecheck",
        "initcheck",
        "synccheck",
    ]
    assert {part.cases for part in run.sanitizing} == {("large", "small")}
    assert run.faults == ("racecheck: Error: Race reported between Write access",)
    assert run.seconds["sanitize"] > 0


@pytest.mark.usefixtures("_gpu")
def test_crash_is_explained_by_memcheck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sanitizer(tmp_path, memcheck=MEMCHECK.partition("========= Invalid __global__ read")[0])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    code = "import os\ndef double(x):\n    os._exit(7)\n"
    request = request_for(tmp_path, code, probe=PROBE)

    run = measure(request, Console())

    assert run.cases[0].failed == (
        "its process ended with status 7; memcheck: Invalid __global__ write of size 4 bytes "
        "(2 times)"
    )
