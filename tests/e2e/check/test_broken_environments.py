"""`diagnose` on broken environments of real packages: true cause, no other one, and its repair.

The figures of all: `nox -s bench -- diagnose FOLDER`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.check.broken import SITUATIONS
from tests.support.check.situations import Situation, judge, make

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_names_the_cause_and_repairs_it(
    situation: Situation, tmp_path: Path, shared_cache: Path
) -> None:
    broken = make(situation, tmp_path / "broken", shared_cache / "uv")

    result = judge(situation, broken)

    assert result.is_right, result.log
    assert result.fixed != "failed", result.log


def test_has_each_name_once() -> None:
    names = [situation.name for situation in SITUATIONS]

    assert len(set(names)) == len(names)
