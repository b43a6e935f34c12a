"""NVIDIA's compute-sanitizer on small cases: its tools run the probe, and its reports are read.

Only reports on the wheel's own kernels count: a framework's are not under test. PyTorch's cache of
blocks is off meanwhile, so that each tensor is an allocation of which memcheck knows the end.

Options and reports: https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from cuwheel.base.errors import GpuError, ProbeError, UsageError
from cuwheel.base.system import process
from cuwheel.base.system.regular_files import read_text
from cuwheel.lab.perf.kernels import show_kernel
from cuwheel.lab.perf.probe_process import (
    CaseCrashedError,
    CaseFailedError,
    OutOfGpuMemoryError,
    PerfRequest,
    start_probe,
)
from cuwheel.lab.perf.records import Sanitizing

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")
_PROGRAM = "compute-sanitizer"
_FOLDERS = ("/usr/local/cuda/bin", "/opt/cuda/bin", "/usr/local/cuda/compute-sanitizer")
_OPTIONS = ("--print-limit", "2000", "--show-backtrace", "no")
_MEMCHECK = ("--destroy-on-device-error", "kernel")  # the next case can still run
_EACH = 90.0  # seconds of a tool, after which it gets no further case
_CALL = 120.0  # seconds of one case at most
_VARIABLES = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_SMALL = 256 << 20  # bytes that a case without a grid may need
_HEADS = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "LEAK SUMMARY", "Target app")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\[\d+ hazards?\]")


def find_sanitizer(environ: Mapping[str, str]) -> Path | None:
    """Return the program in the caller's PATH, in CUDA_HOME or where CUDA is installed usually."""
    homes = [environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    folders = [environ.get("PATH", os.defpath), *(f"{home}/bin" for home in homes), *_FOLDERS]
    found = process.which(_PROGRAM, os.pathsep.join(folders))
    return Path(found).resolve() if found else None


def check_sanitizer(environ: Mapping[str, str]) -> Path:
    """Return the program; raises UsageError where there is none."""
    program = find_sanitizer(environ)
    if program is None:
        raise UsageError(
            f"--sanitize: there is no {_PROGRAM} on this machine",
            why="it isn't in PATH, CUDA_HOME or /usr/local/cuda",
            fix="install the CUDA toolkit, or its package cuda-sanitizer, and put its folder into "
            "PATH",
        )
    return program


def small_cases(cases: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of the cases of a probe that a sanitizer runs: those of its grid, if any."""
    grid = [facts["name"] for facts in cases if facts["is_grid"]]
    small = [facts["name"] for facts in cases if facts["memory"] <= _SMALL and facts["gpus"] == 1]
    return tuple(grid or small)


def sanitize(
    request: PerfRequest, program: Path, cases: Sequence[str], own_kernels: Collection[str]
) -> Iterator[Sanitizing]:
    """Run each tool on some cases of the new wheel; one that can't run has no cases."""
    for tool in TOOLS:
        result = Sanitizing(tool=tool, cases=(), problems=(), seconds=0.0)
        with contextlib.suppress(GpuError, ProbeError):
            result = run_tool(tool, request, program, cases, own_kernels)
        yield result


def run_tool(
    tool: Tool,
    request: PerfRequest,
    program: Path,
    cases: Sequence[str],
    own_kernels: Collection[str],
) -> Sanitizing:
    """Run one tool on some cases; raises ProbeError if it can't run."""
    place = request.new
    place.confinement.folder.mkdir(parents=True, exist_ok=True)
    report = place.confinement.folder / f"{tool}.log"
    confinement = replace(
        place.confinement, read=(*place.confinement.read, program.parent, program.parent.parent)
    )
    place = replace(place, confinement=confinement, environ={**place.environ, **_VARIABLES})
    more = _MEMCHECK if tool == "memcheck" else ()
    prefix = (program, "--tool", tool, "--log-file", report, *_OPTIONS, *more)
    started, done = time.monotonic(), []
    with start_probe(place, request.probe, request.log, prefix=prefix) as worker:
        worker.start()
        for name in cases:
            try:
                worker.call("touch", case=name, timeout=_CALL)
            except (CaseFailedError, OutOfGpuMemoryError):
                continue  # its own run says why
            except CaseCrashedError:
                done.append(name)
                break
            done.append(name)
            if time.monotonic() - started > _EACH:
                break
    if not report.is_file():
        raise ProbeError(
            f"{place.name}: {tool} wrote no report",
            why=f"{program} started the probe, and {report.name} doesn't exist",
            fix=f"its output is in {request.log}",
        )
    return Sanitizing(
        tool=tool,
        cases=tuple(done),
        problems=tuple(read_report(read_text(report), own_kernels)),
        seconds=time.monotonic() - started,
    )


def without_known(result: Sanitizing, known: Mapping[str, str]) -> Sanitizing:
    """Return a result whose problems aren't those that the probe names, by how they begin."""
    reasons = {
        problem: why
        for problem in result.problems
        for text, why in known.items()
        if f"{result.tool}: {problem}".startswith(text)
    }
    return replace(
        result,
        problems=tuple(problem for problem in result.problems if problem not in reasons),
        known=tuple(f"{problem}: {why}" for problem, why in reasons.items()),
    )


def read_report(text: str, own_kernels: Collection[str]) -> Iterator[str]:
    """Yield each problem of a tool's report once: kernel, what, how often.

    Args:
        own_kernels: mangled names; others' problems don't count. Empty: all count.
    """
    own = {show_kernel(name).rpartition("::")[2].removesuffix("…") for name in own_kernels}
    counts: Counter[str] = Counter()
    for problem in _records(text):
        words = set(re.findall(r"\w+", " ".join(problem)))
        kernels = sorted(own & words)
        if own and not kernels:
            continue
        what = _NUMBERS.sub("", problem[0]).partition(" at ")[0].strip()
        counts[": ".join(filter(None, (", ".join(kernels), what)))] += 1
    for problem_text, count in counts.items():
        yield f"{problem_text} ({count} times)" if count > 1 else problem_text


def _records(text: str) -> Iterator[list[str]]:
    """Yield the lines of each problem: one that isn't indented, and those below it."""
    problem: list[str] = []
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        content = line.lstrip("=")[1:]
        is_detail = content.startswith(" ")
        if problem and not is_detail:
            yield problem
            problem = []
        if is_detail and problem:
            problem.append(content.strip())
        elif content and not is_detail and not content.startswith(_HEADS):
            problem = [content]
    if problem:
        yield problem
