"""Records of runs: written, read, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.system.output.documents import as_file
from cuwheel.lab.perf.records import CaseResult, Sanitizing, UpstreamTests, read_run
from tests.support.lab.perf_runs import compared, make_case, make_run, make_timing

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
        (_named("perf", "99.0"), "its schema is perf 99.0, not perf 1.3"),
        (_named("nightly", "1.0"), "its schema is nightly 1.0, not perf 1.3"),
        (_named("perf", "1.7"), "KeyError: 'cases'"),
        (as_file(make_run(make_case(timing=make_timing(0.0)))), "a time in it isn't positive"),
    ],
)
def test_refuses_other_content(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "perf.json"
    path.write_text(content)

    with pytest.raises(UsageError) as caught:
        read_run(path)

    assert why in caught.value.why


def test_refuses_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_run(tmp_path / "perf.json")

    assert caught.value.why == "No such file or directory"


def test_faults_name_their_case() -> None:
    run = make_run(make_case("a", faults=("wrong",)), make_case("b"))

    assert run.faults == ("a: wrong",)


def test_ignores_fields_of_a_later_release(tmp_path: Path) -> None:
    run = make_run(make_case(comparison=compared("SAME")))
    content = json.loads(as_file(run))
    [case], [sweep] = content["cases"], content["sweep"]
    parts = (case, case["clocks"], case["timing"], case["comparison"], content["gpu"], sweep)
    for part in (content, *parts):
        part["later"] = 1
    path = tmp_path / "perf.json"
    path.write_text(json.dumps(content))

    assert read_run(path) == run


def test_reads_records_without_block_errors(tmp_path: Path) -> None:
    content = json.loads(as_file(make_run()))
    for part, names in ((content, ("cuwheel", "is_busy")), (content["cases"][0], _BLOCKS)):
        for name in names:
            del part[name]
    path = tmp_path / "perf.json"
    path.write_text(json.dumps(content))

    run = read_run(path)
    assert run.cases[0].block_error is None
    assert run.is_busy


_LOST = make_case("a", timing=None, is_timed=True, skipped="too little", lacks="memory")


@pytest.mark.parametrize(
    ("cases", "answer", "outcome"),
    [
        ((make_case("b", is_timed=True),), "", "passed"),
        ((_LOST, make_case("b", timing=None)), "", "undecided"),
        ((_LOST, make_case("b", is_timed=True, comparison=compared("SAME"))), "SAME", "undecided"),
        ((make_case("b", is_timed=True, timing=None),), "", "undecided"),
        ((make_case("b", undecided="not read"),), "", "undecided"),
        ((_LOST, make_case("b", undecided="not read", faults=("NaN",))), "", "wrong"),
    ],
)
def test_what_decides_nothing_has_not_passed(
    cases: tuple[CaseResult, ...], answer: Any, outcome: str
) -> None:
    assert make_run(*cases, answer=answer, against="old" * bool(answer)).outcome == outcome


_TOOL = Sanitizing(tool="memcheck", cases=("a",), problems=(), seconds=1.0)
_TESTS = UpstreamTests(names=("t",), passed=1, failed=0, skipped=0, broken=(), seconds=1.0)


@pytest.mark.parametrize(
    "stronger",
    [{"sanitizing": (_TOOL,)}, {"upstream_tests": _TESTS}, {"is_busy": False}, {"is_quick": False}],
)
def test_weaker_run_covers_no_stronger_one(stronger: dict[str, Any]) -> None:
    weak = make_run(is_busy=True, is_quick=True)
    strong = replace(weak, **stronger)

    assert strong.covers(weak)
    assert not weak.covers(strong)


def test_fewer_sanitized_cases_or_tests_cover_no_more() -> None:
    whole = make_run(sanitizing=(_TOOL,), upstream_tests=_TESTS)
    fewer_cases = replace(whole, sanitizing=(replace(_TOOL, cases=_TOOL.cases[1:]),))
    fewer_tests = replace(whole, upstream_tests=replace(_TESTS, passed=_TESTS.passed - 1))

    assert [whole.covers(run) for run in (fewer_cases, fewer_tests)] == [True, True]
    assert [run.covers(whole) for run in (fewer_cases, fewer_tests)] == [False, False]


def test_problems_of_a_sanitizer_are_faults() -> None:
    run = make_run(sanitizing=(replace(_TOOL, problems=("k: Invalid write",)),))

    assert run.faults == ("memcheck: k: Invalid write",)


def test_failed_tests_of_the_source_are_failures() -> None:
    run = make_run(upstream_tests=replace(_TESTS, failed=1, broken=("test_a",)))

    assert (run.failures, run.outcome) == (("a test of the source failed: test_a",), "failed")
