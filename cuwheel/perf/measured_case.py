"""A case on its way: its probe's answers, judged, and the rounds of all who were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from cuwheel.perf import gate
from cuwheel.perf.gpu_state import merge_clocks
from cuwheel.perf.own_kernels import gpu_shares, longest, own_share
from cuwheel.perf.records import CaseResult
from cuwheel.system.quantities import show_share, show_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.perf.records import Clocks, Comparison, PerfRun


class Rounds(NamedTuple):
    """Seconds of a call, the median of each round, of processes that took turns."""

    new: list[float]
    old: list[float]
    again: list[float]


@dataclass(kw_only=True)
class MeasuredCase:
    """A case on its way.

    Attributes:
        facts: as the worker's script has them: name, limit, bytes, operations, …
        gpus: how many the probe's calls run on.
        result: what is known by now.
        new, rival: seconds of a call, the median of each round, of all processes.
        comparisons: with the old wheel, one for each generation of processes.
        clocks: of the card in each generation.
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
        """The case's."""
        return self.result.name

    @property
    def is_undecided(self) -> bool:
        """Whether more rounds could decide the comparison."""
        found = self.result.comparison
        return found is not None and found.answer == "UNDECIDED"

    def skip(self, why: str) -> None:
        """Leave it out."""
        self.result = replace(self.result, skipped=why)

    def fail(self, why: str, *, is_wrong: bool) -> None:
        """Record that a call or its reference raised, or gave another shape, which is a fault."""
        if is_wrong:
            self._blame(why)
        else:
            self.result = replace(self.result, failed=why)

    def judge_results(self, found: Mapping[str, Any], own: frozenset[str]) -> None:
        """Judge errors and kernels.

        Args:
            found: what `prepare` of the worker's script answered.
            own: the wheel's kernels.
        """
        share = own_share(found["kernels"], own)
        if fault := self._wrong(found):
            self._blame(fault)
        if self.facts["has_own_kernels"] and not found["unread"]:
            self._judge_kernels(found["kernels"], share or 0.0)
        shares = gpu_shares(found["kernels"], self.gpus) if self.gpus > 1 else ()
        for number, part in enumerate(shares):
            if not part:
                self._blame(f"no kernel ran on GPU {number}, of {self.gpus} that are to work")
        self.result = replace(
            self.result,
            error=_if_finite(found["error"]),
            block_error=_if_finite(found["block_error"]),
            block=found["block"],
            rival_error=_if_finite(found["rival_error"]),
            own_share=share,
            kernels=longest(found["kernels"]),
            gpu_shares=shares,
            unread=found["unread"],
        )

    def blame_memory(self, free: int) -> None:
        """Name as a fault that the package took all of a GPU's memory.

        Args:
            free: bytes that the GPU had free.
        """
        self._blame(
            f"out of GPU memory: {show_size(free)} were free, about "
            f"{show_size(self.facts['memory'])} are needed"
        )

    def judge_old(self, found: Mapping[str, Any]) -> None:
        """Name as a fault that the wheel to compare with is wrong, where it was checked.

        Args:
            found: what `prepare` of the worker's script answered.
        """
        if "error" in found and self._wrong(found):
            self._blame("the old wheel's result is wrong here, so it can't be compared with")

    def judge_last(self, found: Mapping[str, Any]) -> None:
        """Judge the last call of those that were measured, where it was checked.

        Args:
            found: what `finish` of the worker's script answered.
        """
        if "error" in found and (fault := self._wrong(found)):
            self._blame(f"after many calls {fault}")

    def compare(self, rounds: Rounds, tolerance: float) -> None:
        """Compare with the old wheel by what fresh processes measured, once more.

        SAME counts at once. Everything else has to be said twice in a row: two processes can
        differ by more than the rounds of one.

        Args:
            rounds: of these processes.
            tolerance: a share of the time that counts as the same.
        """
        self.comparisons.append(
            gate.judge(
                rounds.old,
                rounds.new,
                rounds.again,
                tolerance=tolerance,
                repeats=len(self.comparisons) + 1,
            )
        )
        *earlier, last = self.comparisons
        said_before = earlier[-1].answer if earlier else "SAME"
        if last.answer != said_before:
            last = replace(last, answer="UNDECIDED")
        self.result = replace(self.result, comparison=last)

    def finish(self, ceilings: Mapping[str, float]) -> CaseResult:
        """The result with its times and rates.

        Args:
            ceilings: what the card reached in this run.
        """
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

    def _wrong(self, found: Mapping[str, Any]) -> str:
        """What is wrong with a result by its errors; empty: nothing."""
        error, block_error, block = found["error"], found["block_error"], found["block"]
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
        """Judge what ran by the share of the time that the wheel's own kernels took."""
        least = self.facts["own_share"]
        ran = ", ".join(name for name, _ in longest(kernels)) or "nothing on the GPU"
        if not share:
            self._blame(f"no kernel of the wheel ran, but {ran}")
        elif share < least:
            self._blame(
                f"kernels of the wheel took {show_share(share)} of the GPU time, less than the "
                f"required {show_share(least)}; {ran} ran"
            )

    def _blame(self, fault: str) -> None:
        faults = (*self.result.faults, fault)
        self.result = replace(self.result, faults=tuple(dict.fromkeys(faults)))


def _if_finite(error: float | None) -> float | None:
    return error if error is not None and math.isfinite(error) else None


def new_case(facts: Mapping[str, Any], gpus: int = 1) -> MeasuredCase:
    """A case of which nothing is known but what its probe declares.

    Args:
        facts: as the worker's script has them.
        gpus: how many the probe's calls run on.
    """
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
    """A case compared with the same one of an earlier run, where that has it.

    Args:
        case: with its times.
        past: the earlier run.
        ceilings: what the card reached in this run; how it differs from then is taken out.
        tolerance: a share of the time that counts as the same.
    """
    before = next((one for one in past.cases if one.name == case.name), None)
    if not (before and before.timing and case.timing):
        return case
    shares = {
        name: rate / ceilings[name]
        for name, rate in (("copy", case.bytes_rate), (case.precision, case.operations_rate))
        if rate and ceilings.get(name) and past.ceilings.get(name)
    }
    kind = max(shares, key=lambda name: shares[name], default="")
    scale = ceilings[kind] / past.ceilings[kind] if kind else 1.0
    found = gate.judge_against_past(before.timing, case.timing, scale, tolerance)
    return replace(case, comparison=found)
