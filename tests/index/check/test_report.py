from __future__ import annotations

import rich.console

from cuwheel.index.check.report import check_document, print_check
from cuwheel.index.check.result import CheckResult
from cuwheel.index.check.rules import RULES, Finding
from cuwheel.system.console import Console
from cuwheel.system.output.documents import as_line
from tests.support.documents import read_document


def shown(result: CheckResult, *, is_quiet: bool = False) -> str:
    terminal = rich.console.Console(width=200, soft_wrap=True, color_system=None)
    console = Console()
    console.is_quiet = is_quiet
    with terminal.capture() as text:
        print_check(result, terminal, console)
    return text.get()


def broken(*codes: str) -> CheckResult:
    result = CheckResult(pages=1, files=30)
    name = "a_very_long_project_name_of_somebody-1.2.3+cu130torch2.11-cp312-cp312-manylinux.whl"
    for code in codes:
        result.add(
            Finding(code=code, where=f"simple/toy: {number}-{name}", fact="sha256=" + "ab" * 32)
            for number in range(30)
        )
    return result


def test_every_line_fits_80_columns() -> None:
    text = shown(broken(*(rule.code for rule in RULES)))

    assert max(map(len, text.splitlines())) <= 80


def test_says_what_why_and_what_to_do() -> None:
    text = " ".join(shown(broken("hash")).split())

    assert "error hash: A file doesn't have the hash that its page gives." in text
    assert "because pip and uv refuse it." in text
    assert "to fix First find out which of them is right" in text
    assert "and 10 more; --verbose names them" in text
    assert text.endswith("1 page, 30 files: 30 errors")


def test_worst_come_first_and_quiet_leaves_notes_out() -> None:
    result = broken("new", "unread", "hash")

    assert shown(result).index("error hash") < shown(result).index("warning unread")
    assert "note new" not in shown(result, is_quiet=True)


def test_nothing_found() -> None:
    assert shown(CheckResult(pages=2, files=3)) == "2 pages, 3 files: nothing found\n"


def test_data_hold_all_of_it() -> None:
    data = read_document(as_line(check_document(broken("hash", "new"))), "index-check")

    assert (data["verdict"], data["counts"]) == ("error", {"hash": 30, "new": 30})
    assert set(data["findings"][0]) == {"severity", "code", "where", "fact", "why", "fix"}


def test_keeps_what_anybody_reads() -> None:
    result = CheckResult()
    for number in range(1000):
        result.add([Finding(code="hash", where=str(number), fact="")])

    assert (len(result.findings), result.count("error")) == (200, 1000)
