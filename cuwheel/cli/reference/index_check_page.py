"""docs/reference/index-check.md: what `nox -s index -- --check` finds."""

from __future__ import annotations

from cuwheel.cli.reference.pages import MARK, code, page, table
from cuwheel.index.check.rules import RULES, SEVERITIES

_INTRO = """\
`nox -s index -- --check ADDRESS|DIR` checks a package index, of any project, against these rules:
the specification "Simple repository API" (PEP 503, 592, 658, 691, 700, 714, 740), and how pip and
uv react to violations of it. After an `error` the session exits with a status other than 0. How to
use it: [publish.md](../how-to/publish.md)."""


def index_check_page() -> str:
    """The page."""
    rows = [
        (code(rule.code), rule.severity, rule.summary, rule.why, rule.fix)
        for severity in SEVERITIES
        for rule in RULES
        if rule.severity == severity
    ]
    return page(
        [
            "# What a check of an index finds",
            MARK.format(source="cuwheel/index/check/rules.py"),
            _INTRO,
            table(("code", "severity", "what", "why it matters", "what to do"), rows),
        ]
    )
