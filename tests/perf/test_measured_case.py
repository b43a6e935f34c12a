"""A case judged by what its probe answered."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cuwheel.perf.measured_case import MeasuredCase, Rounds, new_case

FACTS = {
    "name": "forward",
    "limit": 1e-3,
    "block_factor": 4.0,
    "block_reason": "",
    "rival_name": "",
    "has_own_kernels": True,
    "own_share": 0.0,
    "bytes": 3_000_000,
    "operations": 8_000_000,
    "precision": "bf16",
}
RIGHT = {"error": 1e-6, "block_error": 3e-6, "block": "elements 0 to 255"}
OWN = frozenset({"_Z3ownv"})


def judged(*kernels: str, unread: str = "", **facts: Any) -> MeasuredCase:
    case = new_case({**FACTS, **facts})
    ran = [{"name": name, "count": 1, "nanoseconds": 10} for name in kernels]
    answer = {**RIGHT, "rival_error": None, "kernels": ran, "unread": unread}
    case.judge_results(answer, OWN)
    return case


_WRONG_BLOCK = (
    "the relative error of elements 0 to 255 is 5.0e-03, the limit for a block is 4.0e-03; that "
    "of the whole is 1.0e-06, within its limit"
)
_WRONG = "the relative error is 2.0e-03, the limit is 1.0e-03; it is 5.0e-01 in elements 0 to 255"
_NO_NUMBER = "the result contains NaN or infinity instead of a number, in elements 0 to 255"


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({"block_error": 4e-3}, ""),
        ({"block_error": 5e-3}, _WRONG_BLOCK),
        ({"error": 2e-3, "block_error": 0.5}, _WRONG),
        ({"block_error": math.nan}, _NO_NUMBER),
    ],
)
def test_errors_of_the_last_call_are_judged(found: dict[str, float], fault: str) -> None:
    case = judged("_Z3ownv")

    case.judge_last({})
    case.judge_last({**RIGHT, **found})

    assert case.result.faults == ((f"after many calls {fault}",) if fault else ())


def test_limit_of_a_block_is_the_cases_own() -> None:
    case = judged("_Z3ownv", block_factor=9.0, block_reason="middles between codes")

    case.judge_last({**RIGHT, "block_error": 8e-3})

    assert case.result.faults == ()
    assert case.result.block_limit == pytest.approx(9e-3)
    assert case.result.block_reason == "middles between codes"


def test_old_wheel_that_is_wrong_in_a_block_decides_nothing() -> None:
    case = judged("_Z3ownv")

    case.judge_old({**RIGHT, "block_error": 5e-3})

    assert len(case.result.faults) == 1


def test_own_kernels_ran() -> None:
    case = judged("_Z3ownv", "_Z5otherv")

    assert case.result.own_share == 0.5
    assert case.result.faults == ()


def test_other_kernels_ran_instead() -> None:
    assert judged("_Z8fallbackv").result.faults == ("no kernel of the wheel ran, but _Z8fallbackv",)


def test_most_of_the_time_went_to_other_kernels() -> None:
    [fault] = judged("_Z3ownv", *["_Z8fallbackv"] * 9, own_share=0.5).result.faults

    assert fault.startswith(
        "kernels of the wheel took 10 % of the GPU time, less than the required 50 %"
    )


def test_nothing_ran_on_the_gpu() -> None:
    assert judged().result.faults == ("no kernel of the wheel ran, but nothing on the GPU",)


def test_package_that_has_no_kernels_of_its_own() -> None:
    assert judged("_Z8fallbackv", has_own_kernels=False).result.faults == ()


def test_kernels_that_were_not_read_are_no_fault() -> None:
    assert judged(unread="no libcupti.so").result.faults == ()


def test_rates_are_shares_of_the_ceilings() -> None:
    case = judged("_Z3ownv")
    case.new = [1e-6, 1e-6]

    result = case.finish({"copy": 4e12, "bf16": 1e13})

    assert result.bytes_rate == pytest.approx(3e12)
    assert result.operations_rate == pytest.approx(8e12)
    assert result.ceiling_share == pytest.approx(0.8)


def test_case_that_was_not_timed_has_no_rates() -> None:
    assert judged("_Z3ownv").finish({"copy": 4e12}).timing is None


@pytest.mark.parametrize(
    ("times", "answer"),
    [
        ((1.0,), "SAME"),
        ((1.0, 1.0), "SAME"),
        ((2.0,), "UNDECIDED"),
        ((2.0, 2.0), "SLOWER"),
        ((2.0, 1.0), "UNDECIDED"),
        ((2.0, 1.0, 1.0), "SAME"),
        ((0.5, 0.5), "FASTER"),
        ((0.5, 2.0), "UNDECIDED"),
    ],
)
def test_a_difference_has_to_be_said_twice(times: tuple[float, ...], answer: str) -> None:
    case = judged("_Z3ownv")

    for time in times:
        case.compare(Rounds([time] * 9, [1.0] * 9, [1.0] * 9), 0.01)

    assert case.result.comparison
    assert case.result.comparison.answer == answer
    assert case.result.comparison.repeats == len(times)


def test_old_wheel_that_is_wrong_is_told() -> None:
    case = judged("_Z3ownv")

    case.judge_old({**RIGHT, "error": 0.5})
    case.judge_old({})

    assert case.result.faults == (
        "the old wheel's result is wrong here, so it can't be compared with",
    )


def test_memory_that_ran_out_is_a_fault_where_there_was_enough() -> None:
    case = judged("_Z3ownv", memory=1 << 30)

    case.blame_memory(8 << 30)

    assert case.result.faults == ("out of GPU memory: 8.0 GiB were free, about 1.0 GiB are needed",)


def test_names_a_gpu_without_work() -> None:
    case = new_case(FACTS, gpus=2)
    ran = [{"name": "_Z3ownv", "gpu": 0, "count": 1, "nanoseconds": 10}]

    case.judge_results({**RIGHT, "rival_error": None, "kernels": ran, "unread": ""}, OWN)

    assert case.result.faults == ("no kernel ran on GPU 1, of 2 that are to work",)
    assert case.result.gpu_shares == (1.0, 0.0)
