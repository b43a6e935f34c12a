from __future__ import annotations

import pytest

from cuwheel.check.audit.findings import RULES, Severity, finding, worst_severity


def test_has_anchor_of_its_rule() -> None:
    error = finding("a.so", "needed library", "gone")

    assert (str(error), error.severity) == ("a.so: needed library: gone", "error")
    assert error.anchor == "TROUBLESHOOTING.md#audit-needed-library"


@pytest.mark.parametrize(
    ("severities", "worst"),
    [
        ((), None),
        (("note",), "note"),
        (("note", "error", "warning"), "error"),
        (("note", "warning"), "warning"),
    ],
)
def test_returns_the_worst(severities: tuple[Severity, ...], worst: str | None) -> None:
    findings = [finding("a.so", "needed library", "gone", severity) for severity in severities]

    assert worst_severity(findings) == worst


def test_every_rule_has_an_anchor_of_its_own() -> None:
    assert len({rule.anchor for rule in RULES}) == len(RULES)
