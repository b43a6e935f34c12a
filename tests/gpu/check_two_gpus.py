"""Check that runs of `perf` on two GPUs don't wait for each other, and that two on one GPU do.

Run by hand on a machine with two GPUs: `python3 tests/gpu/check_two_gpus.py [--python PATH]
[--out FILE]`, from the checkout or anywhere. The interpreter that runs it needs the packages of
`envs/perf.lock`; PATH is one with PyTorch. Two runs are started at once, one for each GPU
(`CUDA_VISIBLE_DEVICES=GPU-<UUID>`), then two for the first GPU. What is said comes from their
reports, their output and their ends. Prints one JSON object; ends with 1 where it isn't so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT = 150  # seconds of one run
# Seconds that a run takes from its lock to its last figure at least: five cases, each with two
# functions that are warmed up for 0.3 s.
LEAST = 3.0
WAITS = "is in use: waiting for"
RECIPE = """\
from cuwheel import MIB, Archive, Link, Recipe, Setuptools, Smoke

RECIPE = Recipe(
    name="doubling",
    version="1.0",
    license="Apache-2.0",
    homepage="https://example.invalid/doubling",
    maintainers=("cuwheel-maintainers",),
    source=Archive(url="http://127.0.0.1:9/doubling-{version}.tar.gz", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("90",),
    requires=("setuptools",),
    build=Setuptools(),
    link=Link(),
    smoke=Smoke(imports=("doubling",)),
    max_wheel_size=2 * MIB,
)
"""
PROBE = """\
import torch
from doubling import double
from perf_case import Case

PACKAGE, FRAMEWORK = "doubling", "torch"
SIZE = 1 << 26


def inputs(seed):
    torch.manual_seed(seed)
    return (torch.randn(SIZE, device="cuda"),)


def cases():
    usual = dict(
        inputs=inputs,
        call=double,
        expected=lambda x: 2 * x.double(),
        limit=1e-6,
        bytes=8 * SIZE,
        has_own_kernels=False,
        rival=lambda x: x + x,
        rival_name="a sum",
    )
    return [Case(name=f"double, time {number}", **usual) for number in range(5)]
"""


def write_project(folder: Path) -> tuple[Path, Path]:
    """A project with a recipe and its probe; a folder with the installed package."""
    project, site = folder / "project", folder / "site"
    perf, package = project / "recipes" / "perf", site / "doubling"
    info = site / "doubling-1.0.dist-info"
    for one in (perf, package, info):
        one.mkdir(parents=True)
    (perf.parent / "doubling.py").write_text(RECIPE)
    (perf / "doubling.py").write_text(PROBE)
    (package / "__init__.py").write_text("def double(x):\n    return 2 * x\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: doubling\nVersion: 1.0\n")
    (info / "RECORD").write_text("doubling/__init__.py,,\ndoubling-1.0.dist-info/RECORD,,\n")
    return project, site


def run(gpu: str, name: str, folder: Path, python: Path) -> dict[str, Any]:
    """One run of `perf` on a GPU; when it began and ended, whether it waited, what it reports."""
    report = folder / name
    words = ["doubling-130", "--python", str(python), "--quick", "--report", str(report)]
    callers = [str(folder / "site"), os.environ.get("CUWHEEL_CALLERS_PYTHONPATH", "")]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "CUWHEEL_CALLERS_PYTHONPATH": os.pathsep.join(filter(None, callers)),
        "CUWHEEL_PROJECT": str(folder / "project"),
        "CUDA_VISIBLE_DEVICES": gpu,
    }
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "cuwheel", "perf", *words],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=TIME_LIMIT,
    )
    found: dict[str, Any] = {
        "GPU": gpu,
        "status": done.returncode,
        "began": began,
        "ended": time.time(),
        "waited": WAITS in done.stdout + done.stderr,
    }
    written = report / "perf.json"
    if not written.is_file():
        return {**found, "said": (done.stdout + done.stderr)[-2000:]}
    measured = json.loads(written.read_text())
    date = datetime.datetime.fromisoformat(measured["date"]).timestamp()
    medians = [case["timing"]["median"] for case in measured["cases"] if case["timing"]]
    return {
        **found,
        "measured until": date,
        "measured on": measured["gpu"]["uuid"],
        "faults": [fault for case in measured["cases"] for fault in case["faults"]],
        "milliseconds": [round(1e3 * one, 4) for one in medians],
    }


def run_two(gpus: tuple[str, str], name: str, folder: Path, python: Path) -> list[dict[str, Any]]:
    """Two runs at once."""
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(run, gpu, f"{name}-{number}", folder, python)
            for number, gpu in enumerate(gpus)
        ]
        return [job.result() for job in jobs]


def faults_of(runs: list[dict[str, Any]], *, is_one_gpu: bool) -> list[str]:
    """What isn't as it has to be with two runs."""
    found = [f"a run ended with {one['status']}" for one in runs if one["status"]]
    if any("measured on" not in one for one in runs):
        return [*found, "a run has no report"]
    found += [
        f"{one['measured on']} was measured, not {one['GPU']}"
        for one in runs
        if one["measured on"] != one["GPU"]
    ]
    waited = sum(one["waited"] for one in runs)
    if waited != is_one_gpu:
        found.append(f"{waited} of two runs waited")
    one, other = sorted(runs, key=lambda run: run["waited"])
    apart = other["measured until"] - one["measured until"]
    if is_one_gpu and apart < LEAST:
        found.append(f"the one that waited was done {apart:.0f} s after the other")
    if not is_one_gpu and other["began"] > one["ended"]:
        found.append("they didn't run at once")
    return found


def gpu_names() -> tuple[str, ...]:
    """The UUIDs of this machine's GPUs."""
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return tuple(done.stdout.split())


def main() -> int:
    """Print what was found; 1 where two runs wait that shouldn't, or don't that should."""
    parser = argparse.ArgumentParser(description="Check runs of perf at once, on two GPUs and one.")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    gpus = gpu_names()
    if len(gpus) < 2:
        print(f"two GPUs are needed, there are {len(gpus)}", file=sys.stderr)  # noqa: T201
        return 2
    first, second, *_ = gpus
    found: dict[str, Any] = {}
    faults = []
    with tempfile.TemporaryDirectory(prefix="cuwheel-two-") as scratch:
        folder = Path(scratch)
        write_project(folder)
        for name, pair in (("two GPUs", (first, second)), ("one GPU", (first, first))):
            runs = run_two(pair, name.replace(" ", "-"), folder, given.python)
            wrong = faults_of(runs, is_one_gpu=len(set(pair)) == 1)
            found[name] = {"runs": runs, "wrong": wrong}
            faults += wrong
    text = json.dumps({"date": datetime.date.today().isoformat(), **found}, indent=1)  # noqa: DTZ011
    if given.out:
        given.out.write_text(f"{text}\n")
    print(text)  # noqa: T201 - its answer
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
