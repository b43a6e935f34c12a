"""A probe's processes, called line by line in the interpreter of the package, and their rounds.

In a round all wheels are measured in random order, so that drift affects all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from cuwheel.base.errors import GpuError, ProbeError, UsageError
from cuwheel.base.paths import script
from cuwheel.base.system.process import Conversation, open_conversation
from cuwheel.base.system.regular_files import parse_json
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.lab.perf.records import PerfRun

_WORKER = "lab/perf/runner/worker.py"
_TAIL = 6  # lines of a traceback that an error shows
_START = 300.0  # seconds for an import of a framework on a slow disk
CALL_LIMIT = 600.0  # seconds
_GONE = 20.0  # seconds for the driver to free the GPU memory of processes that have ended
# Variables that are withheld: the package's output is in the report's folder.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY|^AWS_|^SSH_|^GPG_|^UV_|^PIP_", re.IGNORECASE
)
_SAMPLE = 0.04  # seconds of calls in one sample, about
_MOST_CALLS = 50  # in a sample
# An interval of 99 % needs at least nine rounds: minimum and maximum of eight cover 99.2 %.
_FEWEST, _ROUNDS, _QUICK_ROUNDS = 9, 30, 12
_LONGEST = 15.0  # seconds of all rounds of a case, about, unless the fewest take longer
_FLUSH = 1e-4  # seconds that the L2 is written over between two calls
_SEVERAL = 1.5  # busy processors from which calls have several threads
_MOMENT = 0.2  # seconds in which the host's processors are watched


class OutOfGpuMemoryError(Exception):
    """A case that ran out of GPU memory; the process goes on."""


class CaseCrashedError(Exception):
    """A case that ended its process, or left its GPU context unusable: it needs a new process."""

    def __init__(self, what: str, place: PerfEnvironment) -> None:
        super().__init__(what)
        self.what = what
        self.place = place


class CaseFailedError(Exception):
    """A case that raised, in its call or reference; the process goes on."""

    def __init__(self, what: str, *, is_wrong: bool) -> None:
        super().__init__(what)
        self.what = what
        self.is_wrong = is_wrong


@dataclass(frozen=True, kw_only=True)
class PerfEnvironment:
    """An environment in which a package is measured.

    Attributes:
        folder: of packages that precede the installed ones; None: there is none.
        name: in messages: `the new wheel`.
        environ: the caller's variables.
        is_own: cuwheel made the environment.
    """

    python: Path
    folder: Path | None
    name: str
    confinement: Confinement
    environ: Mapping[str, str] = field(repr=False)
    is_own: bool = False


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """Concurrent requests of one client up to `most`; without a model the weights are random."""

    requests: int
    most: int
    model: str | None


@dataclass(frozen=True, kw_only=True)
class PerfRequest:
    """What is measured, and how.

    Attributes:
        wheel: file name; empty: the installed package.
        old: place of the wheel to compare with; None: there is none.
        past: earlier run to compare with; None: there is none.
        against_sha256: of the wheel's or run's file; empty: nothing is compared.
        tolerance: a share of the time; None: the gate's.
        sweep: None: no concurrent requests.
        sanitizer: compute-sanitizer, if its tools are to run; None: they aren't.
        reference: SHA-256 of the wheel that the recipe names for comparison; empty: none.
        upstream_tests: files and folders of tests in `source`, the package's; empty: none are run.
    """

    recipe: str
    probe: Path
    new: PerfEnvironment
    log: Path
    wheel: str = ""
    sha256: str = ""
    old: PerfEnvironment | None = None
    past: PerfRun | None = None
    against: str = ""
    against_sha256: str = ""
    tolerance: float | None = None
    is_quick: bool = False
    is_shared: bool = False
    sweep: SweepRequest | None = None
    sanitizer: Path | None = None
    reference: str = ""
    upstream_tests: tuple[str, ...] = ()
    source: Path | None = None


class ProbeProcess:
    """A running probe."""

    def __init__(self, conversation: Conversation, place: PerfEnvironment, log: Path) -> None:
        self._pid = conversation.pid
        self.place = place
        self.log = log
        self._conversation = conversation

    @property
    def pids(self) -> frozenset[int]:
        """The ids of its process and all children; in a sandbox the probe is a child of that."""
        return frozenset({self._pid, *(process.pid for process in self.family())})

    def family(self) -> list[psutil.Process]:
        """Return its process and all children, also those of other GPUs; empty: it has ended."""
        try:
            first = psutil.Process(self._pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def call(self, action: str, *, timeout: float = CALL_LIMIT, **arguments: object) -> Any:
        """Call an action of the worker's script.

        Args:
            timeout: seconds.

        Raises:
            GpuError: there is no GPU, or too little of its memory for more than a case.
            OutOfGpuMemoryError: a case ran out of it.
            CaseFailedError: a case raised.
            CaseCrashedError: a case ended the process, or all later calls would fail.
            ProbeError: it raised elsewhere, died, or didn't answer.
        """
        try:
            line = self._conversation.exchange(
                json.dumps({"do": action, **arguments}), timeout=timeout
            )
        except TimeoutError as problem:
            raise self._end(action, arguments, str(problem)) from None
        if line is None:
            status = self._conversation.status()
            raise self._end(action, arguments, f"its process ended with {_describe(status)}")
        try:
            answer = parse_json(line, is_own=True)
        except ValueError:
            why = f"its interpreter printed {line[:80]!r} instead of an answer"
            raise self._error(action, arguments, why) from None
        if failure := answer.get("failure"):
            self._raise(action, arguments, failure)
        return answer["answer"]

    def start(self) -> dict[str, Any]:
        """Start the probe, and return its GPU, framework, package and cases."""
        facts: dict[str, Any] = self.call("start", timeout=_START)
        return facts

    def _raise(self, action: str, arguments: dict[str, object], failure: dict[str, str]) -> None:
        if failure["kind"] == "no GPU":
            raise GpuError(
                f"{self.place.name} can't be measured: there is no GPU for it",
                why=failure["what"],
                fix="nox -s diagnose shows what this machine has; without a GPU, `nox -s smoke "
                "-- TARGET` still imports the wheel",
            )
        if failure["kind"] == "crashed":
            raise self._end(action, arguments, failure["what"])
        if failure["kind"] == "memory":
            if "case" in arguments:
                raise OutOfGpuMemoryError(failure["what"])
            raise GpuError(
                f"{self.place.name}: {action}: too little GPU memory",
                why=failure["what"],
                fix="free some (`nvidia-smi` lists the processes), or use a larger GPU",
            )
        last = failure["traceback"].strip().splitlines()[-_TAIL:]
        if "case" not in arguments:
            raise self._error(action, arguments, "\n".join(last))
        raise CaseFailedError(failure["what"], is_wrong=failure["kind"] == "wrong")

    def _end(self, action: str, arguments: dict[str, object], why: str) -> Exception:
        """Return the error of a process that answers no further call."""
        if "case" in arguments:
            return CaseCrashedError(why, self.place)
        return self._error(action, arguments, why)

    def _error(self, action: str, arguments: dict[str, object], why: str) -> ProbeError:
        what = arguments.get("case") or action
        return ProbeError(
            f"{self.place.name}: {what}: the probe failed",
            why=why,
            fix=f"the full output is in {self.log}; if an import failed, run `nox -s smoke`; if "
            "a call failed, the package or its probe is at fault",
        )


def _describe(status: int | None) -> str:
    """Return `status 7`, or `signal SIGSEGV`."""
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-status).name}"
    return f"status {status}"


@contextlib.contextmanager
def start_probe(
    place: PerfEnvironment, probe: Path, log: Path, *, prefix: Sequence[str | Path] = ()
) -> Iterator[ProbeProcess]:
    """Start a recipe's probe; its process and children end with the block.

    Args:
        prefix: a program with its options that runs the interpreter.

    Raises:
        ProbeError: the interpreter can't be started.
    """
    folders = [place.folder] if place.folder else []
    command: list[str | Path] = [*prefix, place.python, script(_WORKER), probe.absolute(), *folders]
    scripts = (script(_WORKER).parent, probe.absolute())
    confined = replace(place.confinement, read=(*place.confinement.read, *scripts))
    command = [*confined.command(command)]
    try:
        # The user's own environment: a conda one may need its variables.
        with open_conversation(command, env=environment_of(place), log=log) as conversation:
            worker = ProbeProcess(conversation, place, log)
            try:
                yield worker
            finally:
                family = worker.family()
        # Until then NVML reports them as other processes with GPU memory.
        psutil.wait_procs(family, timeout=_GONE)
    except OSError as problem:
        if problem.filename is None:
            raise
        raise ProbeError(
            f"{place.name}: {place.python} can't be started",
            why=str(problem.strerror),
            fix="give the interpreter of an environment: -- --python /path/to/bin/python",
        ) from None


def environment_of(place: PerfEnvironment) -> dict[str, str]:
    """Return the caller's variables, without the engine bootstrap's and without secrets."""
    bootstraps = ("PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8")
    variables = {
        name: value
        for name, value in place.environ.items()
        if name not in bootstraps and not _SECRET.search(name)
    }
    variables["PYTHONUNBUFFERED"] = "1"
    if place.confinement.is_sandboxed:
        variables |= {"HOME": str(place.confinement.folder), "TMPDIR": "/tmp"}  # noqa: S108 - its own
    if place.is_own:
        return {**variables, "PYTHONNOUSERSITE": "1"}
    callers = place.environ.get("CUWHEEL_CALLERS_PYTHONPATH", "")
    return {**variables, "PYTHONPATH": callers} if callers else variables


@dataclass(kw_only=True)
class Player:
    """A function that is measured: the package's in some worker, or the rival's.

    Attributes:
        seconds: of a call, or of those that are timed together; they decide the number of calls.
        processors: of the host, that its calls keep busy.
        rounds: seconds of a call, the typical one of each round.
    """

    worker: ProbeProcess
    subject: Literal["package", "rival"]
    seconds: float
    processors: float = 1.0
    rounds: list[float] = field(default_factory=list)


def play(
    case: Mapping[str, Any],
    players: Sequence[Player],
    *,
    is_quick: bool,
    by_host: bool = False,
    factor: int = 1,
) -> None:
    """Measure all players in each round, in an order that changes; their `rounds` grow.

    Of a sample the median counts; by the host's clock (`by_host`) the least, since what else the
    host does only adds to the time. All then take turns on one of the host's processors: some are
    farther from the GPU. Not where a call has threads of its own: they would take turns too, and
    those that wait for each other in a loop hardly ever end (llama.cpp's on the CPU).
    """
    name, typical = case["name"], min if by_host else statistics.median
    each = sum(_calls(player.seconds) * (player.seconds + _FLUSH) for player in players)
    most = _QUICK_ROUNDS if is_quick else _ROUNDS
    count = max(_FEWEST, min(most, int(_LONGEST / each)))
    is_single = all(player.processors < _SEVERAL for player in players)
    more = {"processor": idle_processor()} if by_host and is_single else {}
    order = list(players)
    chance = random.Random(f"{name} {factor}")  # noqa: S311 - an order, the same in each run
    for _ in range(factor * count):
        chance.shuffle(order)
        for player in order:
            calls = _calls(player.seconds)
            times: Any = player.worker.call(
                "sample", case=name, calls=calls, subject=player.subject, **more
            )
            player.rounds.append(typical(times))


def idle_processor() -> int:
    """Return the number of the host's processor that did least in the last moment."""
    busy = psutil.cpu_percent(interval=_MOMENT, percpu=True)
    allowed = [number for number in os.sched_getaffinity(0) if number < len(busy)]
    return min(allowed, key=lambda number: (busy[number], -number))


def _calls(seconds: float) -> int:
    return max(1, min(_MOST_CALLS, round(_SAMPLE / (seconds + _FLUSH))))


def check_cases(started: Mapping[str, Any], request: PerfRequest) -> None:
    """Check that the probe can serve the request, before an hour is measured; raises UsageError."""
    quick = " that is quick" if request.is_quick else ""
    if not any(case["is_quick"] or not request.is_quick for case in started["cases"]):
        raise UsageError(
            f"the probe of {request.recipe} has no case{quick}",
            why=f"`cases()` of {request.probe.name} returns none",
            fix="omit --quick" if quick else f"add cases to {request.probe}",
        )
    if request.sweep and not started["sweeps"]:
        raise UsageError(
            f"--sweep: the probe of {request.recipe} has no requests to make",
            why=f"{request.probe.name} defines no `sweep`",
            fix="omit --sweep",
        )


def check_imports(
    started: Mapping[str, Any], others: Sequence[Mapping[str, Any]], request: PerfRequest
) -> None:
    """Check that each process imported the wheel that it was started for, on one GPU.

    Raises:
        ProbeError: something else was imported, or the GPUs differ.
    """
    places = [request.new, *([request.old] if request.old else [])]
    for place, facts in zip(places, (started, *others), strict=False):
        folder = place.folder or (Path(facts["site"]) if place.is_own else None)
        path = Path(facts["package"]).resolve()
        if folder and not path.is_relative_to(folder.resolve()):
            raise ProbeError(
                f"{place.name}: {facts['module']} was imported from {path}",
                why="that isn't the wheel's: the wheel doesn't contain the module, or a folder "
                "on sys.path comes before it",
                fix="give a wheel of the package that the probe is for; remove folders with "
                "such a module from PYTHONPATH",
            )
    if any(facts["gpu"]["uuid"] != started["gpu"]["uuid"] for facts in others):
        raise ProbeError(
            "the wheels were given two GPUs",
            why="each process uses the first GPU that is visible to it",
            fix="select one: CUDA_VISIBLE_DEVICES=0",
        )
