"""Verdicts as a table and as pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.build.pipeline.package_build.trial import TriedFile
from cuwheel.lab.day_zero.report import print_verdicts, summary_of, write_reports
from cuwheel.lab.day_zero.verdict import DayZeroDocument, Verdict
from tests.support.documents import read_document
from tests.support.golden import Golden

_FILES = (
    TriedFile(file="csrc/a.cu", part="smallest", archs=("90",), seconds=12.0, peak_memory=1 << 30),
    TriedFile(file="csrc/b.cu", part="heaviest", archs=("90",), seconds=95, peak_memory=3 << 30),
)
_DOCUMENT = DayZeroDocument(
    framework="torch==2.15.0",
    cuda="13.2",
    python="3.12",
    archs=("90",),
    date="2026-11-29",
    verdicts=(
        Verdict(
            recipe="tiny-a",
            version="1.0",
            target="tiny-a-132-cp312-torch2.15",
            state="works",
            command="nox -s build -- tiny-a --framework torch==2.15.0",
            files=_FILES,
            count=7,
            seconds=130,
        ),
        Verdict(
            recipe="tiny-b",
            version="2.0",
            target="tiny-b-132-cp312-torch2.15",
            state="works with changes",
            changes=("CUDA 13.2", "C++20"),
            diff='--- a/recipes/tiny_b.py\n+++ b/recipes/tiny_b.py\n-    toolkits=("13.0",),',
            command="nox -s bump -- tiny-b --framework torch==2.15.0 --cooldown 0",
            files=_FILES[:1],
            count=1,
            seconds=60,
        ),
        Verdict(
            recipe="tiny-c",
            version="3.0",
            state="broken",
            why="A function that the code calls is gone",
            error='a.cu:3: error: class "at::Tensor" has no member "type" | <x>',
            seconds=30,
        ),
        Verdict(recipe="tiny-d", version="4.0", state="unknown", why="the index is out of reach"),
    ),
    held_back=("tiny-old",),
)


def test_prints_a_row_for_each_recipe(
    golden: Golden, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")

    print_verdicts(_DOCUMENT, report_terminal())

    golden.check("day-zero/table.txt", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["page.md", "page.html"])
def test_writes_a_page(golden: Golden, tmp_path: Path, name: str) -> None:
    write_reports(_DOCUMENT, None, tmp_path / name)

    golden.check(f"day-zero/{name}", (tmp_path / name).read_text())


@pytest.mark.parametrize("files", [_FILES, ()])
def test_summary_states_that_nothing_was_compiled(files: tuple[TriedFile, ...]) -> None:
    tried = tuple(replace(verdict, files=files) for verdict in _DOCUMENT.verdicts)

    summary = summary_of(replace(_DOCUMENT, verdicts=tried))

    assert ("no file of a package was compiled" in summary) == (not files)


def test_writes_json(tmp_path: Path) -> None:
    write_reports(_DOCUMENT, tmp_path / "day.json", None)

    content = read_document((tmp_path / "day.json").read_text(), "day-zero")
    assert content["verdicts"][0]["recipe"] == "tiny-a"
