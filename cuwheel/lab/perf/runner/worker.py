"""Server of a probe's cases, `python worker.py PROBE SITE…`: calls and answers line by line.

A call is a line of JSON on standard input: `do` and its arguments. The answer is a line on the
original standard output, `{"answer": …}` or `{"failure": …}`; the package's own output goes to
standard error. The process ends with its input.

- `start`: GPU, framework, package and cases;
- `free`: bytes of GPU memory that are free now;
- `prepare` `case` `checks`: makes inputs, compares results, repeats the call, reads kernels (these
  with `checks`), and warms the call up;
- `touch` `case`: one call, for a sanitizer;
- `sample` `case` `calls` `subject`: seconds of so many calls of the package or its rival;
- `finish` `case` `checks`: the errors of the last result; its memory is freed;
- `ceilings`: rates of a copy and of matrix products;
- `libraries`: the shared libraries of this process;
- `sweep` `clients` `requests` `model`: the probe's.

SITE are folders of packages that precede all others. A probe with `join` gets a process for each
GPU from `team`, with `--seat=` before PROBE. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import importlib.metadata
import json
import os
import re
import runpy
import site
import statistics
import sys
import sysconfig
import time
import traceback
from typing import IO, TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120

from differences import (  # type: ignore[import-not-found]
    WrongOutputError,
    larger,
    leaves,
    worst,
)
from frameworks import FRAMEWORKS  # type: ignore[import-not-found]
from gpu_driver import (  # type: ignore[import-not-found]
    KernelReader,
    KernelsUnreadableError,
    NoGpuError,
    NvmlGpu,
)
from team import Seat, seat_of, start_team  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from differences import OutputDifference
    from perf_case import Case  # type: ignore[import-not-found]
    from team import Team

_SEEDS = (0, 1)  # of the inputs, which are used in turn
_WARM_SECONDS = 0.3  # of calls before the first that counts: clocks rise, plans are made
_WARM_CALLS = 3  # at least
_LONG = 5.0  # seconds of a call after which no more are made to warm up
# A fault of one call in 64 is met by 300 with a probability of 99 %.
_REPEATS, _FEWEST_REPEATS = 300, 3
_REPEATING = 1.5  # seconds, after which only the fewest are made
_FEWEST_LEVELS = 5  # readings of the memory in use, one after each call
_LEAK = 1 << 20  # bytes by which both halves of the calls grow where memory leaks
_HASHED = 1 << 30  # bytes of an output of which the digest is taken
_SHORTEST = 1e-9  # seconds; nothing is divided by zero
_TEAM_WARM_CALLS = 5  # of several processes, which have to make equally many


class ProbeWorker:
    """A probe in this interpreter, with the inputs of the current case."""

    def __init__(self, probe: dict[str, Any], seat: Seat) -> None:
        """Start the GPU and its framework."""
        self.gpu = NvmlGpu(seat.rank)
        self.probe = probe
        self.seat = seat
        if seat.size > 1:
            probe["join"](*seat)
        self.framework = FRAMEWORKS[probe["FRAMEWORK"]](self.gpu)
        cases = probe["cases"]()
        self.cases: dict[str, Case] = {case.name: case for case in cases}
        if len(self.cases) < len(cases):
            raise ValueError("two cases of the probe have one name")
        self.inputs: list[tuple[Any, ...]] = []
        self.last: Any = None
        self.calls = 0
        self._kernels: KernelReader | None = None
        self._readers: set[str] = set()  # libraries that are only here to read kernels
        # Else the framework's own objects are looked through before and after each case.
        gc.freeze()

    def start(self) -> dict[str, Any]:
        """Return GPU, framework, package and cases."""
        package = importlib.import_module(self.probe["PACKAGE"])
        return {
            "gpu": self.gpu.facts(),
            "gpus": [gpu.facts() for gpu in self._gpus()],
            "framework": self.framework.version(),
            "clock": self.framework.clock,
            "python": sys.version.split()[0],
            "package": str(getattr(package, "__file__", "")),
            "module": package.__name__,
            "site": sysconfig.get_path("purelib"),
            "free": self.gpu.free_memory(),
            "variables": {
                name: os.environ[name]
                for name in ("CUDA_VISIBLE_DEVICES", *self.probe.get("VARIABLES", ()))
                if name in os.environ
            },
            "sweeps": "sweep" in self.probe,
            "untouched": list(self.probe.get("UNTOUCHED", ())),
            "known": self.probe.get("KNOWN_PROBLEMS", {}),
            "cases": [self._facts_of(case) for case in self.cases.values()],
        }

    def _gpus(self) -> list[NvmlGpu]:
        """Return the GPUs on which the calls of this process run."""
        if self.probe.get("GPUS") != "all" or self.seat.size > 1:
            return [self.gpu]
        return [self.gpu, *(NvmlGpu(ordinal) for ordinal in range(1, self.gpu.count()))]

    def free(self) -> int:
        """Return the free bytes of the GPU, without what the framework keeps."""
        self._forget()
        return int(self.gpu.free_memory())

    def prepare(self, case: str, *, checks: bool) -> dict[str, Any]:
        """Return errors of the package and its rival, the kernels, seconds of a call."""
        self._forget()
        current = self.cases[case]
        self.framework.reset_peak()
        self.inputs = [current.inputs(seed) for seed in _SEEDS]
        answer = self._check(current) if checks else {}
        if current.is_timed and not checks:
            self._read_kernels(current)  # from then on the profiler slows the host, in all alike
        if current.is_timed:
            answer |= self._warm_up(current.call, current.host_calls)
            if current.rival and checks and not answer["rival_failure"]:
                rival = self._warm_up(current.rival, current.host_calls)
                answer |= {f"rival_{name}": value for name, value in rival.items()}
        return {**answer, "peak": self.framework.peak()}

    def touch(self, case: str) -> None:
        """Make one call."""
        self._forget()
        current = self.cases[case]
        self.framework.wait(current.call(*current.inputs(_SEEDS[0])))
        self._forget()

    def _facts_of(self, case: Case) -> dict[str, Any]:
        names = ("name", "bytes", "operations", "precision", "rival_name")
        limits = ("limit", "block_factor", "block_reason", "units", "same_bits")
        more = ("has_own_kernels", "is_timed", "is_quick", "gpus", "memory", "is_grid")
        facts = {name: getattr(case, name) for name in (*names, *limits, *more)}
        is_small = case.is_grid or case.host_calls  # copies and zeros may take longest
        own_share = 0.0 if is_small else self.probe.get("OWN_SHARE", 0.0)
        facts["host_calls"] = case.host_calls
        return {**facts, "has_rival": case.rival is not None, "own_share": own_share}

    def _check(self, case: Case) -> dict[str, Any]:
        differences, digests, rival_error, failure = [], [], 0.0, ""
        for arguments in self.inputs:
            expected = case.expected(*arguments)
            actual = self._poisoned(case.call, arguments)
            differences.append(self._difference(case, actual, expected))
            digests.append(self._digest(actual))
            del actual
            if case.rival and not failure:
                try:
                    rivals = self._poisoned(case.rival, arguments)
                    error = self._difference(case, rivals, expected).error
                    rival_error = larger(rival_error, error)
                    del rivals
                except Exception as problem:  # noqa: BLE001 - only the package is measured
                    failure = f"{type(problem).__name__}: {problem}"
            del expected
        return {
            **worst(differences)._asdict(),
            "digest": " ".join(digests) if all(digests) else "",
            **self._repeat(case),
            "rival_error": rival_error if case.rival and not failure else None,
            "rival_failure": failure,
            **self._read_kernels(case),
        }

    def sample(
        self, case: str, calls: int, subject: str, processor: int | None = None
    ) -> list[float]:
        """Return seconds of so many calls, each with a cold L2 and other inputs than the last.

        Args:
            processor: of the host, on which this thread makes them; None: any.
        """
        with _on_processor(processor if self.seat.size == 1 else None):
            return self._sample(case, calls, subject)

    def _sample(self, case: str, calls: int, subject: str) -> list[float]:
        current = self.cases[case]
        is_rival = subject == "rival" and current.rival is not None
        function = current.rival if is_rival else current.call
        times = []
        for _ in range(calls):
            seconds, value = self._call(function, current.host_calls)
            times.append(seconds)
            if subject != "rival":
                self.last = (self.calls, value)
        return times

    def finish(self, case: str, *, checks: bool) -> dict[str, Any]:
        """Return the errors of the last measured call; empty without `checks`."""
        errors = {}
        if self.last is not None and checks:
            number, value = self.last
            expected = self.cases[case].expected(*self.inputs[number % len(self.inputs)])
            errors = self._difference(self.cases[case], value, expected)._asdict()
        self._forget()
        return errors

    def ceilings(self) -> dict[str, float]:
        """Return bytes a second of a copy, operations a second of matrix products, of all GPUs.

        They are measured on the first: where there are several, they are alike.
        """
        rates = {"copy": self.gpu.copy_rate(), **self.framework.product_rates()}
        self.framework.forget()
        return {name: len(self._gpus()) * rate for name, rate in rates.items()}

    def libraries(self) -> list[str]:
        """Return the shared libraries of this process."""
        return sorted(
            path for path in _mapped() - self._readers if ".so" in path.rpartition("/")[2]
        )

    def sweep(self, clients: int, requests: int, model: str | None) -> dict[str, Any]:
        """Run the probe's requests by so many concurrent clients."""
        self._forget()
        return dataclasses.asdict(self.probe["sweep"](clients, requests, model))

    def _poisoned(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return a call's output, in memory that was filled with NaN."""
        self.framework.poison(function(*arguments))
        actual = function(*arguments)
        self.framework.wait(actual)
        return actual

    def _difference(self, case: Case, actual: object, expected: object) -> OutputDifference:
        found = self.framework.difference(actual, expected, is_special=case.is_special)
        return found._replace(bias=0.0) if case.is_uniform else found

    def _digest(self, output: object) -> str:
        """Return the digest of an output; empty: it is too large for it."""
        sizes = [getattr(leaf, "nbytes", 0) for leaf in leaves(output)]
        return str(self.framework.digest(output)) if sum(sizes) <= _HASHED else ""

    def _repeat(self, case: Case) -> dict[str, Any]:
        """Call with the same inputs again and again; return calls with other bits, and a leak."""
        first = case.call(*self.inputs[0])
        self.framework.wait(first)
        count = differing = 0
        difference = 0.0
        levels: list[int] = []
        started = time.perf_counter()
        most = _REPEATS if self.seat.size == 1 else _FEWEST_REPEATS
        while count < most:
            value = case.call(*self.inputs[0])
            self.framework.wait(value)
            count += 1
            if not self.framework.has_same_bits(first, value):
                differing += 1
                difference = larger(difference, self._difference(case, value, first).block_error)
            del value
            levels.append(self.framework.allocated())
            if count >= _FEWEST_REPEATS and time.perf_counter() - started > _REPEATING:
                break
        return {
            "repeats": count,
            "differing": differing,
            "difference": difference,
            "leak": _leak(levels),
        }

    def _read_kernels(self, case: Case) -> dict[str, Any]:
        try:
            if self._kernels is None:
                before = _mapped()
                self._kernels = KernelReader()
                self._readers = {path for path in _mapped() - before if "libcupti" in path}
            kernels = self._kernels.read(
                lambda: self.framework.wait(case.call(*self.inputs[0])), self.framework.wait
            )
        except KernelsUnreadableError as problem:
            return {"kernels": [], "unread": str(problem)}
        return {"kernels": kernels, "unread": ""}

    def _warm_up(self, function: Callable[..., Any], host_calls: int) -> dict[str, float]:
        """Return the median seconds of calls that warm up, and how many processors they need."""
        times: list[float] = []
        started, busy = time.perf_counter(), time.process_time()
        is_team = self.seat.size > 1
        while not _is_warm(len(times), time.perf_counter() - started, is_team=is_team):
            times.append(self._call(function, host_calls)[0])
        seconds = time.perf_counter() - started
        return {
            "seconds": statistics.median(times),
            "processors": (time.process_time() - busy) / max(seconds, _SHORTEST),
        }

    def _call(self, function: Callable[..., Any], host_calls: int) -> tuple[float, object]:
        self.calls += 1
        arguments = self.inputs[self.calls % len(self.inputs)]
        result: tuple[float, object]
        if host_calls:
            result = self.framework.host_seconds(lambda: function(*arguments), host_calls)
        else:
            result = self.framework.seconds(lambda: function(*arguments))
        return result

    def _forget(self) -> None:
        self.inputs, self.last = [], None
        gc.collect()
        self.framework.forget()


def _is_warm(calls: int, seconds: float, *, is_team: bool) -> bool:
    """Return True if so many calls, in so many seconds, suffice to warm up."""
    if is_team:
        return calls >= _TEAM_WARM_CALLS
    is_enough = calls >= _WARM_CALLS and seconds >= _WARM_SECONDS
    return is_enough or (calls > 0 and seconds > _LONG)


@contextlib.contextmanager
def _on_processor(number: int | None) -> Iterator[None]:
    """Let this thread run on one of the host's processors, where that is allowed."""
    before = os.sched_getaffinity(0)
    if number is None or number not in before:
        yield
        return
    os.sched_setaffinity(0, {number})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _mapped() -> set[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
        fields = [line.split(maxsplit=5) for line in lines]
    return {values[5].rstrip("\n") for values in fields if len(values) > 5}  # noqa: PLR2004


def _leak(levels: list[int]) -> int:
    """Return the bytes that each call leaks; 0: memory in use doesn't grow to the end."""
    if len(levels) < _FEWEST_LEVELS:
        return 0
    start, middle, end = levels[0], levels[len(levels) // 2], levels[-1]
    if min(middle - start, end - middle) < _LEAK:
        return 0
    return (end - start) // (len(levels) - 1)


# After these the CUDA context takes no further call (CUDA Runtime API, `cudaError`).
_FATAL = re.compile(
    r"illegal memory access|illegal address|misaligned address|illegal instruction|"
    r"invalid (?:address space|program counter)|hardware stack error|device-side assert|"
    r"unspecified launch failure|launch timed out|unknown error|"
    r"CUDA_ERROR_(?:ILLEGAL|MISALIGNED|LAUNCH_FAILED|ASSERT|UNKNOWN)",
    re.IGNORECASE,
)


def _failure_of(problem: BaseException) -> dict[str, Any]:
    text = f"{type(problem).__name__}: {problem}"
    kind = "failed"
    if isinstance(problem, NoGpuError):
        kind = "no GPU"
    elif isinstance(problem, WrongOutputError):
        kind, text = "wrong", str(problem)
    elif "out of memory" in text.lower() or "RESOURCE_EXHAUSTED" in text:
        kind = "memory"
    elif _FATAL.search(text):
        kind, text = "crashed", text.splitlines()[0]
    return {"kind": kind, "what": text, "traceback": traceback.format_exc()}


class Server:
    """A loop of calls and answers; `seat` is of this process, if another one has started it."""

    def __init__(self, arguments: list[str], seat: Seat | None, answers: IO[str]) -> None:
        """Store the arguments; the probe is loaded at the first call."""
        self._arguments = arguments
        self._seat = seat
        self._answers = answers
        self._probe: dict[str, Any] | None = None
        self._team: Team | None = None
        self._worker: ProbeWorker | None = None

    def answer(self, line: str) -> None:
        """Answer one call, with one line."""
        arguments = json.loads(line)
        action = arguments.pop("do")
        process = os.getpid()
        try:
            probe = self._load()
            if self._team:  # before anything that all of them have to do at once
                self._team.send(line)
            self._worker = self._worker or ProbeWorker(probe, self._seat or Seat())
            answer = {"answer": getattr(self._worker, action)(**arguments)}
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - anything that a package raises
            if os.getpid() != process:  # a child that the package has forked answers nothing
                os._exit(1)
            answer = {"failure": _failure_of(problem)}
            if self._worker:
                with contextlib.suppress(Exception):  # of a CUDA context that takes no calls
                    self._worker._forget()  # noqa: SLF001 - its memory would fail the next case
        if self._team:
            answer = self._team.merge(action, answer)
        self._answers.write(f"{json.dumps(answer)}\n")
        self._answers.flush()

    def _load(self) -> dict[str, Any]:
        """Return the probe, loaded once; with `join` and several GPUs, start its other processes.

        Raises:
            RuntimeError: this Python is too old for probes.
        """
        if self._probe is None:
            if sys.version_info < (3, 10):  # noqa: UP036 - the environment's, not ours
                raise RuntimeError("probes need Python 3.10 or newer")
            self._probe = runpy.run_path(self._arguments[0], run_name="probe")
            if self._probe.get("join") and self._seat is None:
                count = NvmlGpu().count()
                if count > 1:
                    self._seat, self._team = start_team(count, self._arguments, self._answers)
        return self._probe


def main(arguments: list[str]) -> None:
    """Put folders first, keep standard output for answers, and serve."""
    # Packages get other standard streams than those of calls and answers.
    calls, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    seat, arguments = seat_of(arguments)
    _, *folders = arguments
    # Three workers may share a GPU: JAX would take most of it for the first.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    before = list(sys.path)
    for folder in folders:
        site.addsitedir(folder)
    sys.path[:] = [path for path in sys.path if path not in before] + before
    server = Server(arguments, seat, answers)
    for line in calls:
        server.answer(line)
    os._exit(0)  # without the seconds that frameworks take to shut down


if __name__ == "__main__":
    main(sys.argv[1:])
