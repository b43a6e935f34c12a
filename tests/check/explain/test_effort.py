"""The limit on the work for a log: absurd ones are read in part, their end always."""

from __future__ import annotations

import io

import pytest

from cuwheel.check.explain import effort
from cuwheel.check.explain.explain import explanation_as_text
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
    assert 0 < explanation.unread < explanation.lines
    assert f"({explanation.unread} only counted" in explanation_as_text(explanation, "a.log")


@pytest.mark.usefixtures("_little")
def test_limit_is_met_within_a_block() -> None:
    explanation = Explainer().explain(io.BytesIO(_LINE * 400))  # less than a block

    assert 0 < explanation.unread < 400


@pytest.mark.usefixtures("_little")
def test_counts_lines_that_it_reads_in_part() -> None:
    long = b"hint: a needs b" + b" " * 5_000 + b"\n"

    explanation = Explainer().explain(io.BytesIO(long * 900))

    assert explanation.lines == 900
    assert 700 < explanation.unread < 900


@pytest.mark.usefixtures("_little")
def test_end_is_the_shorter_the_more_work_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Explainer().explain(io.BytesIO(_LOG))
    monkeypatch.setattr(effort, "_END", 1)

    short = Explainer().explain(io.BytesIO(_LOG))

    assert usual.unread < short.unread < short.lines


def test_reads_all_of_an_ordinary_log() -> None:
    assert slugs(_LOG + _ERROR + _LOG) == [_CAUSE]
    assert Explainer().explain(io.BytesIO(_LOG)).unread == 0


def test_a_longer_log_may_take_more_work() -> None:
    work = effort.Effort()
    work.spent = effort._START + 10

    assert not work.allows(100)
    assert work.allows(100)
