from __future__ import annotations

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


def test_prints_rules_the_worst_first(golden: Golden) -> None:
    terminal = rich.console.Console(width=80, color_system=None)

    with terminal.capture() as text:
        print_check(broken("unread", "hash"), terminal, Console())
        print_check(CheckResult(pages=2, files=3, unhashed=1), terminal, Console())

    golden.check("index-check/findings.txt", text.get())


def test_document_holds_all_findings() -> None:
    data = read_document(as_line(check_document(broken("hash", "unread"))), "index-check")

    assert (data["verdict"], data["counts"]) == ("error", {"hash": 30, "unread": 30})
    assert set(data["findings"][0]) == {"severity", "code", "where", "fact", "why", "fix"}


def test_keeps_a_limited_number_of_findings() -> None:
    result = CheckResult()
    for number in range(1000):
        result.add([Violation(code="hash", where=str(number), fact="")])

    assert (len(result.violations), result.count("error")) == (200, 1000)
