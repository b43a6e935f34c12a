"""The record of a `perf` run, `perf.json`, which also serves as a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from cuwheel.base.errors import UsageError
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.build.workspace.serialization import from_json

Answer = Literal["FASTER", "SAME", "SLOWER", "UNDECIDED"]
_JUDGED = ("faults", "failed", "skipped", "comparison")  # each case in a file has these
Outcome = Literal["passed", "wrong", "failed", "not run", "slower", "undecided"]


@dataclass(frozen=True, kw_only=True)
class GpuFacts:
    """A GPU.

    Attributes:
        name: as the driver says it.
        uuid: of it, or of the slice that the process was given.
        capability: compute capability without dot, `90`.
        driver: release of the driver; empty: not known.
        cuda: newest CUDA that the driver knows, `13.0`.
        memory: bytes.
        l2: bytes of the second level cache.
        multiprocessors: how many.
        gpus: how many the process can use.
    """

    name: str
    uuid: str
    capability: str
    driver: str = ""
    cuda: str = ""
    memory: int = 0
    l2: int = 0
    multiprocessors: int = 0
    gpus: int = 1


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """What the card did meanwhile, sampled.

    Attributes:
        sm: megahertz of the multiprocessors: least, median, most.
        memory: megahertz of the memory: likewise.
        temperature: highest, °C.
        power: highest, watts.
        slowed_by: what held the clocks down: `power limit`, `heat`, …
    """

    sm: tuple[int, int, int] = (0, 0, 0)
    memory: tuple[int, int, int] = (0, 0, 0)
    temperature: int = 0
    power: float = 0.0
    slowed_by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of one call.

    Attributes:
        median: of the rounds.
        low, high: its confidence interval.
        rounds: the median of each round; by the host's clock the least.
    """

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """New against old, of one case.

    Attributes:
        answer: whether the new one is slower.
        ratio: new time over old time, the median.
        low, high: its confidence interval.
        noise: how far the old one is from itself, at most, as a share of the time.
        repeats: how often everything was measured.
        tolerance: the share of the time that counted as the same; 0: the run's.
    """

    answer: Answer
    ratio: float
    low: float
    high: float
    noise: float
    repeats: int = 1
    tolerance: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """One case.

    Attributes:
        name: of it.
        error: relative error against the reference; None: it was left out.
        limit: of that error.
        block_error: of the worst block of elements; None: it was left out, or by a cuwheel that
            didn't look at blocks.
        block: which that is: `elements 512 to 767`.
        block_limit: of that error; 0: blocks weren't looked at.
        block_reason: why that limit isn't the usual multiple of the other; empty: it is.
        rival_error: that of what a user without the package would call; None: there is none.
        faults: why it is wrong; empty: it isn't.
        failed: what its call or its reference raised; empty: nothing.
        skipped: why it was left out; empty: it wasn't.
        lacks: of what there was too little for it; empty: nothing, or by a cuwheel that didn't
            state it.
        undecided: what isn't known of it, though it decides; empty: nothing.
        is_grid: it is of the probe's grid.
        is_timed: it is to be timed.
        units: the worst element's error, in units of its format; None: not measured.
        units_limit: of that; 0: it isn't judged.
        bias: of the worst 4096 elements, as a multiple of what rounding allows.
        repeats: how many calls got the same inputs.
        differing: how many of them returned other bits than the first.
        leak: bytes of GPU memory that each call leaks.
        memory: bytes of GPU memory at most; 0: not measured.
        old_error: error of the old wheel with the same inputs; None: there is none.
        agreement: of the results of both wheels; empty: not compared.
        host_calls: how many calls were timed together by the host's clock; 0: each by itself.
        own_share: of the time on the GPU, what kernels of the wheel took; None: not read.
        kernels: names of kernels that ran, the longest first, with their share of the time.
        gpu_shares: of the time on all GPUs, what each took, in the order of `PerfRun.gpus`; empty:
            there is one, or it wasn't read.
        unread: why the kernels couldn't be read; empty: they were.
        timing: of the package; None: it was only checked.
        rival_timing: of the rival.
        rival_name: what that is.
        bytes_rate: bytes a second that the call moved at least; 0: it doesn't count.
        operations_rate: operations a second; 0: likewise.
        precision: of those operations.
        ceiling_share: the larger of both rates as a share of what the card reached in this run;
            None: there is no ceiling for it.
        cycles: of the multiprocessors, by their median clock; 0: not known.
        clocks: while it ran.
        comparison: with the old wheel.
    """

    name: str
    error: float | None = None
    limit: float = 0.0
    block_error: float | None = None
    block: str = ""
    block_limit: float = 0.0
    block_reason: str = ""
    rival_error: float | None = None
    faults: tuple[str, ...] = ()
    failed: str = ""
    skipped: str = ""
    lacks: Literal["", "memory", "gpus", "time", "runs"] = ""
    undecided: str = ""
    is_grid: bool = False
    is_timed: bool = False
    units: float | None = None
    units_limit: float = 0.0
    bias: float = 0.0
    repeats: int = 0
    differing: int = 0
    leak: int = 0
    memory: int = 0
    old_error: float | None = None
    agreement: Literal["", "same bits", "same error", "larger error"] = ""
    host_calls: int = 0
    own_share: float | None = None
    kernels: tuple[tuple[str, float], ...] = ()
    gpu_shares: tuple[float, ...] = ()
    unread: str = ""
    timing: Timing | None = None
    rival_timing: Timing | None = None
    rival_name: str = ""
    bytes_rate: float = 0.0
    operations_rate: float = 0.0
    precision: str = ""
    ceiling_share: float | None = None
    cycles: float = 0.0
    clocks: Clocks = field(default_factory=Clocks)
    comparison: Comparison | None = None


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Requests by several clients at once.

    Attributes:
        clients: how many.
        what: the model and its precision.
        requests: how many were answered.
        rate: requests a second.
        tokens: tokens a second; 0: answers have none.
        p50, p95: seconds of a request, the median and what 95 of 100 stay below.
        memory: bytes of GPU memory at most.
    """

    clients: int
    what: str
    requests: int
    rate: float
    tokens: float
    p50: float
    p95: float
    memory: int


@dataclass(frozen=True, kw_only=True)
class Sanitizing:
    """A tool of compute-sanitizer on the small cases.

    Attributes:
        cases: those that it ran on.
        problems: each with its kernel, and how often.
        known: those that the probe names, with its reason: they are no faults of this build.
    """

    tool: Literal["memcheck", "racecheck", "initcheck", "synccheck"]
    cases: tuple[str, ...]
    problems: tuple[str, ...]
    seconds: float
    known: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class UpstreamTests:
    """The tests of the package's own source, which its recipe names.

    Attributes:
        names: files and folders in the source.
        broken: names of failed tests, or of errors; at most twenty.
    """

    names: tuple[str, ...]
    passed: int
    failed: int
    skipped: int
    broken: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PerfRun:
    """A run; what `perf.json` holds and `perf --json` prints.

    Attributes:
        recipe: whose probe it was.
        package: name and release of what was measured: `causal-conv1d 1.6.1+cu130torch2.11`.
        wheel: its file's name; empty: it was installed already.
        sha256: of the wheel; of an installed package, of its RECORD.
        date: in UTC, ISO 8601.
        gpu: where it ran; of several GPUs the first.
        gpus: all of them, where there are several.
        framework: name and release.
        python: release.
        clock: what measured the time.
        variables: environment variables that the package listens to, and are set.
        ceilings: what the card reached in this run: `copy` in bytes a second, others in operations.
        cases: each case.
        libraries: CUDA's, the framework's and the driver's: soname, file, who supplied it.
        sweep: requests by one client, two, …
        notes: what the reader should know: a MIG slice, another process, heat.
        against: what it was compared with; empty: nothing.
        against_sha256: of that wheel, or of the file of that run; empty: nothing, or not stated.
        answer: of the comparison, the worst of its cases; empty: there was none.
        tolerance: the share of the time that counted as the same; 0: nothing was compared.
        is_quick: only the quick cases were run, with fewer rounds; also where an older cuwheel
            didn't state it.
        is_busy: another process used a GPU during the run; also where an older cuwheel didn't
            state it.
        reference: SHA-256 of the wheel that the recipe names for comparison; empty: none.
        untouched: what of the package's interface no case calls.
        sanitizing: what compute-sanitizer found, by tool; empty: it didn't run.
        upstream_tests: None: they didn't run.
        seconds: of each level: `cases`, `grid`, `compare`, `sanitize`, `upstream tests`.
        cuwheel: release that measured; empty: one that didn't say it.
        commit: of its checkout; empty: it is no git checkout.
    """

    SCHEMA: ClassVar[Schema] = Schema("perf", "1.3")

    recipe: str
    package: str
    wheel: str
    sha256: str
    date: str
    gpu: GpuFacts
    framework: str
    python: str
    clock: str
    variables: dict[str, str]
    ceilings: dict[str, float]
    cases: tuple[CaseResult, ...]
    gpus: tuple[GpuFacts, ...] = ()
    libraries: tuple[tuple[str, str, str], ...] = ()
    sweep: tuple[SweepResult, ...] = ()
    notes: tuple[str, ...] = ()
    against: str = ""
    against_sha256: str = ""
    answer: Literal[Answer, ""] = ""
    tolerance: float = 0.0
    is_quick: bool = False
    is_busy: bool = False
    reference: str = ""
    untouched: tuple[str, ...] = ()
    sanitizing: tuple[Sanitizing, ...] = ()
    upstream_tests: UpstreamTests | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    cuwheel: str = ""
    commit: str = ""

    @property
    def gpu_names(self) -> str:
        """The names of its GPUs: `2 x NVIDIA H100`."""
        return names_of(self.gpus or (self.gpu,))

    @property
    def faults(self) -> tuple[str, ...]:
        """Every fault, with its case."""
        return (
            *(f"{case.name}: {fault}" for case in self.cases for fault in case.faults),
            *(f"{part.tool}: {problem}" for part in self.sanitizing for problem in part.problems),
        )

    @property
    def failures(self) -> tuple[str, ...]:
        """Every case and every test of the source that failed."""
        tests = self.upstream_tests.broken if self.upstream_tests else ()
        return (
            *(f"{case.name}: {case.failed}" for case in self.cases if case.failed),
            *(f"a test of the source failed: {name}" for name in tests),
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Each case that was not run, with the reason; empty: the run is complete."""
        skipped = tuple(f"{case.name}: {case.skipped}" for case in self.cases if case.skipped)
        return (*(("all but the quick cases",) if self.is_quick else ()), *skipped)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Each reason why the run decides nothing, without those of comparisons."""
        reasons = [f"{case.name}: {case.undecided}" for case in self.cases if case.undecided]
        timed = [case for case in self.cases if case.is_timed]
        lost = [case for case in timed if case.skipped and case.lacks != "gpus"]
        if self.answer or (timed and not any(case.timing for case in timed)):
            reasons += [f"{case.name} was to be timed: {case.skipped}" for case in lost]
        if timed and not lost and not any(case.timing or case.faults for case in timed):
            reasons.append("no case was timed")
        reasons += [f"{part.tool} could run no case" for part in self.sanitizing if not part.cases]
        return tuple(reasons)

    def covers(self, other: PerfRun) -> bool:
        """Return True if it ran and compared at least as much as another run, on the same GPUs."""
        has_hashes = self.against_sha256 and other.against_sha256
        is_same_baseline = (
            self.against_sha256 == other.against_sha256
            if has_hashes
            else self.against == other.against
        )
        ran, others_ran = (
            {case.name for case in run.cases if not case.skipped} for run in (self, other)
        )
        compared, others_compared = (
            {case.name for case in run.cases if case.comparison} for run in (self, other)
        )
        sanitized, others_sanitized = (
            {(part.tool, case) for part in run.sanitizing for case in part.cases}
            for run in (self, other)
        )
        tests, others_tests = (
            run.upstream_tests.passed if run.upstream_tests else 0 for run in (self, other)
        )
        return (
            others_ran <= ran
            and others_compared <= compared
            and others_sanitized <= sanitized
            and others_tests <= tests
            and (not other.against or is_same_baseline)
            and (not self.is_quick or other.is_quick)
            and (not self.is_busy or other.is_busy)
            and (not other.tolerance or self.tolerance <= other.tolerance)
            and self.gpu_names == other.gpu_names
        )

    @property
    def outcome(self) -> Outcome:
        """The outcome for a gate: speed counts only where every result is right."""
        if self.faults:
            return "wrong"
        if self.failures:
            return "failed"
        if all(case.skipped for case in self.cases):
            return "not run"
        outcomes: dict[str, Outcome] = {"SLOWER": "slower", "UNDECIDED": "undecided"}
        of_cases = {case.comparison.answer for case in self.cases if case.comparison}
        answers = {self.answer, *of_cases}  # where they contradict each other, the worst counts
        usual: Outcome = "undecided" if self.undecided else "passed"
        return next((outcomes[answer] for answer in outcomes if answer in answers), usual)


def names_of(gpus: Sequence[GpuFacts]) -> str:
    """Return the names of GPUs: `2 x NVIDIA H100`, or each where they differ."""
    counts = Counter(gpu.name for gpu in gpus)
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())


def read_run(path: Path) -> PerfRun:
    """Read the record of a run; raises UsageError."""
    try:
        content = parse_json(read_text(path), is_own=True)
        PerfRun.SCHEMA.take_from(content)
        for case in content["cases"]:
            _ = [case[name] for name in _JUDGED]
        # A record that doesn't state one of these counts as the weaker one.
        weaker = {"is_quick": True, "is_busy": True}
        run = from_json(PerfRun, {**weaker, **content}, skips_unknown=True)
        if any(case.timing and not case.timing.low > 0 for case in run.cases):
            raise ValueError("a time in it isn't positive")  # noqa: TRY301 - as other malformed ones
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise UsageError(
            f"{path} is not a result of `nox -s perf`",
            why=str(problem.strerror) if isinstance(problem, OSError) else why,
            fix="give a perf.json that a run has written, or a wheel: -- --against WHEEL",
        ) from None
    return run
