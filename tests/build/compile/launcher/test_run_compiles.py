"""The runner of a shard's compiles: folders, variables, whole output, the first failure."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import Finished, run

_SCRIPT = ROOT / "cuwheel/build/compile/launcher/run_compiles.py"


def _run(folder: Path, *scripts: str, jobs: int = 2, **fields: object) -> Finished:
    """Run each shell script as a compile."""
    path = folder / "share.jsonl"
    lines = [
        json.dumps(
            {
                "name": f"{number}.cu",
                "folder": str(folder),
                "arguments": ["/bin/sh", "-c", script],
                "variables": [f"PATH={os.environ['PATH']}"],
                **fields,
            }
        )
        for number, script in enumerate(scripts)
    ]
    path.write_text("\n".join([*lines, ""]))
    return run([sys.executable, "-ISB", _SCRIPT, path, str(jobs)], env={}, check=False)


def test_runs_each_in_its_folder_with_its_variables_only(tmp_path: Path) -> None:
    done = _run(tmp_path, "pwd; echo $A; env | wc -l", variables=["A=b=c"])

    assert done.status == 0
    assert done.output.splitlines()[:3] == ["[1/1] 0.cu", str(tmp_path), "b=c"]


def test_runs_so_many_at_once_and_never_mixes_their_output(tmp_path: Path) -> None:
    """Each waits for the other, and then writes two lines."""
    meets = "touch {0}; until [ -e {1} ]; do sleep 0.01; done; echo {0}; echo {0}"

    done = _run(tmp_path, meets.format("a", "b"), meets.format("b", "a"))

    lines = done.output.splitlines()
    assert [lines[1], lines[4]] == [lines[2], lines[5]]
    assert [lines[0].split()[0], lines[3].split()[0]] == ["[1/2]", "[2/2]"]


def test_first_failure_is_the_status_and_the_last_start(tmp_path: Path) -> None:
    done = _run(tmp_path, "echo broken >&2; exit 3", "touch started", jobs=1)

    assert done.status == 3
    assert done.output == "[1/2] 0.cu\nbroken\n"
    assert not (tmp_path / "started").exists()


def test_a_signal_is_a_status_as_shells_have_it(tmp_path: Path) -> None:
    assert _run(tmp_path, "kill -KILL $$").status == 137


def test_ignores_what_is_no_variable(tmp_path: Path) -> None:
    done = _run(tmp_path, "echo $A", variables=["NOEQ", "=x", "A=b"])

    assert (done.status, done.output) == (0, "[1/1] 0.cu\nb\n")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"variables": ["A=\0"]}, "null byte"),
        ({"arguments": ["/bin/true", "\0"]}, "null byte"),
        ({"arguments": ["/nowhere/nvcc"]}, "No such file"),
        ({"arguments": ["\ud800"]}, "surrogates"),
    ],
)
def test_a_compile_that_cannot_be_started_fails(
    fields: dict[str, object], why: str, tmp_path: Path
) -> None:
    done = _run(tmp_path, "echo no", **fields)  # type: ignore[arg-type]

    assert done.status == 127
    assert done.output.startswith("[1/1] 0.cu\nit can't be started: ")
    assert why in done.output
    assert "Traceback" not in done.output
