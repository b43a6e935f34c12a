from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.index.check.snapshot import Seen, change_findings, read_snapshot, write_snapshot

if TYPE_CHECKING:
    from pathlib import Path

SEEN = Seen(hash="sha256=ab", date="2026-01-01T00:00:00Z", yanked=None)


def test_reads_what_was_written(tmp_path: Path) -> None:
    seen = {"simple": {"toy": {"toy.whl": SEEN, "old.whl": replace(SEEN, yanked="crashes")}}}

    write_snapshot(tmp_path / "new" / "seen.json", seen)

    assert read_snapshot(tmp_path / "new" / "seen.json") == seen


def test_there_is_none_at_first(tmp_path: Path) -> None:
    assert read_snapshot(tmp_path / "seen.json") == {}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1, "indexes": {"a": {"b": {"c": 1}}}}']
)
def test_refuses_what_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    path.write_text(text)

    with pytest.raises(UsageError):
        read_snapshot(path)


@pytest.mark.parametrize(
    ("now", "codes"),
    [
        (SEEN, []),
        (replace(SEEN, hash="sha256=cd"), ["changed"]),
        (replace(SEEN, hash="sha512=cd"), []),  # which can't be compared
        (replace(SEEN, date="2026-01-02T00:00:00Z"), ["redated"]),
        (replace(SEEN, yanked=""), ["yanked"]),
        (None, ["vanished"]),
    ],
)
def test_finds_what_has_changed(now: Seen | None, codes: list[str]) -> None:
    after = {"toy.whl": now} if now else {}

    found = change_findings("simple/toy", {"toy.whl": SEEN}, after)

    assert [one.code for one in found] == codes
