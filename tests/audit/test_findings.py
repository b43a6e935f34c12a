from __future__ import annotations

import pytest

from cuwheel.audit.findings import RULES, SEVERITIES, Finding, Severity, worst_severity


def finding(severity: Severity) -> Finding:
    return Finding(file="a.so", rule="needed library", fact="gone", severity=severity)


def test_leads_to_its_rule() -> None:
    found = finding("note")

    assert (str(found), found.anchor) == ("a.so: needed library: gone", "audit-needed-library")


@pytest.mark.parametrize(
    ("severities", "worst"),
    [
        ((), None),
        (("note",), "note"),
        (("note", "error", "warning"), "error"),
        (("note", "warning"), "warning"),
    ],
)
def test_tells_the_worst(severities: tuple[Severity, ...], worst: str | None) -> None:
    assert worst_severity(map(finding, severities)) == worst


def test_is_an_error_unless_it_says_otherwise() -> None:
    assert Finding(file="", rule="archs", fact="").severity == SEVERITIES[0] == "error"


def test_every_rule_has_an_anchor_of_its_own() -> None:
    assert len({rule.anchor for rule in RULES}) == len(RULES)
