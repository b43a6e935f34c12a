"""Whole logs of provoked failures of the real tools: tests/logs/README.md."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cuwheel.base.system.console import Console
from cuwheel.check.explain.explain import explained
from cuwheel.check.explain.explanation import Explainer
from cuwheel.check.explain.log_text import blocks
from tests.logs.decisive import DECISIVE, RAW
from tests.logs.examples import PAGE, page
from tests.support.check.explanations import explain

LOGS = sorted(RAW.glob("*.log"))
HEALTHY = [path for path in LOGS if path.name.startswith("ok--")]
LABELS = RAW.parent / "made" / "labels.jsonl"
MADE = [json.loads(line) for line in LABELS.read_text().splitlines()]
OTHERWISE = {
    "pip-proxy-refused",  # pip prints "from versions: none" and no word of the proxy
    "ci-pip-then-pytest-fail",  # hint: a line that the failed test printed
    "configure-many-probes",  # a script that goes on after nvcc's error doesn't print that it does
    "cmake-imported-target",  # find_package is missing as likely as the library
    "j-caught-oom",  # hint: a traceback that the program printed before its own error
    "git-dubious",  # named as what git can't fetch, whose text has the folder's owner
}
# A failure in which none is seen: its script goes on, and its job succeeds.
UNSEEN = {"job-script-hides"}
FAILED = [path for path in LOGS if path not in HEALTHY]

# Messages of known forms that no recorded log has.
FORMS = yaml.safe_load(Path(__file__).with_name("forms.yaml").read_text())
_NEAR = 2  # lines: one message may take several


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


@pytest.mark.parametrize("path", FAILED, ids=lambda path: path.stem)
def test_names_cause_and_line(path: Path, explainer: Explainer) -> None:
    with path.open("rb") as stream:
        explanation = explainer.explain(stream)

    first = explanation.causes[0]
    assert first.slug == path.name.partition("--")[0]
    shown = {line.line for line in first.evidence}
    assert any(abs(line - number) <= _NEAR for line in shown for number in decisive_lines(path))


def decisive_lines(path: Path) -> list[int]:
    """Return the numbers of the lines that are the case's evidence."""
    decisive = re.compile(DECISIVE[path.stem])
    text = b"".join(block.text[: block.fresh] for block in blocks(io.BytesIO(path.read_bytes())))
    lines = text.decode("utf-8", "replace").split("\n")
    return [number for number, line in enumerate(lines, 1) if decisive.search(line)]


def test_page_of_examples_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.logs.examples"


def test_every_log_has_a_decisive_line() -> None:
    assert {path.stem for path in LOGS} == set(DECISIVE)


def test_is_right_or_abstains(explainer: Explainer) -> None:
    wrong = [case["id"] for case in MADE if not is_right_or_abstains(case, explainer)]

    assert wrong == []


def is_right_or_abstains(case: dict[str, Any], explainer: Explainer) -> bool:
    with (LABELS.parent / "logs" / f"{case['id']}.log").open("rb") as stream:
        explanation = explainer.explain(stream)

    named = {cause.slug for cause in explanation.causes[: 2 if explanation.question else 1]}
    is_right = not named or named & {case["cause"], *case["also"]} or case["id"] in OTHERWISE
    is_acceptable = case["cause"] == "none" and bool(named & set(case["also"]))
    has_failed = case["cause"] != "none" or is_acceptable or case["id"] in OTHERWISE
    return bool(is_right) and explanation.failed == (has_failed and case["id"] not in UNSEEN)


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_finds_no_failure(path: Path, explainer: Explainer) -> None:
    with path.open("rb") as stream:
        explanation = explainer.explain(stream)

    assert not explanation.failed


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
def test_line_of_a_healthy_log_is_no_failure(line: str, explainer: Explainer) -> None:
    explanation = explain(explainer, line, "epoch 1, loss 0.5")

    assert (explanation.failed, explanation.causes) == (False, ())


def test_knows_forms(explainer: Explainer) -> None:
    wrong = {
        log: slugs
        for slug, logs in FORMS.items()
        for log in logs
        if (slugs := [cause.slug for cause in explain(explainer, log).causes])[:1] != [slug]
    }

    assert wrong == {}


def test_explanation_of_an_error_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    console = Console()

    heights = {
        path.name: explained(path, {}, console).count("\n") + 1
        for path in (LABELS.parent / "logs").glob("c*.log")
    }

    assert {name: lines for name, lines in heights.items() if lines > 22} == {}
