"""Whole logs of failures that were made on purpose by the real tools: tests/logs/README.md."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

from cuwheel.explain.explanation import Explainer
from cuwheel.explain.log_text import blocks
from tests.logs.cases import CASES
from tests.logs.examples import PAGE, page
from tests.logs.reproduce import RAW
from tests.support.explained import explain

if TYPE_CHECKING:
    from pathlib import Path

LOGS = sorted(RAW.glob("*.log"))
HEALTHY = [path for path in LOGS if path.name.startswith("ok--")]
FAILED = [path for path in LOGS if path not in HEALTHY]

_NEAR = 2  # lines: one message may take several


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


@pytest.mark.parametrize("path", FAILED, ids=lambda path: path.stem)
def test_names_cause_and_line(path: Path, explainer: Explainer) -> None:
    with path.open("rb") as stream:
        told = explainer.explain(stream)

    assert [one.cause.slug for one in told.causes][:1] == [path.name.partition("--")[0]]
    shown = {one.number for one in told.causes[0].evidence}
    assert any(abs(line - number) <= _NEAR for line in shown for number in decisive_lines(path))


def decisive_lines(path: Path) -> list[int]:
    """Numbers of the lines that the case says are the ones to name."""
    decisive = re.compile(CASES[path.stem].decisive)
    read = b"".join(one.text[: one.fresh] for one in blocks(io.BytesIO(path.read_bytes())))
    lines = read.decode("utf-8", "replace").split("\n")
    return [number for number, line in enumerate(lines, 1) if decisive.search(line)]


def test_page_of_examples_is_what_explain_says() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.logs.examples"


def test_every_log_has_a_case() -> None:
    assert {path.stem for path in LOGS} == set(CASES)


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_finds_no_failure(path: Path, explainer: Explainer) -> None:
    with path.open("rb") as stream:
        told = explainer.explain(stream)

    assert not told.failed


@pytest.mark.parametrize(
    "line",
    [
        "checking whether gcc fails on unknown flags... yes",
        "DeprecationWarning: this call fails when numpy>=3 is used",
        "faulthandler enabled: prints a traceback on SIGSEGV",
        "[INFO] handler for SIGBUS installed",
        "nm: reporting undefined symbol table",
        "failed: 0",
    ],
)
def test_line_of_a_log_that_went_well_is_no_failure(line: str, explainer: Explainer) -> None:
    told = explain(explainer, line, "epoch 1, loss 0.5")

    assert (told.failed, told.causes) == (False, ())
