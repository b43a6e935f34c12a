from __future__ import annotations

import pytest
import rich.console

from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import as_line
from cuwheel.publish.index.check.report import check_document, print_check
from cuwheel.publish.index.check.rules import CheckResult, Violation
from tests.support.documents import read_document
from tests.support.golden import Golden


def broken(*codes: str) -> CheckResult:
    result = CheckResult(pages=1, files=30)
    for code in codes:
        result.add(
            Violation(code=code, where=f"simple/toy: toy-{number}.whl", fact="sha256=ab")
            for number in range(30)
        )
    return result


@pytest.mark.parametrize("amount", ["usual", "quiet"])
def test_prints_rules_the_worst_first(amount: str, golden: Golden) -> None:
    terminal = rich.console.Console(width=80, color_system=None)
    console = Console()
    console.is_quiet = amount == "quiet"

    with terminal.capture() as text:
        print_check(broken("no-date", "unread", "hash"), terminal, console)
        print_check(CheckResult(pages=2, files=3), terminal, console)

    golden.check(f"index-check/{amount}.txt", text.get())


def test_document_holds_all_findings() -> None:
    data = read_document(as_line(check_document(broken("hash", "no-date"))), "index-check")

    assert (data["verdict"], data["counts"]) == ("error", {"hash": 30, "no-date": 30})
    assert set(data["findings"][0]) == {"severity", "code", "where", "fact", "why", "fix"}


def test_keeps_a_limited_number_of_findings() -> None:
    result = CheckResult()
    for number in range(1000):
        result.add([Violation(code="hash", where=str(number), fact="")])

    assert (len(result.violations), result.count("error")) == (200, 1000)
