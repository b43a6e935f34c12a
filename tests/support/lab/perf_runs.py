"""A package, its probe and a driver without a GPU, so that `perf` runs as a whole."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.lab.perf.probe_process import PerfEnvironment, PerfRequest
from cuwheel.lab.perf.records import (
    CaseResult,
    Clocks,
    Comparison,
    GpuFacts,
    PerfRun,
    SweepResult,
    Timing,
)
from tests.support.factories import compile_library, write_wheel

DRIVER = Path(__file__).with_name("driver.c")
RIGHT = "def double(x):\n    return 2 * x\n"
PROBE = """\
import numpy as np
from measured import double
from perf_case import Case, Sweep

PACKAGE, FRAMEWORK, VARIABLES = "measured", "host", ("MEASURED_LIKE",)


def cases():
    usual = dict(
        inputs=lambda seed: (np.random.default_rng(seed).random(1000),),
        call=double,
        expected=lambda x: x + x,
        limit=1e-12,
        bytes=16000,
        has_own_kernels=False,
        memory=1 << 20,
    )
    return [
        Case(name="large", rival=lambda x: x + x, rival_name="sum", **usual),
        Case(name="small", is_timed=False, **usual),
        Case(name="slow to measure", is_quick=False, **usual),
        Case(name="two", gpus=2, **usual),
    ]


def sweep(clients, requests, model):
    return Sweep(what=str(model), seconds=(0.1,) * requests, total=0.1 * requests, tokens=7)
"""


def install_driver(folder: Path) -> Path:
    """Make the driver; the folder for `LD_LIBRARY_PATH`."""
    compile_library(folder / "libcuda.so.1", "gcc", "-fPIC", DRIVER)
    return folder


def write_package(folder: Path, code: str = RIGHT, version: str = "1.0+cu130") -> Path:
    """A wheel of a package with one module."""
    files = {"measured.py": code.encode()}
    return write_wheel(folder, files, name="measured", version=version, tag="py3-none-any")


def write_probe(folder: Path, text: str = PROBE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "measured.py"
    path.write_text(text)
    return path


def unpack(wheel: Path, folder: Path) -> Path:
    """As an installer would, without its own files."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def without_sandbox(folder: Path) -> Confinement:
    """Where a probe sees all that the test does."""
    return Confinement(
        sandbox="none", environment=Path(sys.prefix), base=None, folder=folder / "own"
    )


def request_for(folder: Path, code: str = RIGHT, *, probe: str = PROBE, **more: Any) -> PerfRequest:
    """What `perf` is asked for, for a package with this code."""
    wheel = write_package(folder / "wheel", code)
    place = PerfEnvironment(
        python=Path(sys.executable),
        folder=unpack(wheel, folder / "new"),
        name="the new",
        confinement=without_sandbox(folder),
        environ=os.environ,
    )
    usual: Mapping[str, Any] = {
        "recipe": "measured",
        "probe": write_probe(folder / "probes", probe),
        "new": place,
        "log": folder / "perf.log",
        "is_quick": True,
    }
    return PerfRequest(**{**usual, **more})


def make_timing(median: float = 1e-3, spread: float = 0.001) -> Timing:
    low, high = median * (1 - spread), median * (1 + spread)
    return Timing(median=median, low=low, high=high, rounds=(low, median, high))


def make_case(name: str = "forward", **more: Any) -> CaseResult:
    usual: dict[str, Any] = {
        "name": name,
        "error": 1e-6,
        "limit": 1e-3,
        "block_error": 2.5e-6,
        "block": "elements 512 to 767",
        "block_limit": 4e-3,
        "timing": make_timing(),
        "rival_timing": make_timing(2e-3),
        "rival_name": "torch",
        "rival_error": 1e-5,
        "bytes_rate": 2.5e12,
        "operations_rate": 3e12,
        "precision": "bf16",
        "ceiling_share": 0.83,
        "own_share": 1.0,
        "kernels": (("_Z6kernelv", 1.0),),
        "cycles": 1.98e6,
        "clocks": Clocks(sm=(1900, 1980, 1980), memory=(2619,) * 3, temperature=50, power=300.0),
    }
    return CaseResult(**{**usual, **more})


def make_run(*cases: CaseResult, **more: Any) -> PerfRun:
    usual: dict[str, Any] = {
        "recipe": "measured",
        "package": "measured 1.0",
        "wheel": "measured-1.0-py3-none-any.whl",
        "sha256": "ab" * 32,
        "date": "2026-11-23T09:00:00+00:00",
        "gpu": GpuFacts(
            name="Test GPU", uuid="GPU-7", capability="90", driver="580", memory=8 << 30
        ),
        "framework": "torch 2.11.0",
        "python": "3.12.3",
        "clock": "device events",
        "variables": {"MEASURED_LIKE": "<this>"},
        "ceilings": {"copy": 3e12, "bf16": 8e14},
        "cases": cases or (make_case(),),
        "libraries": (("libc10.so", "torch/lib/libc10.so", "torch 2.11.0"),),
        "sweep": (
            SweepResult(
                clients=1,
                what="small",
                requests=20,
                rate=5.0,
                tokens=160.0,
                p50=0.2,
                p95=0.3,
                memory=1 << 29,
            ),
        ),
        "notes": ("clocks were limited",),
        "cuwheel": "0.1.0",
        "commit": "c0ffee" * 6 + "c0ff",
    }
    return PerfRun(**{**usual, **more})


def compared(answer: Any, ratio: float = 1.0) -> Comparison:
    return Comparison(answer=answer, ratio=ratio, low=ratio - 0.01, high=ratio + 0.01, noise=0.002)
