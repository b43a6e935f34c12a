"""Answers of several processes, as one."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from cuwheel.standalone import script

sys.path.insert(0, str(script("perf/worker.py").parent))

from team import Seat, free_address, merge_answers, seat_of  # type: ignore[import-not-found]


def prepared(error: float, seconds: float, kernel: str, **more: Any) -> dict[str, Any]:
    usual = {"block_error": 2 * error, "block": f"elements {error}", "rival_error": error}
    ran = [{"name": kernel, "gpu": 0, "count": 1, "nanoseconds": 5}]
    return {"error": error, "seconds": seconds, "kernels": ran, "unread": "", **usual, **more}


def test_the_largest_error_and_the_longest_time_count() -> None:
    found = merge_answers("prepare", [prepared(1e-6, 0.2, "a"), prepared(1e-3, 0.1, "b")])

    assert (found["error"], found["block"], found["seconds"]) == (1e-3, "elements 0.001", 0.2)
    assert found["rival_error"] == 1e-3
    assert [one["name"] for one in found["kernels"]] == ["a", "b"]


def test_nan_of_one_process_counts() -> None:
    found = merge_answers("finish", [prepared(1e-6, 0, "a"), prepared(float("nan"), 0, "b")])

    assert found["error"] != found["error"]


def test_kernels_that_one_process_could_not_read() -> None:
    found = merge_answers("prepare", [prepared(0, 0, "a"), prepared(0, 0, "b", unread="no CUPTI")])

    assert found["unread"] == "no CUPTI"


@pytest.mark.parametrize(
    ("action", "answers", "merged"),
    [
        ("sample", ([1.0, 3.0], [2.0, 2.0]), [2.0, 3.0]),
        ("ceilings", ({"copy": 3e12}, {"copy": 2e12}), {"copy": 5e12}),
        ("libraries", (["a.so", "c.so"], ["b.so", "c.so"]), ["a.so", "b.so", "c.so"]),
        ("finish", ({}, {}), {}),
    ],
)
def test_merges_what_all_say(action: str, answers: tuple[Any, ...], merged: object) -> None:
    assert merge_answers(action, answers) == merged


def test_least_free_memory_counts() -> None:
    answers = [{"gpus": [{"uuid": name}], "free": free} for name, free in (("a", 5), ("b", 3))]

    found = merge_answers("start", answers)

    assert (found["free"], found["gpus"]) == (3, [{"uuid": "a"}, {"uuid": "b"}])


def test_seat_on_the_command_line() -> None:
    seat = Seat(1, 2, free_address())

    assert seat_of([f'--seat=[1, 2, "{seat.address}"]', "probe.py"]) == (seat, ["probe.py"])
    assert seat_of(["probe.py", "folder"]) == (None, ["probe.py", "folder"])
