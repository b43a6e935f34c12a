"""The rate of right answers on reported failures, which must not fall."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cuwheel.check.explain.catalogue import causes
from cuwheel.check.explain.explanation import Explainer

REPORTS = Path(__file__).with_name("reports")
LEAST = {
    "first": 0.98,
    "second": 0.95,
    "third": 0.97,
    "fourth": 0.96,
    "fifth": 0.88,
    "sixth": 0.78,
    "seventh": 0.84,
    "eighth": 0.93,
}
MOST_SILENT = 0.04
# Reports with nothing but words in another language, or a bare warning.
SILENT = {"seventh": 0.14, "eighth": 0.07}
AKIN = 0.5


@pytest.mark.parametrize("name", sorted(LEAST))
def test_is_right_as_often_as_before(name: str) -> None:
    explainer = Explainer()
    points, silent, wrong = 0.0, 0, []
    cases = [json.loads(line) for line in (REPORTS / f"{name}.jsonl").read_text().splitlines()]
    for case in cases:
        results = explainer.explain(io.BytesIO(case["log"].encode())).causes
        known = causes().get(case["cause"])
        first = results[0].slug if results else ""
        silent += not results
        if first == case["cause"]:
            points += 1
        elif known and first in known.akin:
            points += AKIN
        else:
            wrong.append((case["id"], case["cause"], first))
    assert points / len(cases) >= LEAST[name], wrong
    assert silent / len(cases) <= SILENT.get(name, MOST_SILENT), wrong
