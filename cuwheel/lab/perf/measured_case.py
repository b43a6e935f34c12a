"""A case during a run: its results judged, and the rounds of all processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cuwheel.base.system.quantities import show_share, show_size
from cuwheel.lab.perf import gate
from cuwheel.lab.perf.gpu_state import merge_clocks
from cuwheel.lab.perf.kernels import gpu_shares, longest, own_share, show_kernels
from cuwheel.lab.perf.records import CaseResult, Clocks, Comparison, PerfRun

_LARGER = 1.5  # times the old wheel's error: with the same inputs another compiler changes less
_LARGER_UNITS = 3.0  # of one element, whose rounding differs more
_HOST_PROCESSES = 5  # of each wheel, before a difference by the host's clock counts


@dataclass(kw_only=True)
class MeasuredCase:
    """A case during a run.

    Attributes:
        facts: from the worker's script: name, limit, bytes, operations, …
        new, rival: seconds of a call, the typical one of each round, of all processes.
        least: seconds by the host's clock, the least of each process: old, new, old again.
        digest: of the new wheel's results; empty: not known.
        is_busy: another process used a GPU when the case began, or after its calls.
    """

    facts: Mapping[str, Any]
    gpus: int = 1
    result: CaseResult
    new: list[float] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    rival: list[float] = field(default_factory=list)
    least: tuple[list[float], ...] = field(default_factory=lambda: ([], [], []))
    clocks: list[Clocks] = field(default_factory=list)
    digest: str = ""
    is_busy: bool = False

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

    def leave_out(self, why: str, lacks: Literal["memory", "gpus", "time", "runs"]) -> None:
        """State that the case isn't run, and of what there was too little."""
        self.result = replace(self.result, skipped=why, lacks=lacks)

    def judge_results(self, answer: Mapping[str, Any], own_kernels: frozenset[str]) -> None:
        """Judge the errors and kernels in the answer to `prepare`."""
        kernels = answer["kernels"]
        share = own_share(kernels, own_kernels)
        if fault := self.wrong(answer):
            self.blame(fault)
        self._judge_repeats(answer)
        undecided = ""
        if self.facts["has_own_kernels"] and answer["unread"]:
            undecided = f"it isn't known whose kernels ran: {answer['unread']}"
        elif self.facts["has_own_kernels"]:
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
            undecided=undecided,
            units=_if_finite(answer["units"]),
            bias=_if_finite(answer["bias"]) or 0.0,
            repeats=answer["repeats"],
            differing=answer["differing"],
            leak=answer["leak"],
            memory=answer["peak"],
        )
        self.digest = answer["digest"]

    def _judge_repeats(self, answer: Mapping[str, Any]) -> None:
        """Judge the calls with the same inputs: their bits, and the memory that they left."""
        count, differing, difference = (
            answer[name] for name in ("repeats", "differing", "difference")
        )
        what = f"{differing} of {count} calls with the same inputs returned other bits"
        if differing and self.facts["same_bits"]:
            self.blame(f"{what} than the first, by up to {difference:.1e} of a block")
        elif differing and not difference <= self.result.block_limit:
            self.blame(
                f"{what}: a block differs by {difference:.1e} from the first, and its limit is "
                f"{self.result.block_limit:.1e}"
            )
        if answer["leak"] and not self.is_busy:  # else it may be the other process's
            self.blame(f"each call leaks {show_size(answer['leak'])} of GPU memory")

    def agree(self, old: Mapping[str, Any]) -> None:
        """Compare the results with those of the old wheel for the same inputs."""
        if "digest" not in old or self.result.error is None:
            return
        error, units = (_if_finite(old[name]) or 0.0 for name in ("error", "units"))
        new_units = self.result.units or 0.0
        is_larger = (
            self.result.error > _LARGER * error
            or self.result.bias > max(1.0, _LARGER * old["bias"])
            or new_units > _LARGER_UNITS * units
        )
        agreement: Literal["same bits", "same error", "larger error"] = "same error"
        if self.digest and self.digest == old["digest"]:
            agreement = "same bits"
        elif is_larger and not self.wrong(old):
            agreement = "larger error"
            self.blame(
                f"its error is larger than the old wheel's for the same inputs: "
                f"{self.result.error:.1e} after {error:.1e}, and of an element {new_units:.3g} "
                f"units after {units:.3g}"
            )
        if self.result.differing and not old["differing"]:
            self.blame(
                f"{self.result.differing} of {self.result.repeats} calls with the same inputs "
                "returned other bits than the first; of the old wheel none did"
            )
        self.result = replace(self.result, old_error=error, agreement=agreement)

    def compare(
        self,
        new: Sequence[float],
        old: Sequence[float],
        again: Sequence[float],
        *,
        tolerance: float,
        by_host: bool = False,
    ) -> None:
        """Compare with the old wheel by the rounds of fresh processes.

        SAME counts at once. Every other answer has to come twice in a row, by the host's clock
        (`by_host`) after five times: two processes can differ by more than the rounds of one.
        """
        before = self.comparisons[-1].answer if self.comparisons else "SAME"
        repeats = len(self.comparisons) + 1
        is_early = False
        if by_host:
            tolerance = max(tolerance, gate.HOST_CALLS if self.facts["host_calls"] else 0.0)
            for times, rounds in zip(self.least, (old, new, again), strict=True):
                times.append(min(rounds))
            last = gate.judge_least(*self.least, tolerance=tolerance)
            is_early = last.answer != "SAME" and repeats < _HOST_PROCESSES
        else:
            last = gate.judge(old, new, again, tolerance=tolerance, repeats=repeats)
        self.comparisons.append(last)
        if last.answer != before or is_early:
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
        return self._wrong_elements(answer) if self.facts["units"] is not None else ""

    def _wrong_elements(self, answer: Mapping[str, Any]) -> str:
        """Return what is wrong with single elements, or with the mean of many; empty: nothing."""
        error = answer["error"]
        if answer["units"] > self.facts["units"]:
            return (
                f"the error of an element is {answer['units']:.3g} units of its format, the limit "
                f"is {self.facts['units']:.3g}; the relative error of the whole is {error:.1e}"
            )
        if answer["bias"] > 1:
            return (
                f"4096 elements are too large or too small by {answer['bias']:.3g} times what "
                f"rounding allows; the relative error of the whole is {error:.1e}"
            )
        return ""

    def _judge_kernels(self, kernels: list[dict[str, Any]], share: float) -> None:
        """Judge the share of the GPU time that the wheel's own kernels took."""
        least = self.facts["own_share"]
        names = [name for name, _ in longest(kernels)]
        ran = ", ".join(show_kernels(names)) or "nothing on the GPU"
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
        is_grid=facts["is_grid"],
        is_timed=facts["is_timed"],
        units_limit=facts["units"] or 0.0,
        host_calls=facts["host_calls"],
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
    scale = ceilings[kind] / past.ceilings[kind] if kind and not case.host_calls else 1.0
    tolerance = max(tolerance, gate.HOST_CALLS if case.host_calls else 0.0)
    comparison = gate.judge_against_past(before.timing, case.timing, scale, tolerance)
    return replace(case, comparison=comparison)
