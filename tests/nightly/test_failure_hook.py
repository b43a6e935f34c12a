"""A failed run is told to whoever wants to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.nightly.failure_hook import run_hook, write_summary
from tests.support.nights import make_run

if TYPE_CHECKING:
    from pathlib import Path


def test_summary_holds_the_explanation(tmp_path: Path) -> None:
    text = write_summary(make_run(), tmp_path).read_text()

    assert text.startswith("nightly on builder, 2026-11-23T02:30:00+00:00: failed\n")
    assert "- failed  build tiny-130-cp312 (3.5 s): status 61: it <broke>" in text
    assert "~~~~\nptxas was killed: out of memory\n~~~~" in text


def test_hook_gets_summary_and_report(tmp_path: Path) -> None:
    summary = write_summary(make_run(), tmp_path).read_text()

    status = run_hook(f'cat > {tmp_path}/mail; echo "$CUWHEEL_NIGHTLY_REPORT"; exit 3', tmp_path)

    assert status == 3
    assert (tmp_path / "mail").read_text() == summary
    assert (tmp_path / "logs" / "on-failure.log").read_text() == f"{tmp_path}/index.html\n"


def test_hook_that_is_no_command_has_failed(tmp_path: Path) -> None:
    write_summary(make_run(), tmp_path)

    assert run_hook("no-such-program-here", tmp_path) == 127
    assert "not found" in (tmp_path / "logs" / "on-failure.log").read_text()
