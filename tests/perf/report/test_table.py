"""A run on a terminal."""

from __future__ import annotations

import io

import rich.console

from cuwheel.perf.report.figures import show_seconds, show_suppliers
from cuwheel.perf.report.table import print_run
from cuwheel.system.console import Console
from tests.support.measured import compared, make_case, make_run


def printed(*cases: object, is_verbose: bool = False, **more: object) -> str:
    stream = io.StringIO()
    terminal = rich.console.Console(file=stream, width=200)
    console = Console()
    console.is_verbose = is_verbose
    print_run(make_run(*cases, **more), terminal, console)  # type: ignore[arg-type]
    return stream.getvalue()


def test_says_what_was_measured_and_how_fast() -> None:
    text = printed()

    assert "Test GPU (sm_90, 8 GiB, driver 580)" in text
    assert "copy 3.00 TB/s, bf16 800 TFLOP/s" in text
    assert "1 ms" in text
    assert "3 TFLOP/s, 2.50 TB/s" in text
    assert "83 %" in text
    assert "2.00 x torch" in text
    assert "from torch 2.11.0: libc10.so" in text
    assert "MEASURED_LIKE=<this>" in text


def test_says_what_is_wrong_and_what_was_left_out() -> None:
    left = make_case("two", timing=None, skipped="it needs 2 GPUs", error=None)
    text = printed(make_case(faults=("the result contains NaN",)), left)

    assert "wrong: forward: the result contains NaN" in text
    assert "left out" in text
    assert "it needs 2 GPUs" in text


def test_says_how_errors_stand_to_their_limits_where_asked() -> None:
    case = make_case(block_limit=9e-3, block_reason="middles between codes")

    text = " ".join(printed(case, is_verbose=True).split())

    assert "forward 1.0e-06 0.001 x 2.5e-06 0.0025 x 9 x" in text
    assert "elements 512 to 767: middles between codes" in text
    assert "elements 512" not in printed(case)


def test_says_which_is_slower() -> None:
    case = make_case(comparison=compared("SLOWER", 1.05))
    text = printed(case, answer="SLOWER", against="old.whl")

    assert "SLOWER 1.050 (1.040 to 1.060), noise 0.2 %" in text
    assert "SLOWER than old.whl" in text


def test_the_same_is_the_same_as() -> None:
    assert "SAME as old.whl" in printed(answer="SAME", against="old.whl")


def test_times_have_the_unit_that_fits() -> None:
    shown = [show_seconds(seconds) for seconds in (1.5, 2.5e-3, 12.34e-6, 5e-9)]

    assert shown == ["1.5 s", "2.5 ms", "12.3 µs", "5 ns"]


def test_files_of_no_wheel_are_named_whole() -> None:
    libraries = [("libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13", "")]

    assert list(show_suppliers(libraries)) == [
        "from the machine, not a wheel: /usr/local/cuda/lib64/libcublas.so.13"
    ]
