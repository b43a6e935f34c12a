"""A case on its way: its probe's answers, judged, and the rounds of all who were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cuwheel.perf import gate
from cuwheel.perf.gpu_state import merge_clocks
from cuwheel.perf.own_kernels import longest, own_share
from cuwheel.perf.records import CaseResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.perf.records import Clocks, PerfRun

_BETWEEN_RUNS = 0.05  # tolerance against an earlier run: clocks, heat and other cards differ


@dataclass(kw_only=True)
class MeasuredCase:
    """A case on its way.

    Attributes:
        facts: as the worker's script has them: name, limit, bytes, operations, …
        result: what is known by now.
        new, old, again, rival: seconds of a call, the median of each round in all generations of
            processes; those of one generation have one length.
        clocks: of the card in each generation.
    """

    facts: Mapping[str, Any]
    result: CaseResult
    new: list[float] = field(default_factory=list)
    old: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
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

    def judge_results(self, found: Mapping[str, Any], own: frozenset[str]) -> None:
        """Judge errors and kernels.

        Args:
            found: what `prepare` of the worker's script answered.
            own: the wheel's kernels.
        """
        error, limit = found["error"], self.facts["limit"]
        share = own_share(found["kernels"], own)
        if not math.isfinite(error):
            self._blame("the result holds NaN or infinity where a number was expected")
        elif error > limit:
            self._blame(f"the relative error is {error:.1e}, at most {limit:.1e} is right")
        if self.facts["has_own_kernels"] and not found["unread"] and not share:
            ran = ", ".join(name for name, _ in longest(found["kernels"]))
            self._blame(f"no kernel of the wheel ran, but {ran or 'nothing on the GPU'}")
        self.result = replace(
            self.result,
            error=error,
            rival_error=found["rival_error"],
            own_share=share,
            kernels=longest(found["kernels"]),
            unread=found["unread"],
        )

    def judge_last(self, error: float | None) -> None:
        """Judge the last call of those that were measured."""
        limit = self.facts["limit"]
        if error is not None and not error <= limit:
            self._blame(f"after many calls the relative error is {error:.1e}, at most {limit:.1e}")

    def compare(self, tolerance: float, repeats: int) -> None:
        """Compare with the old wheel, where that was measured and isn't decided yet.

        Args:
            tolerance: a share of the time that counts as the same.
            repeats: how often everything was measured.
        """
        before = self.result.comparison
        if not self.old or self.result.faults or (before and not self.is_undecided):
            return
        found = gate.judge(self.old, self.new, self.again, tolerance=tolerance, repeats=repeats)
        self.result = replace(self.result, comparison=found)

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

    def _blame(self, fault: str) -> None:
        faults = (*self.result.faults, fault)
        self.result = replace(self.result, faults=tuple(dict.fromkeys(faults)))


def new_case(facts: Mapping[str, Any]) -> MeasuredCase:
    """A case of which nothing is known but what its probe declares."""
    result = CaseResult(
        name=facts["name"],
        limit=facts["limit"],
        rival_name=facts["rival_name"],
        precision=facts["precision"] if facts["operations"] else "",
    )
    return MeasuredCase(facts=facts, result=result)


def compare_with_past(
    case: CaseResult, past: PerfRun, ceilings: Mapping[str, float], tolerance: float | None
) -> CaseResult:
    """A case compared with the same one of an earlier run, where that has it.

    Args:
        case: with its times.
        past: the earlier run.
        ceilings: what the card reached in this run; how it differs from then is taken out.
        tolerance: a share of the time; None: the usual one between runs.
    """
    before = next((one for one in past.cases if one.name == case.name), None)
    if not (before and before.timing and case.timing):
        return case
    kind = case.precision if case.precision in ceilings else "copy"
    scale = ceilings[kind] / past.ceilings[kind] if past.ceilings.get(kind) else 1.0
    found = gate.judge_against_past(before.timing, case.timing, scale, tolerance or _BETWEEN_RUNS)
    return replace(case, comparison=found)
