"""The limit on the work for a log: absurd ones are read in part, their end always."""

from __future__ import annotations

import io

import pytest

from cuwheel.check.explain import effort
from cuwheel.check.explain.explanation import Explainer

_LINE = b"hint: a needs b" + b" " * 1_900 + b"\n"
_LOG = _LINE * 2_200  # four blocks
_ERROR = b"nvcc fatal   : Unsupported gpu architecture 'compute_90'\n"
_CAUSE = "arch-newer-than-nvcc"


def slugs(log: bytes) -> list[str]:
    return [cause.slug for cause in Explainer().explain(io.BytesIO(log)).causes]


@pytest.fixture
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow the work of a few lines only."""
    monkeypatch.setattr(effort, "_START", 1_000)
    monkeypatch.setattr(effort, "_BYTES", 1 << 30)


@pytest.mark.usefixtures("_little")
def test_reads_the_end_of_a_log_that_takes_too_much_work() -> None:
    assert slugs(_LOG + _ERROR + _LINE) == [_CAUSE]


@pytest.mark.usefixtures("_little")
def test_counts_the_lines_that_it_skips() -> None:
    log = _LOG + _ERROR + _LOG

    explanation = Explainer().explain(io.BytesIO(log))

    assert explanation.causes == ()
    assert explanation.lines == log.count(b"\n")


def test_reads_all_of_an_ordinary_log() -> None:
    assert slugs(_LOG + _ERROR + _LOG) == [_CAUSE]


def test_a_longer_log_may_take_more_work() -> None:
    work = effort.Effort()
    work.spent = effort._START + 10

    assert not work.allows(100)
    assert work.allows(100)
