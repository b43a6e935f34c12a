"""Judgement of a case by its probe's answers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from cuwheel.lab.perf.measured_case import (
    MeasuredCase,
    code_of_libraries,
    gpu_shares,
    kernels_of,
    longest,
    new_case,
    own_share,
)
from tests.support.factories import compile_cuda

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
    ("errors", "fault"),
    [
        ({"block_error": 4e-3}, ""),
        ({"block_error": 5e-3}, _WRONG_BLOCK),
        ({"error": 2e-3, "block_error": 0.5}, _WRONG),
        ({"block_error": math.nan}, _NO_NUMBER),
    ],
)
def test_errors_of_a_result_are_judged(errors: dict[str, float], fault: str) -> None:
    case = judged("_Z3ownv")

    assert case.wrong({}) == ""
    assert case.wrong({**RIGHT, **errors}) == fault


def test_limit_of_a_block_is_the_cases_own() -> None:
    case = judged("_Z3ownv", block_factor=9.0, block_reason="middles between codes")

    assert case.wrong({**RIGHT, "block_error": 8e-3}) == ""
    assert case.result.block_limit == pytest.approx(9e-3)
    assert case.result.block_reason == "middles between codes"


def test_most_of_the_time_went_to_other_kernels() -> None:
    [fault] = judged("_Z3ownv", *["_Z8fallbackv"] * 9, own_share=0.5).result.faults

    assert fault.startswith(
        "kernels of the wheel took 10 % of the GPU time, less than the required 50 %"
    )


@pytest.mark.parametrize(
    ("kernels", "facts", "faults"),
    [
        (("_Z8fallbackv",), {}, ("no kernel of the wheel ran, but _Z8fallbackv",)),
        ((), {}, ("no kernel of the wheel ran, but nothing on the GPU",)),
        (("_Z8fallbackv",), {"has_own_kernels": False}, ()),
        (("_Z3ownv", "_Z5otherv"), {}, ()),
        ((), {"unread": "no libcupti.so"}, ()),
    ],
)
def test_judges_the_kernels_that_ran(
    kernels: tuple[str, ...], facts: dict[str, Any], faults: tuple[str, ...]
) -> None:
    assert judged(*kernels, **facts).result.faults == faults


def test_rates_are_shares_of_the_ceilings() -> None:
    case = judged("_Z3ownv")
    case.new = [1e-6, 1e-6]

    result = case.finish({"copy": 4e12, "bf16": 1e13})

    assert result.bytes_rate == pytest.approx(3e12)
    assert result.operations_rate == pytest.approx(8e12)
    assert result.ceiling_share == pytest.approx(0.8)
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
def test_difference_counts_at_the_second_time(times: tuple[float, ...], answer: str) -> None:
    case = judged("_Z3ownv")

    for time in times:
        case.compare([time] * 9, [1.0] * 9, [1.0] * 9, tolerance=0.01)

    assert case.result.comparison
    assert case.result.comparison.answer == answer
    assert case.result.comparison.repeats == len(times)


def test_names_a_gpu_without_work() -> None:
    case = new_case(FACTS, gpus=2)
    ran = [{"name": "_Z3ownv", "gpu": 0, "count": 1, "nanoseconds": 10}]

    case.judge_results({**RIGHT, "rival_error": None, "kernels": ran, "unread": ""}, OWN)

    assert case.result.faults == ("no kernel ran on GPU 1, of 2 that are to work",)
    assert case.result.gpu_shares == (1.0, 0.0)


SOURCE = "__global__ void twice(float *x) { *x *= 2; }\nnamespace a { __global__ void b() {} }\n"


@pytest.fixture(scope="module")
def library(cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    source = folder / "twice.cu"
    source.write_text(SOURCE)
    flags = ("-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_100,code=compute_100")
    return compile_cuda(folder / "twice.so", cuda_home, source, *flags, "-cudart=none")


@pytest.mark.parametrize(
    ("capability", "kernels"),
    [
        ("90", {"_Z5twicePf", "_ZN1a1bEv"}),
        ("120", {"_Z5twicePf", "_ZN1a1bEv"}),  # from PTX
        ("80", set()),
    ],
)
def test_kernels_for_a_gpu(library: Path, capability: str, kernels: set[str]) -> None:
    assert kernels_of([library], capability) == kernels


def test_archs_of_libraries(library: Path, tmp_path: Path) -> None:
    text = tmp_path / "script.so"
    text.write_text("INPUT(x)")

    code = code_of_libraries([library, text])

    assert (code.sass, code.ptx) == (("90",), ("100",))


ON_TWO = [
    {"name": "_Z5twicePf", "gpu": 0, "count": 1, "nanoseconds": 45},
    {"name": "ampere_gemm", "gpu": 1, "count": 1, "nanoseconds": 40},
    {"name": "_Z5twicePf", "gpu": 1, "count": 1, "nanoseconds": 15},
]


def test_shares_of_kernels_and_gpus() -> None:
    assert own_share(ON_TWO, frozenset({"_Z5twicePf"})) == 0.6
    assert own_share([], frozenset({"_Z5twicePf"})) is None
    assert longest(ON_TWO) == (("_Z5twicePf", 0.6), ("ampere_gemm", 0.4))
    assert gpu_shares(ON_TWO, 3) == (0.45, 0.55, 0.0)
    assert gpu_shares([], 2) == ()
