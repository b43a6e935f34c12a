"""A run as a page and a picture; a history and what it hints at."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from cuwheel.perf.report.history import changes_of, keep, read_history
from cuwheel.perf.report.page import page_of
from cuwheel.perf.report.picture import draw_history, draw_run
from tests.support.measured import make_case, make_run, make_timing

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.perf.records import PerfRun

PNG = b"\x89PNG\r\n\x1a\n"


def runs(*medians: float) -> list[PerfRun]:
    return [
        make_run(
            make_case(timing=make_timing(median)),
            date=f"2026-11-{day:02}T09:00:00+00:00",
        )
        for day, median in enumerate(medians, 1)
    ]


def test_page_loads_nothing() -> None:
    run = make_run(make_case("<b>case</b>"), notes=("a <note>",))

    page = page_of(run, draw_run(run), runs(1e-3, 1e-3))

    assert re.findall(r'(?:src|href)="(?!data:)', page) == []
    assert "&lt;b&gt;case&lt;/b&gt;" in page
    assert "a &lt;note&gt;" in page
    assert "<td>elements 512 to 767</td>" in page
    assert "<b>case" not in page


def test_picture_is_drawn_of_no_times_too() -> None:
    assert draw_run(make_run(make_case(timing=None))).startswith(PNG)


def test_same_run_gives_the_same_picture() -> None:
    assert draw_run(make_run()) == draw_run(make_run())


def test_history_is_of_one_gpu(tmp_path: Path) -> None:
    run = make_run()
    other = dataclasses.replace(
        run, gpu=dataclasses.replace(run.gpu, driver="590"), sha256="c" * 64
    )
    for one in (run, other):
        keep(one, tmp_path)
    (tmp_path / "broken.json").write_text("{")

    assert read_history(tmp_path, run) == (run,)


def test_history_is_drawn() -> None:
    assert draw_history(runs(1e-3, 2e-3), "forward").startswith(PNG)


def test_change_for_good_is_hinted_at() -> None:
    before = [1.00e-3, 1.001e-3, 0.999e-3, 1.0e-3, 1.002e-3]
    after = [1.10e-3, 1.101e-3, 1.099e-3, 1.1e-3, 1.102e-3]

    assert changes_of(runs(*before, *after), "forward") == ("+10.0 % from 2026-11-06 on",)


def test_each_change_is_hinted_at() -> None:
    low = [1.00e-3, 1.001e-3, 0.999e-3]
    high = [1.10e-3, 1.101e-3, 1.099e-3]

    found = changes_of(runs(*low, *high, *low[:2]), "forward")

    assert found == ("+10.0 % from 2026-11-04 on", "-9.0 % from 2026-11-07 on")


def test_level_lasts_two_runs() -> None:
    medians = [1.00e-3, 1.001e-3, 0.999e-3, 1.0e-3, 1.002e-3, 1.001e-3, 0.999e-3, 1.02e-3]

    assert changes_of(runs(*medians), "forward") == ("+0.9 % from 2026-11-07 on",)


def test_scatter_is_no_change() -> None:
    assert changes_of(runs(*[1e-3, 1.01e-3, 0.99e-3, 1.005e-3] * 3), "forward") == ()


def test_few_runs_say_nothing() -> None:
    assert changes_of(runs(1e-3, 2e-3), "forward") == ()
