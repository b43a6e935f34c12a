"""A failed step's summary is published with the run, so it holds no secret."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.build.workspace.printed_error import print_error


def test_summary_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("MY_TOKEN", "correct_horse_battery")
    error = UsageError("https://me:hunter2@host", why="correct_horse_battery", fix="")

    print_error(error, Console(rich.console.Console(file=io.StringIO())), "correct_horse_battery")

    text = summary.read_text()
    assert text.count("masked: value of MY") == 2
    assert [one for one in ("hunter2", "horse") if one in text] == []
