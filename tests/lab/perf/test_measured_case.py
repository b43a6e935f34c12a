"""Judgement of a case by its probe's answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cuwheel.lab.perf.kernels import (
    code_of_libraries,
    gpu_shares,
    kernels_of,
    longest,
    own_share,
    show_kernel,
)
from cuwheel.lab.perf.measured_case import MeasuredCase, new_case
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
    "units": None,
    "same_bits": None,
    "is_grid": False,
    "is_timed": True,
    "host_calls": 0,
}
RIGHT = {
    "error": 1e-6,
    "block_error": 3e-6,
    "block": "elements 0 to 255",
    "units": 2.0,
    "bias": 0.1,
    "digest": "a",
    "repeats": 300,
    "differing": 0,
    "difference": 0.0,
    "leak": 0,
    "peak": 1 << 20,
}
OWN = frozenset({"_Z3ownv"})


def judged(
    *kernels: str, unread: str = "", answer: Mapping[str, Any] = RIGHT, **facts: Any
) -> MeasuredCase:
    case = new_case({**FACTS, **facts})
    ran = [{"name": name, "count": 1, "nanoseconds": 10} for name in kernels]
    case.judge_results({**answer, "rival_error": None, "kernels": ran, "unread": unread}, OWN)
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
        (("_Z8fallbackv",), {}, ("no kernel of the wheel ran, but fallback",)),
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


def test_unread_kernels_leave_a_case_undecided() -> None:
    assert "whose kernels ran: no libcupti.so" in judged(unread="no libcupti.so").result.undecided
    assert judged(unread="no libcupti.so", has_own_kernels=False).result.undecided == ""


@pytest.mark.parametrize(
    ("answer", "facts", "fault"),
    [
        ({"units": 90.0}, {"units": 16.0}, "the error of an element is 90 units of its format"),
        ({"bias": 1.7}, {"units": 16.0}, "4096 elements are too large or too small by 1.7 times"),
        ({"units": 90.0, "bias": 1.7}, {}, ""),
        ({"differing": 3, "difference": 1e-7}, {}, ""),
        ({"differing": 3, "difference": 1e-7}, {"same_bits": True}, "3 of 300 calls with the same"),
        ({"differing": 3, "difference": 0.2}, {"same_bits": False}, "3 of 300 calls with the same"),
        ({"differing": 3, "difference": math.nan}, {}, "3 of 300 calls with the same"),
        ({"leak": 4 << 20}, {}, "each call leaks 4.0 MiB of GPU memory"),
    ],
)
def test_what_one_error_of_the_whole_hides(
    answer: dict[str, Any], facts: dict[str, Any], fault: str
) -> None:
    faults = judged("_Z3ownv", answer={**RIGHT, **answer}, **facts).result.faults

    assert [text[: len(fault)] for text in faults] == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("old", "agreement", "fault"),
    [
        ({"digest": "a"}, "same bits", ""),
        ({"digest": "b"}, "same error", ""),
        ({"digest": "b", "error": 1e-8}, "larger error", "its error is larger than the old"),
        ({"digest": "b", "units": 0.5}, "larger error", "its error is larger than the old"),
        ({"digest": "b", "error": 1e-8, "block_error": 1.0}, "same error", ""),  # the old is wrong
    ],
)
def test_results_are_compared_with_the_old_wheels(
    old: dict[str, Any], agreement: str, fault: str
) -> None:
    case = judged("_Z3ownv")

    case.agree({**RIGHT, **old})

    assert case.result.agreement == agreement
    assert [text[: len(fault)] for text in case.result.faults] == ([fault] if fault else [])


def test_other_bits_count_where_the_old_wheel_has_none() -> None:
    case = judged("_Z3ownv", answer={**RIGHT, "differing": 2, "difference": 1e-7})

    case.agree({**RIGHT, "digest": "b"})

    assert "of the old wheel none did" in case.result.faults[0]


def test_host_calls_have_a_tolerance_of_their_own() -> None:
    case = judged("_Z3ownv", host_calls=32)

    case.compare([1.05] * 9, [1.0] * 9, [1.0] * 9, tolerance=0.01, by_host=True)

    assert case.result.comparison
    assert (case.result.comparison.answer, case.result.comparison.tolerance) == ("SAME", 0.1)


@pytest.mark.parametrize(
    ("slow", "answer"),  # of each turn, which of the old, the new and the other old one were slow
    [
        (["none"], "SAME"),
        (["new"], "UNDECIDED"),
        (["new", "again"], "UNDECIDED"),
        (["new", "again", "old"], "SAME"),
        (["new", "again, new", "old, new"], "UNDECIDED"),
        (["new", "again, new", "old, new", "new"], "UNDECIDED"),
        (["new", "again, new", "old, new", "new", "new"], "SLOWER"),
        (["old, again"] * 5, "FASTER"),
        (["old"] * 6, "UNDECIDED"),
    ],
)
def test_least_of_several_processes_counts_by_the_hosts_clock(slow: list[str], answer: str) -> None:
    case = judged("_Z3ownv")

    for names in slow:
        least = [1.5 if name in names.split(", ") else 1.0 for name in ("new", "old", "again")]
        case.compare(*([time, 3 * time] for time in least), tolerance=0.03, by_host=True)

    assert case.result.comparison
    assert case.result.comparison.answer == answer


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z3ownv", "own"),
        ("_Z24causal_conv1d_fwd_kernelI1TEv14ConvParamsBase", "causal_conv1d_fwd_kernel"),
        ("_ZN2at6native6kernelILi4EEEvi", "at::native::kernel"),
        ("_ZN12_GLOBAL__N_11kEv", "k"),
        ("triton_poi_fused_0", "triton_poi_fused_0"),
        (f"_Z99{'a' * 99}v", f"{'a' * 79}…"),
    ],
)
def test_names_of_kernels(mangled: str, name: str) -> None:
    assert show_kernel(mangled) == name


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
