"""`cache -- why`: the compiles of the last build that ran, with what differed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.documents import read_document

COMPILE = {
    "kind": "compile",
    "name": "nvcc",
    "archs": ["90"],
    "start": 1.0,
    "end": 9.0,
    "status": 0,
    "cached": "sccache",
}
TOOL = {
    "kind": "tool",
    "arch": "",
    **dict.fromkeys(("asked", "start", "end"), 1.0),
    **dict.fromkeys(("peak", "expected", "status"), 0),
    "tries": 1,
}
TAKEN = {"kind": "shared", "made_for": "linux_x86_64", "taken_for": "linux_x86_64"}
PYTHON = "/python/3.13/include/python3.13/Python.h"
DIFFERENCES = ["Python added 3.13.0", "Python removed 3.12.1", f"Python added {PYTHON}"]
DIFFERENCES += ["archs added 80 90"]
DIFFERENCES += [
    "flag added -O3",
    "variable changed CFLAGS",
    "source changed a.cu",
    "header removed b",
]


def write_events(work: Path, target: str, age: float = 0.0) -> None:
    """Write the log of a build: one hit, and four compiles that ran."""
    inputs = {
        "differs": {"known": 1, "differences": DIFFERENCES, "count": 10},
        "first": {"known": 0, "differences": [], "count": 0},
        "same": {"known": 1, "differences": [], "count": 0},
        "uncached": None,
        "hit": None,
    }
    events: list[dict[str, Any]] = [TAKEN]
    for name, noted in inputs.items():
        events.append({**COMPILE, "id": name, "file": f"/cuwheel/source/{name}.cu"})
        if name != "hit":
            events.append({**TOOL, "compile": name, "name": "cicc", "file": name, "arch": "90"})
            events.append({**TOOL, "compile": name, "name": "g++", "file": name})
        if noted:
            events.append({"kind": "inputs", "compile": name, **noted})
    log = work / target / "logs" / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    os.utime(log, (1_700_000_000 - age,) * 2)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_events(tmp_path, "tiny-130-cp312")
    write_events(tmp_path, "other-130-cp312", age=60.0)
    return tmp_path


TEXT = """\
/cuwheel/source/differs.cu: cicc 90, g++ ran
  Python 3.13.0 added
  Python 3.12.1 removed
  Python /python/3.13/include/python3.13/Python.h added
  archs 80 90 added: CUB and Thrust put the list of archs into names, so each arch is compiled anew
  flag -O3 added
  variable CFLAGS changed
  and 4 more
/cuwheel/source/first.cu: cicc 90, g++ ran
  never compiled before
/cuwheel/source/same.cu: cicc 90, g++ ran
  nothing differs: its result isn't kept any more (CUWHEEL_COMPILE_CACHE_SIZE)
/cuwheel/source/uncached.cu: cicc 90, g++ ran
  it failed, or the compile cache was off
tiny-130-cp312: 4 of 5 compiles ran, 1 step of device code taken
"""


def test_says_why_compiles_ran(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command("cache", ["why", "--work", str(work)], Console())

    assert capsys.readouterr().out == TEXT


@pytest.mark.parametrize(
    ("options", "lines"), [(["--quiet"], ["", 1]), (["--verbose"], ["  header b removed", 17])]
)
def test_says_more_or_less(
    work: Path, options: list[str], lines: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run_command("cache", ["why", "--work", str(work), *options], Console())

    written = capsys.readouterr().out
    assert lines[0] in written
    assert len(written.splitlines()) == lines[1]


def test_returns_data_of_the_named_target(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command("cache", ["why", "other-130", "--work", str(work), "--json"], Console())

    document = read_document(capsys.readouterr().out, "cache-why")
    assert document["target"] == "other-130-cp312"
    assert (document["compiles"], document["hits"], document["reused"]) == (5, 1, 1)
    assert [each["state"] for each in document["ran"]] == ["differs", "first", "same", "unknown"]
    assert document["ran"][0]["differences"][4] == {
        "kind": "flag",
        "change": "added",
        "name": "-O3",
    }


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["why", "oth"], "no record of the compiles of oth"),
        (["why", "--work", "nowhere"], "no record of the compiles of a build"),
        (["why", "--prune"], "can't be combined"),
        (["why", "--dry-run"], "can't be combined"),
        (["who"], "unexpected argument"),
    ],
)
def test_refuses(work: Path, words: list[str], fact: str) -> None:
    with pytest.raises(UsageError, match=fact):
        run_command("cache", ["--work", str(work), *words], Console())
