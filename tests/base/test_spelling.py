"""Commands in messages: in the form of nox, or of the console script."""

from __future__ import annotations

import ast
import re

import pytest

from cuwheel.base import spelling
from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.spelling import ENTRY_VARIABLE, as_typed

_AT_LEAST = 100  # texts that have a command
_TYPED = {
    "nox -s lock": "cuwheel lock",
    "nox -s lock -- toolchain:122:conda": "cuwheel lock toolchain:122:conda",
    "`nox -s build-tiny-130`, or": "`cuwheel build tiny-130`, or",
    "nox -s build-tiny-130 -- --arch 90": "cuwheel build tiny-130 --arch 90",
    "nox -s build -- tiny --framework torch==2.1": "cuwheel build tiny --framework torch==2.1",
    "nox -s lock-check": "cuwheel lock-check",
    "nox -s mirror --: --to is missing": "cuwheel mirror: --to is missing",
    "`nox -l` lists them": "`cuwheel help` lists them",
    "pass one: -- --wheel FILE": "pass one: --wheel FILE",
    "-- --python 3.12": "--python 3.12",
    "behind `more`; -- --fail-on error": "behind `more`; --fail-on error",
    "git diff -- recipes": "git diff -- recipes",
    "`grep -c -- -flto` on the log": "`grep -c -- -flto` on the log",
    "`-- --source FILE`, (-- -v)": "`--source FILE`, (-v)",
    "with -- --no-cache": "with --no-cache",
}


@pytest.mark.parametrize("text", _TYPED)
def test_writes_command_for_console_script(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(ENTRY_VARIABLE, "cuwheel")

    assert as_typed(text) == _TYPED[text]


def test_leaves_command_for_nox() -> None:
    assert [as_typed(text) for text in _TYPED] == [*_TYPED]


def test_names_command_that_prints_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENTRY_VARIABLE, "cuwheel")
    monkeypatch.setattr(spelling, "_has_pages", lambda: False)

    assert as_typed("more TROUBLESHOOTING.md#usage") == "more cuwheel explain usage"


@pytest.mark.parametrize("page", ["docs/how-to/offline.md", "CONTRIBUTING.md"])
def test_names_place_of_pages_that_the_package_lacks(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setenv(ENTRY_VARIABLE, "cuwheel")
    monkeypatch.setattr(spelling, "_has_pages", lambda: False)

    written = as_typed(f"see {page}, https://docs.invalid/{page}")

    assert written == f"see {page} in cuwheel's repository, https://docs.invalid/{page}"
    assert as_typed(written) == written
    monkeypatch.undo()
    assert spelling._has_pages()  # of this checkout


def test_errors_are_written_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENTRY_VARIABLE, "cuwheel")

    error = UsageError("nox -s lock -- is wrong", why="`nox -s pick`", fix="nox -s lock -- x")

    texts = (error.what, error.why, error.fix)
    assert texts == ("cuwheel lock is wrong", "`cuwheel pick`", "cuwheel lock x")


@pytest.mark.e2e
def test_no_text_of_the_sources_keeps_nox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENTRY_VARIABLE, "cuwheel")
    texts = [
        node.value
        for path in ROOT.glob("cuwheel/**/*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    written = [as_typed(text) for text in texts if "nox -" in text or "-- -" in text]

    assert len(written) > _AT_LEAST
    left = re.compile(r"nox -[sl] ?\w|(?<![\w-])-- -{1,2}\w")
    assert [text for text in written if left.search(text)] == []
