"""The table of ten machines in the how-to is the output of `pick`."""

from __future__ import annotations

import pytest

from tests.support.check.described_machines import END, PAGE, START, table


def test_table_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    written = PAGE.read_text().partition(START)[2].partition(END)[0]

    assert written == "\n".join(table()) + "\n"


def test_every_answer_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    assert not [line for line in table() if "metadata" in line]
