"""A run on a terminal, as a page, as a picture, and in a history."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.system.console import Console
from cuwheel.lab.perf.page import draw_history, draw_run, page_of
from cuwheel.lab.perf.records import PerfRun, Sanitizing, UpstreamTests
from cuwheel.lab.perf.report import (
    keep_run,
    print_run,
    read_history,
    show_levels,
    show_seconds,
    show_suppliers,
)
from tests.support.golden import Golden
from tests.support.lab.perf_runs import compared, make_case, make_run, make_timing

PNG = b"\x89PNG\r\n\x1a\n"


def printed(run: PerfRun, *, is_verbose: bool) -> str:
    stream = io.StringIO()
    console = Console()
    console.is_verbose = is_verbose
    print_run(run, rich.console.Console(file=stream, width=200), console)
    return stream.getvalue()


def runs(*medians: float) -> list[PerfRun]:
    return [
        make_run(
            make_case(timing=make_timing(median)),
            date=f"2026-11-{day:02}T09:00:00+00:00",
        )
        for day, median in enumerate(medians, 1)
    ]


@pytest.mark.parametrize(("name", "is_verbose"), [("report", False), ("report-verbose", True)])
def test_prints_run(name: str, is_verbose: bool, golden: Golden) -> None:  # noqa: FBT001
    run = make_run(
        make_case(block_limit=9e-3, block_reason="middles between codes"),
        make_case("compared", comparison=compared("SLOWER", 1.05)),
        make_case("wrong", faults=("the result contains NaN",)),
        make_case("two", timing=None, skipped="it needs 2 GPUs", error=None),
        make_case("raised", timing=None, failed="ValueError: no", error=None),
        answer="SLOWER",
        against="old.whl",
    )

    golden.check(f"perf/{name}.txt", printed(run, is_verbose=is_verbose))


def test_the_same_is_the_same_as() -> None:
    run = make_run(answer="SAME", against="old.whl")

    assert "SAME as old.whl" in printed(run, is_verbose=False)


def test_times_have_the_unit_that_fits() -> None:
    shown = [show_seconds(seconds) for seconds in (1.5, 2.5e-3, 12.34e-6, 5e-9)]

    assert shown == ["1.5 s", "2.5 ms", "12.3 µs", "5 ns"]


def test_shows_paths_of_files_of_no_wheel() -> None:
    libraries = [("libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13", "")]

    assert list(show_suppliers(libraries)) == [
        "from the machine, not a wheel: /usr/local/cuda/lib64/libcublas.so.13"
    ]


def test_page_loads_nothing() -> None:
    run = make_run(make_case("<b>case</b>"), notes=("a <note>",))

    page = page_of(run, draw_run(run), runs(1e-3, 1e-3))

    assert re.findall(r'(?:src|href)="(?!data:)', page) == []
    assert "&lt;b&gt;case&lt;/b&gt;" in page
    assert "a &lt;note&gt;" in page
    assert "<td>elements 512 to 767</td>" in page
    assert "<b>case" not in page


def test_draws_pictures() -> None:
    assert draw_run(make_run(make_case(timing=None))).startswith(PNG)
    assert draw_run(make_run()) == draw_run(make_run())
    assert draw_history(runs(1e-3, 2e-3), "forward").startswith(PNG)


def test_history_is_of_one_gpu(tmp_path: Path) -> None:
    run = make_run()
    other = dataclasses.replace(
        run, gpu=dataclasses.replace(run.gpu, driver="590"), sha256="c" * 64
    )
    for item in (run, other):
        keep_run(item, tmp_path)
    (tmp_path / "broken.json").write_text("{")

    assert read_history(tmp_path, run) == (run,)


def test_names_what_each_level_showed() -> None:
    run = make_run(
        make_case("a", is_grid=True),
        make_case("b", is_grid=True, faults=("NaN",)),
        sanitizing=(Sanitizing(tool="memcheck", cases=("a",), problems=(), seconds=1.0),),
        upstream_tests=UpstreamTests(
            names=("t",), passed=3, failed=0, skipped=1, broken=(), seconds=1.0
        ),
        untouched=("empty inputs",),
        seconds={"grid": 12.3},
    )

    assert list(show_levels(run)) == [
        "1 case of the grid correct",
        "memcheck: 0 problems in 1 case",
        "tests of the source: 3 passed, 0 failed, 1 skipped",
        "not called: empty inputs",
        "took grid 12 s",
    ]
