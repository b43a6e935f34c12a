"""Merged answers of several processes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from cuwheel.base.paths import script

sys.path.insert(0, str(script("lab/perf/runner/worker.py").parent))

from team import Seat, merge_answers, seat_of  # type: ignore[import-not-found]


def prepared(error: float, seconds: float, kernel: str, **more: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "block_error": 2 * error,
        "block": f"elements {error}",
        "rival_error": error,
    }
    usual |= {"units": 1e3 * error, "bias": 0.0}
    ran = [{"name": kernel, "gpu": 0, "count": 1, "nanoseconds": 5}]
    return {"error": error, "seconds": seconds, "kernels": ran, "unread": "", **usual, **more}


def test_the_largest_error_and_the_longest_time_count() -> None:
    merged = merge_answers("prepare", [prepared(1e-6, 0.2, "a"), prepared(1e-3, 0.1, "b")])

    assert (merged["error"], merged["block"], merged["seconds"]) == (1e-3, "elements 0.001", 0.2)
    assert merged["rival_error"] == 1e-3
    assert [kernel["name"] for kernel in merged["kernels"]] == ["a", "b"]


def test_nan_of_one_process_counts() -> None:
    merged = merge_answers("finish", [prepared(1e-6, 0, "a"), prepared(float("nan"), 0, "b")])

    assert merged["error"] != merged["error"]


def test_kernels_that_one_process_could_not_read() -> None:
    merged = merge_answers("prepare", [prepared(0, 0, "a"), prepared(0, 0, "b", unread="no CUPTI")])

    assert merged["unread"] == "no CUPTI"


@pytest.mark.parametrize(
    ("action", "answers", "merged"),
    [
        ("sample", ([1.0, 3.0], [2.0, 2.0]), [2.0, 3.0]),
        ("ceilings", ({"copy": 3e12}, {"copy": 2e12}), {"copy": 5e12}),
        ("libraries", (["a.so", "c.so"], ["b.so", "c.so"]), ["a.so", "b.so", "c.so"]),
        ("finish", ({}, {}), {}),
    ],
)
def test_merges_answers(action: str, answers: tuple[Any, ...], merged: object) -> None:
    assert merge_answers(action, answers) == merged


def test_least_free_memory_counts() -> None:
    answers = [{"gpus": [{"uuid": name}], "free": free} for name, free in (("a", 5), ("b", 3))]

    merged = merge_answers("start", answers)

    assert (merged["free"], merged["gpus"]) == (3, [{"uuid": "a"}, {"uuid": "b"}])


def test_seat_on_the_command_line() -> None:
    seat = Seat(1, 2, "127.0.0.1:40000")

    assert seat_of([f'--seat=[1, 2, "{seat.address}"]', "probe.py"]) == (seat, ["probe.py"])
    assert seat_of(["probe.py", "folder"]) == (None, ["probe.py", "folder"])
