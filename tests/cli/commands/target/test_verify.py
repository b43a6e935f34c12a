"""How `verify` goes through several targets; tests/e2e/test_verify.py has one target's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import InterpreterNotFoundError, RebuildFailedError, UsageError
from cuwheel.paths import ROOT
from cuwheel.system.console import Console

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.engine import Engine

PYTHON = "--python=/nonexistent/python"
RECORD = ROOT / "docs" / "reproducibility.md"


@pytest.fixture(autouse=True)
def _settings(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in engine.environment().items():
        monkeypatch.setenv(name, value)


def test_tells_of_each_target_that_can_not_be_verified(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ["tiny-capi-130", "tiny-skbuild-130"]

    with pytest.raises(InterpreterNotFoundError):
        run_command("verify", [*targets, PYTHON, f"--work={engine.work}"], Console())

    told = capsys.readouterr().err
    assert [
        name for name in targets if f"{name} is not verified: /nonexistent/python" not in told
    ] == []


def test_all_fails_where_nothing_can_be_verified(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    before = RECORD.read_text()

    with pytest.raises(InterpreterNotFoundError):
        run_command("verify", ["all", PYTHON, f"--work={engine.work}"], Console())

    told = capsys.readouterr().err
    assert "causal-conv1d-130 is not verified: /nonexistent/python" in told
    assert RECORD.read_text() == before


def test_compares_one_target_with_what_is_published() -> None:
    words = ["tiny-capi-130", "tiny-skbuild-130", "--against", "x.whl"]

    with pytest.raises(UsageError, match="--against compares exactly one target"):
        run_command("verify", words, Console())


def test_failed_verification_says_what_it_left(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source.tar.gz"
    source.write_bytes(b"no archive")
    words = [f"--source={source}", f"--work={engine.work}"]

    with pytest.raises(RebuildFailedError):
        run_command("verify", ["tiny-capi-130", *words], Console())

    [left] = engine.work.glob("verify/tiny-capi-*/usual")
    assert f"rm -rf {left.parent}" in capsys.readouterr().err
