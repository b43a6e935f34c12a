"""Nightly runs of tests: a recorder, cells, and a stand-in for the engine's commands."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

from cuwheel.check.diagnose.facts.machine import DriverGpu
from cuwheel.lab.matrix.state import Cell
from cuwheel.lab.nightly.cycle import NightlyOptions
from cuwheel.lab.nightly.record import NightlyRun, Step
from cuwheel.lab.nightly.recorder import Recorder
from tests.support.factories import make_target, make_workspace
from tests.support.lab.matrices import make_cell

GPU = DriverGpu(index=0, name="NVIDIA H200", uuid="GPU-1a2b")
STARTED = "2026-11-23T02:30:00+00:00"
FAILED = Step(
    name="build",
    about="tiny-130-cp312",
    state="failed",
    detail="status 61: it <broke>",
    seconds=3.5,
    log="logs/build.log",
    explanation="ptxas was killed: out of memory",
)


def make_run(**changes: Any) -> NightlyRun:
    usual: dict[str, Any] = {
        "started": STARTED,
        "host": "builder",
        "commit": "0123456789abcdef",
        "gpus": ("NVIDIA H200",),
        "driver": "580.95",
        "steps": (Step(name="diagnose", seconds=1.0), FAILED),
        "ended": "2026-11-23T02:31:00+00:00",
    }
    return NightlyRun(**{**usual, **changes})


def make_recorder(folder: Path, *, seconds: float = 60.0, **changes: Any) -> Recorder:
    """A recorder of a run that has this much time left and has done nothing yet."""
    folder.mkdir(parents=True)
    run = make_run(**{"steps": (), "ended": "", **changes})
    workspace = make_workspace(folder)
    deadline = time.monotonic() + seconds
    return Recorder(folder, run, deadline, workspace.console, environ=workspace.environ)


def make_unbuilt_cell(folder: Path, **changes: Any) -> Cell:
    """A cell of a target that was never built."""
    return make_cell(make_target(root=folder, **changes), make_workspace(folder), jobs=2)


def make_options(reports: Path, *cells: Cell, **changes: Any) -> NightlyOptions:
    options = NightlyOptions(
        choose=lambda _: cells,
        are_named=True,
        reports=reports,
        time_limit=5,
        keep=3,
        gpus=(GPU,),
        driver="580.159.04",
        no_gpu="there is none",
    )
    return dataclasses.replace(options, **changes)


def python_command(code: str, *words: str) -> list[str]:
    """A program of Python code."""
    return [sys.executable, "-c", code, *words]
