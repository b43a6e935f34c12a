"""Fixes that `explain` prints, typed as printed: the same cause doesn't come back.

Each trial makes a failure with the real compiler, loader or installer, explains the log, takes the
command out of the printed fix and runs the failed command again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.check.explain.explanation import Explainer
from tests.e2e.check.explained import TRIALS
from tests.support.check.explanations import explain
from tests.support.check.trials import Trial, run_script
from tests.support.machines.pythons import find_release
from tests.support.requirements import lack, require

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


def parameters() -> Iterator[object]:
    """Yield the trials, the slow ones with a mark."""
    for trial in TRIALS:
        marks = [pytest.mark.nightly] if trial.is_slow else []
        name = re.sub(r"\W+", "-", "".join(trial.typed) or trial.advice).strip("-")[:24]
        yield pytest.param(trial, id=f"{trial.cause}:{name}", marks=marks)


def found(trial: Trial, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Yield variables with what a trial needs, or skip it."""
    proves = f"the printed fix of {trial.cause}"
    for need in trial.needs:
        if need == "cuda":
            yield "TOOLKIT", str(request.getfixturevalue("cuda_home"))
        elif need.startswith("3."):
            python = find_release(need)
            if python is None:
                lack("old-python", f"this machine has no Python {need}", proves)
            yield "PYTHON", str(python)
        elif need != "system-python":
            require(need, proves)
        elif not any(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED")):
            lack("system-python", "this machine's Python is nobody's own", proves)


@pytest.mark.parametrize("trial", list(parameters()))
def test_printed_fix_ends_the_cause(
    trial: Trial, tmp_path: Path, explainer: Explainer, request: pytest.FixtureRequest
) -> None:
    variables = dict(found(trial, request))
    before = run_script(f"set -e; {trial.before}", tmp_path, variables)
    assert before.status == 0, before.lines

    failed = run_script(f"{trial.settings}\n{trial.command}", tmp_path, variables)
    explanation = explain(explainer, *failed.lines)

    assert failed.status, failed.lines
    assert [cause.slug for cause in explanation.causes][:1] == [trial.cause], failed.lines
    remedy = trial.remedy(explanation.causes[0].fix)
    again = run_script(f"{trial.settings}\n{remedy}", tmp_path, variables)
    left = [cause.slug for cause in explain(explainer, *again.lines).causes]
    output = "\n".join(again.lines)
    is_right = re.search(trial.then, output) if trial.then else again.status == 0
    assert is_right, f"{remedy}\n{output}"
    assert trial.cause not in left or again.status == 0, output
