"""A case during a run: its results judged, and the rounds of all processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from cuwheel.base.formats.binaries.archs import DeviceCode, runs_on
from cuwheel.base.formats.binaries.device_code import (
    DeviceCodeError,
    Element,
    code_of_element,
    elements_of,
    find_fatbins,
)
from cuwheel.base.formats.binaries.elf import ElfFormatError, is_elf
from cuwheel.base.formats.binaries.kernel_code import read_cubin, read_ptx
from cuwheel.base.system.quantities import show_share
from cuwheel.base.system.regular_files import open_file
from cuwheel.lab.perf import gate
from cuwheel.lab.perf.gpu_state import merge_clocks
from cuwheel.lab.perf.records import CaseResult, Clocks, Comparison, PerfRun

SHOWN = 3  # kernels that a report names


@dataclass(kw_only=True)
class MeasuredCase:
    """A case during a run.

    Attributes:
        facts: from the worker's script: name, limit, bytes, operations, …
        new, rival: seconds of a call, the median of each round, of all processes.
    """

    facts: Mapping[str, Any]
    gpus: int = 1
    result: CaseResult
    new: list[float] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    rival: list[float] = field(default_factory=list)
    clocks: list[Clocks] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The case's name."""
        return self.result.name

    @property
    def is_undecided(self) -> bool:
        """True if more rounds could decide the comparison."""
        comparison = self.result.comparison
        return comparison is not None and comparison.answer == "UNDECIDED"

    def blame(self, fault: str) -> None:
        """Add a fault."""
        faults = (*self.result.faults, fault)
        self.result = replace(self.result, faults=tuple(dict.fromkeys(faults)))

    def judge_results(self, answer: Mapping[str, Any], own_kernels: frozenset[str]) -> None:
        """Judge the errors and kernels in the answer to `prepare`."""
        kernels = answer["kernels"]
        share = own_share(kernels, own_kernels)
        if fault := self.wrong(answer):
            self.blame(fault)
        if self.facts["has_own_kernels"] and not answer["unread"]:
            self._judge_kernels(kernels, share or 0.0)
        shares = gpu_shares(kernels, self.gpus) if self.gpus > 1 else ()
        for number, part in enumerate(shares):
            if not part:
                self.blame(f"no kernel ran on GPU {number}, of {self.gpus} that are to work")
        self.result = replace(
            self.result,
            error=_if_finite(answer["error"]),
            block_error=_if_finite(answer["block_error"]),
            block=answer["block"],
            rival_error=_if_finite(answer["rival_error"]),
            own_share=share,
            kernels=longest(kernels),
            gpu_shares=shares,
            unread=answer["unread"],
        )

    def compare(
        self,
        new: Sequence[float],
        old: Sequence[float],
        again: Sequence[float],
        *,
        tolerance: float,
    ) -> None:
        """Compare with the old wheel by the rounds of fresh processes.

        SAME counts at once. Every other answer has to come twice in a row: two processes can differ
        by more than the rounds of one.
        """
        before = self.comparisons[-1].answer if self.comparisons else "SAME"
        repeats = len(self.comparisons) + 1
        last = gate.judge(old, new, again, tolerance=tolerance, repeats=repeats)
        self.comparisons.append(last)
        if last.answer != before:
            last = replace(last, answer="UNDECIDED")
        self.result = replace(self.result, comparison=last)

    def finish(self, ceilings: Mapping[str, float]) -> CaseResult:
        """Return the result with its times and rates."""
        if not self.new:
            return self.result
        timing, facts = gate.timing_of(self.new), self.facts
        clocks = merge_clocks(self.clocks)
        rates = {
            "copy": facts["bytes"] / timing.median,
            facts["precision"]: facts["operations"] / timing.median,
        }
        shares = [rate / ceilings[name] for name, rate in rates.items() if ceilings.get(name)]
        return replace(
            self.result,
            timing=timing,
            rival_timing=gate.timing_of(self.rival) if self.rival else None,
            bytes_rate=rates["copy"],
            operations_rate=rates[facts["precision"]],
            ceiling_share=max(shares, default=0.0) or None,
            cycles=timing.median * clocks.sm[1] * 1e6,
            clocks=clocks,
        )

    def wrong(self, answer: Mapping[str, Any]) -> str:
        """Return what is wrong with the errors in an answer; empty: nothing, or none are in it."""
        if "error" not in answer:
            return ""
        error, block_error, block = answer["error"], answer["block_error"], answer["block"]
        limit, block_limit = self.facts["limit"], self.result.block_limit
        if not (math.isfinite(error) and math.isfinite(block_error)):
            return f"the result contains NaN or infinity instead of a number, in {block}"
        if error > limit:
            return (
                f"the relative error is {error:.1e}, the limit is {limit:.1e}; it is "
                f"{block_error:.1e} in {block}"
            )
        if block_error > block_limit:
            return (
                f"the relative error of {block} is {block_error:.1e}, the limit for a block is "
                f"{block_limit:.1e}; that of the whole is {error:.1e}, within its limit"
            )
        return ""

    def _judge_kernels(self, kernels: list[dict[str, Any]], share: float) -> None:
        """Judge the share of the GPU time that the wheel's own kernels took."""
        least = self.facts["own_share"]
        ran = ", ".join(name for name, _ in longest(kernels)) or "nothing on the GPU"
        if not share:
            self.blame(f"no kernel of the wheel ran, but {ran}")
        elif share < least:
            self.blame(
                f"kernels of the wheel took {show_share(share)} of the GPU time, less than the "
                f"required {show_share(least)}; {ran} ran"
            )


def _if_finite(error: float | None) -> float | None:
    return error if error is not None and math.isfinite(error) else None


def new_case(facts: Mapping[str, Any], gpus: int = 1) -> MeasuredCase:
    """Return a case as its probe declares it."""
    result = CaseResult(
        name=facts["name"],
        limit=facts["limit"],
        block_limit=facts["limit"] * facts["block_factor"],
        block_reason=facts["block_reason"],
        rival_name=facts["rival_name"],
        precision=facts["precision"] if facts["operations"] else "",
    )
    return MeasuredCase(facts=facts, gpus=gpus, result=result)


def compare_with_past(
    case: CaseResult, past: PerfRun, ceilings: Mapping[str, float], tolerance: float
) -> CaseResult:
    """Return a case with its comparison to the same one of an earlier run, if that has it.

    Times are scaled by the change of the ceilings since then.
    """
    before = next((other for other in past.cases if other.name == case.name), None)
    if not (before and before.timing and case.timing):
        return case
    shares = {
        name: rate / ceilings[name]
        for name, rate in (("copy", case.bytes_rate), (case.precision, case.operations_rate))
        if rate and ceilings.get(name) and past.ceilings.get(name)
    }
    kind = max(shares, key=lambda name: shares[name], default="")
    scale = ceilings[kind] / past.ceilings[kind] if kind else 1.0
    comparison = gate.judge_against_past(before.timing, case.timing, scale, tolerance)
    return replace(case, comparison=comparison)


def kernels_of(libraries: Iterable[Path], capability: str) -> frozenset[str]:
    """Return the mangled names of all kernels in some libraries for a GPU, such as `90`."""
    names: set[str] = set()
    for stream, element in _elements(libraries):
        if _runs(element, capability):
            names |= _kernels_of_element(stream, element)
    return frozenset(names)


def code_of_libraries(libraries: Iterable[Path]) -> DeviceCode:
    """Return the archs for which some libraries hold code."""
    archs: dict[str, set[str]] = {"SASS": set(), "PTX": set()}
    for _, element in _elements(libraries):
        archs.setdefault(element.kind, set()).add(element.arch)
    return DeviceCode(sass=tuple(sorted(archs["SASS"])), ptx=tuple(sorted(archs["PTX"])))


def _elements(libraries: Iterable[Path]) -> Iterator[tuple[IO[bytes], Element]]:
    """Yield each element of device code in some libraries, with the stream of its file."""
    for path in libraries:
        with open_file(path) as stream:
            if is_elf(stream):
                for element in elements_of(stream, find_fatbins(stream)):
                    yield stream, element


def own_share(kernels: Iterable[dict[str, Any]], own_kernels: frozenset[str]) -> float | None:
    """Return the share of the GPU time of the wheel's own kernels; None where nothing ran."""
    kernels = list(kernels)
    total = sum(kernel["nanoseconds"] for kernel in kernels)
    wheels = sum(kernel["nanoseconds"] for kernel in kernels if kernel["name"] in own_kernels)
    return wheels / total if total else None


def longest(kernels: Iterable[dict[str, Any]]) -> tuple[tuple[str, float], ...]:
    """Return the kernels that took longest, with their share of the time."""
    times: Counter[str] = Counter()
    for kernel in kernels:
        times[kernel["name"]] += kernel["nanoseconds"]
    total = times.total() or 1
    return tuple((name, nanoseconds / total) for name, nanoseconds in times.most_common(SHOWN))


def gpu_shares(kernels: Iterable[dict[str, Any]], count: int) -> tuple[float, ...]:
    """Return each GPU's share of the time on all of them; empty where nothing ran."""
    times: Counter[int] = Counter()
    for kernel in kernels:
        times[kernel["gpu"]] += kernel["nanoseconds"]
    total = times.total()
    return tuple(times[number] / total for number in range(count)) if total else ()


def _runs(element: Element, capability: str) -> bool:
    if element.kind == "SASS":
        return bool(runs_on(DeviceCode(sass=(element.arch,)), capability))
    return element.kind == "PTX" and bool(runs_on(DeviceCode(ptx=(element.arch,)), capability))


def _kernels_of_element(stream: IO[bytes], element: Element) -> set[str]:
    """Return the kernels' names; none of a damaged element, which the audit reports."""
    try:
        code = code_of_element(stream, element)
        if element.kind == "SASS":
            return set(read_cubin(code).kernels)
        return set(read_ptx(code).functions)
    except (DeviceCodeError, ElfFormatError):
        return set()
