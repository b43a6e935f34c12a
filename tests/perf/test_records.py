"""A run as a file: written, read again, refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.perf.records import read_run
from cuwheel.system.output.documents import as_file
from tests.support.measured import compared, make_case, make_run, make_timing

if TYPE_CHECKING:
    from pathlib import Path

_BLOCKS = ("block_error", "block", "block_limit", "block_reason")


def _named(schema: str, version: str) -> str:
    return json.dumps({"schema": schema, "schema_version": version})


def test_reads_what_was_written(tmp_path: Path) -> None:
    skipped = make_case("two", timing=None, rival_timing=None, skipped="it needs 2 GPUs")
    run = make_run(make_case(comparison=compared("SAME")), skipped, answer="SAME", against="x.whl")
    path = tmp_path / "perf.json"
    path.write_text(as_file(run))

    assert read_run(path) == run


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "JSONDecodeError"),
        ("[]", "TypeError"),
        ("{}", "KeyError: 'schema'"),
        (_named("perf", "99.0"), "its schema is perf 99.0, not perf 1.1"),
        (_named("nightly", "1.0"), "its schema is nightly 1.0, not perf 1.1"),
        (_named("perf", "1.7"), "KeyError: 'cases'"),
        (as_file(make_run(make_case(timing=make_timing(0.0)))), "a time in it isn't positive"),
    ],
)
def test_refuses_what_is_no_run(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "perf.json"
    path.write_text(content)

    with pytest.raises(UsageError) as caught:
        read_run(path)

    assert why in caught.value.why


def test_refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_run(tmp_path / "perf.json")

    assert caught.value.why == "No such file or directory"


def test_faults_name_their_case() -> None:
    run = make_run(make_case("a", faults=("wrong",)), make_case("b"))

    assert run.faults == ("a: wrong",)


def test_passes_over_what_a_later_cuwheel_added(tmp_path: Path) -> None:
    run = make_run(make_case(comparison=compared("SAME")))
    content = json.loads(as_file(run))
    [case], [sweep] = content["cases"], content["sweep"]
    parts = (case, case["clocks"], case["timing"], case["comparison"], content["gpu"], sweep)
    for part in (content, *parts):
        part["later"] = 1
    path = tmp_path / "perf.json"
    path.write_text(json.dumps(content))

    assert read_run(path) == run


def test_reads_what_a_cuwheel_wrote_that_looked_at_no_blocks(tmp_path: Path) -> None:
    content = json.loads(as_file(make_run()))
    for one, names in ((content, ("cuwheel", "commit")), (content["cases"][0], _BLOCKS)):
        for name in names:
            del one[name]
    path = tmp_path / "perf.json"
    path.write_text(json.dumps(content))

    assert read_run(path).cases[0].block_error is None
