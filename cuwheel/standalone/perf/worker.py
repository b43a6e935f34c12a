"""Run a probe's cases when asked: `python worker.py PROBE SITE…`, questions and answers by line.

A question is a line of JSON on standard input with `do` and what belongs to it; the answer is one
line on what was standard output, `{"answer": …}` or `{"failure": …}`. What the package prints goes
to standard error. The process ends with its input.

- `start`: GPU, framework, package and cases;
- `prepare` `case` `checks`: inputs are made, with `checks` the results compared and the kernels
  read, then the call is warmed up;
- `sample` `case` `calls` `whose`: seconds of so many calls of the package or its rival;
- `finish` `case` `checks`: the errors of the last result; its memory is given back;
- `ceilings`: what a copy and a matrix product reach;
- `libraries`: the shared libraries of this process;
- `sweep` `clients` `requests` `model`: as the probe has it.

SITE are folders of packages that come before all others. A probe that wants a process for each GPU
(`join`) gets the others from `team`, with `--seat=` before PROBE. Standard library only, Python 3.9
or newer.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import os
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
    worst,
)
from frameworks import FRAMEWORKS  # type: ignore[import-not-found]
from gpu_driver import Gpu, NoGpuError  # type: ignore[import-not-found]
from kernel_reader import (  # type: ignore[import-not-found]
    KernelReader,
    KernelsUnreadableError,
)
from team import Seat, seat_of, start_team  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from collections.abc import Callable

    from differences import Difference
    from perf_case import Case  # type: ignore[import-not-found]
    from team import Team

_SEEDS = (0, 1)  # of the inputs, which are used in turn
_WARM_SECONDS = 0.3  # of calls before the first that counts: clocks rise, plans are made
_WARM_CALLS = 3  # at least
_LONG = 5.0  # seconds of a call after which no more are made to warm up
_TEAM_WARM_CALLS = 5  # of several processes, which have to make equally many


class Worker:
    """A probe in this interpreter, and what was made for the case that is measured now.

    Args:
        probe: the file's names.
        seat: which process this is, of those that run the probe.
    """

    def __init__(self, probe: dict[str, Any], seat: Seat) -> None:
        """Start the GPU and its framework."""
        self.gpu = Gpu(seat.rank)
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

    def start(self) -> dict[str, Any]:
        """GPU, framework, package and cases."""
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
            "cases": [self._facts_of(case) for case in self.cases.values()],
        }

    def _gpus(self) -> list[Gpu]:
        """Those that the calls of this process run on."""
        if self.probe.get("GPUS") != "all" or self.seat.size > 1:
            return [self.gpu]
        return [self.gpu, *(Gpu(ordinal) for ordinal in range(1, self.gpu.count()))]

    def prepare(self, case: str, *, checks: bool) -> dict[str, Any]:
        """Errors of the package and of its rival, the kernels that ran, seconds of a call."""
        self._forget()
        one = self.cases[case]
        self.inputs = [one.inputs(seed) for seed in _SEEDS]
        found = self._check(one) if checks else {}
        if one.is_timed:
            found["seconds"] = self._warm_up(one.call)
            if one.rival and checks and not found["rival_failure"]:
                found["rival_seconds"] = self._warm_up(one.rival)
        return found

    def _facts_of(self, case: Case) -> dict[str, Any]:
        names = ("name", "bytes", "operations", "precision", "rival_name")
        limits = ("limit", "block_factor", "block_reason")
        more = ("has_own_kernels", "is_timed", "is_quick", "gpus", "memory")
        facts = {name: getattr(case, name) for name in (*names, *limits, *more)}
        own_share = self.probe.get("OWN_SHARE", 0.0)
        return {**facts, "has_rival": case.rival is not None, "own_share": own_share}

    def _check(self, case: Case) -> dict[str, Any]:
        found, rivals, failure = [], 0.0, ""
        for arguments in self.inputs:
            expected = case.expected(*arguments)
            found.append(self._difference(case.call, arguments, expected))
            if case.rival and not failure:
                try:
                    other = self._difference(case.rival, arguments, expected)
                    rivals = larger(rivals, other.error)
                except Exception as problem:  # noqa: BLE001 - it is not what is measured
                    failure = f"{type(problem).__name__}: {problem}"
            del expected
        return {
            **worst(found)._asdict(),
            "rival_error": rivals if case.rival and not failure else None,
            "rival_failure": failure,
            **self._read_kernels(case),
        }

    def sample(self, case: str, calls: int, whose: str) -> list[float]:
        """Seconds of so many calls, each with other inputs than the one before and a cold L2."""
        one = self.cases[case]
        function = one.call if whose != "rival" or one.rival is None else one.rival
        found = []
        for _ in range(calls):
            seconds, value = self._call(function)
            found.append(seconds)
            if whose != "rival":
                self.last = (self.calls, value)
        return found

    def finish(self, case: str, *, checks: bool) -> dict[str, Any]:
        """The errors of the last call that was measured; nothing where they weren't checked."""
        one = self.cases[case]
        found = {}
        if self.last is not None and checks:
            number, value = self.last
            expected = one.expected(*self.inputs[number % len(self.inputs)])
            found = self.framework.difference(value, expected)._asdict()
        self._forget()
        return found

    def ceilings(self) -> dict[str, float]:
        """Bytes a second of a copy, operations a second of matrix products; of all its GPUs.

        They are taken on the first and counted for each, as they are of one kind where it matters.
        """
        rates = {"copy": self.gpu.copy_rate(), **self.framework.product_rates()}
        self.framework.forget()
        return {name: len(self._gpus()) * rate for name, rate in rates.items()}

    def libraries(self) -> list[str]:
        """Every shared library of this process."""
        paths = _mapped()
        return sorted(path for path in paths - self._readers if ".so" in path)

    def sweep(self, clients: int, requests: int, model: str | None) -> dict[str, Any]:
        """Requests by so many clients at once, as the probe has them."""
        self._forget()
        done = self.probe["sweep"](clients, requests, model)
        return {
            "what": done.what,
            "seconds": list(done.seconds),
            "total": done.total,
            "tokens": done.tokens,
            "memory": done.memory,
        }

    def _difference(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], expected: object
    ) -> Difference:
        """Of a call whose output lies where NaN was before; NaN or infinite counts as it is."""
        self.framework.poison(function(*arguments))
        actual = function(*arguments)
        self.framework.wait(actual)
        return self.framework.difference(actual, expected)

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

    def _warm_up(self, function: Callable[..., Any]) -> float:
        """Median seconds of the calls that warm up."""
        found: list[float] = []
        if self.seat.size > 1:
            found = [self._call(function)[0] for _ in range(_TEAM_WARM_CALLS)]
            return statistics.median(found)
        started = time.perf_counter()
        while len(found) < _WARM_CALLS or time.perf_counter() - started < _WARM_SECONDS:
            found.append(self._call(function)[0])
            if time.perf_counter() - started > _LONG:
                break
        return statistics.median(found)

    def _call(self, function: Callable[..., Any]) -> tuple[float, object]:
        self.calls += 1
        arguments = self.inputs[self.calls % len(self.inputs)]
        seconds, value = self.framework.seconds(lambda: function(*arguments))
        return seconds, value

    def _forget(self) -> None:
        self.inputs, self.last = [], None
        gc.collect()
        self.framework.forget()


def _mapped() -> set[str]:
    """Every file of this process's memory."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
        fields = [line.split(maxsplit=5) for line in lines]
    return {one[5].rstrip("\n") for one in fields if len(one) > 5}  # noqa: PLR2004


def _failure_of(problem: BaseException) -> dict[str, Any]:
    text = f"{type(problem).__name__}: {problem}"
    kind = "failed"
    if isinstance(problem, NoGpuError):
        kind = "no GPU"
    elif isinstance(problem, WrongOutputError):
        kind, text = "wrong", str(problem)
    elif "out of memory" in text.lower() or "RESOURCE_EXHAUSTED" in text:
        kind = "memory"
    return {"kind": kind, "what": text, "traceback": traceback.format_exc()}


def _load(probe: str) -> dict[str, Any]:
    """A probe's names.

    Raises:
        RuntimeError: this Python is too old for probes.
    """
    if sys.version_info < (3, 10):  # noqa: UP036 - the environment's, not ours
        raise RuntimeError("probes need Python 3.10 or newer")
    return runpy.run_path(probe, run_name="probe")


class Server:
    """Answers questions, alone or for several processes.

    Args:
        arguments: the probe's file, and folders of packages.
        seat: of this process, where another one has started it; else None.
        answers: where they go.
    """

    def __init__(self, arguments: list[str], seat: Seat | None, answers: IO[str]) -> None:
        """Nothing is loaded before the first question."""
        self._arguments = arguments
        self._seat = seat
        self._answers = answers
        self._probe: dict[str, Any] | None = None
        self._team: Team | None = None
        self._worker: Worker | None = None

    def answer(self, line: str) -> None:
        """Answer one question, with one line."""
        question = json.loads(line)
        action = question.pop("do")
        process = os.getpid()
        try:
            probe = self._load()
            if self._team:  # before anything that all of them have to do at once
                self._team.ask(line)
            self._worker = self._worker or Worker(probe, self._seat or Seat())
            answer = {"answer": getattr(self._worker, action)(**question)}
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever the package does
            if os.getpid() != process:  # a child that the package has forked answers nothing
                os._exit(1)
            answer = {"failure": _failure_of(problem)}
            if self._worker:
                self._worker._forget()  # noqa: SLF001 - what was made must not fail the next case
        if self._team:
            answer = self._team.merge(action, answer)
        self._answers.write(f"{json.dumps(answer)}\n")
        self._answers.flush()

    def _load(self) -> dict[str, Any]:
        """The probe, loaded once; where it wants others and there are GPUs for them, these too."""
        if self._probe is None:
            self._probe = _load(self._arguments[0])
            if self._probe.get("join") and self._seat is None:
                count = Gpu().count()
                if count > 1:
                    self._seat, self._team = start_team(count, self._arguments, self._answers)
        return self._probe


def main(arguments: list[str]) -> None:
    """Put folders first, keep standard output for answers, and serve."""
    # Standard input and output are for questions and answers: packages get others.
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
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
    for line in questions:
        server.answer(line)
    os._exit(0)  # taking frameworks and contexts apart costs seconds, and nothing is left to keep


if __name__ == "__main__":
    main(sys.argv[1:])
