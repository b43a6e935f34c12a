"""A case judged by what its probe answered."""

from __future__ import annotations

from typing import Any

import pytest

from cuwheel.perf.measured_case import MeasuredCase, Rounds, new_case

FACTS = {
    "name": "forward",
    "limit": 1e-3,
    "rival_name": "",
    "has_own_kernels": True,
    "own_share": 0.0,
    "bytes": 3_000_000,
    "operations": 8_000_000,
    "precision": "bf16",
}
OWN = frozenset({"_Z3ownv"})


def judged(*kernels: str, unread: str = "", **facts: Any) -> MeasuredCase:
    case = new_case({**FACTS, **facts})
    ran = [{"name": name, "count": 1, "nanoseconds": 10} for name in kernels]
    answer = {"error": 1e-6, "rival_error": None, "kernels": ran, "unread": unread}
    case.judge_results(answer, OWN)
    return case


def test_own_kernels_ran() -> None:
    case = judged("_Z3ownv", "_Z5otherv")

    assert case.result.own_share == 0.5
    assert case.result.faults == ()


def test_other_kernels_ran_instead() -> None:
    assert judged("_Z8fallbackv").result.faults == ("no kernel of the wheel ran, but _Z8fallbackv",)


def test_most_of_the_time_went_to_other_kernels() -> None:
    [fault] = judged("_Z3ownv", *["_Z8fallbackv"] * 9, own_share=0.5).result.faults

    assert fault.startswith("kernels of the wheel took 10 % of the time on the GPU, where 50 %")


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

    case.judge_old({"error": 0.5})
    case.judge_old({})

    assert case.result.faults == (
        "the old wheel is wrong here, so nothing can be compared with it",
    )


def test_memory_that_ran_out_is_a_fault_where_there_was_enough() -> None:
    case = judged("_Z3ownv", memory=1 << 30)

    case.blame_memory(8 << 30)

    assert case.result.faults == (
        "it ran out of GPU memory, of which 8.0 GiB were free; about 1.0 GiB are needed",
    )
