from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.updates.file_changes import diff_of, refuse_uncommitted, replace_files
from tests.support.factories import commit_all

if TYPE_CHECKING:
    from pathlib import Path


def test_changes_makes_and_removes(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "gone").write_text("gone")

    replace_files(
        {tmp_path / "old": b"new", tmp_path / "gone": None, tmp_path / "d" / "made": b"x"}
    )

    assert (tmp_path / "old").read_text() == "new"
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "d" / "made").read_text() == "x"


def test_failure_leaves_all_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "gone").write_text("gone")
    (tmp_path / "file").write_text("no folder")
    changes = {
        tmp_path / "old": b"new",
        tmp_path / "gone": None,
        tmp_path / "made": b"x",
        tmp_path / "file" / "below": b"x",
    }

    with pytest.raises(OSError, match="file"):
        replace_files(changes)

    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"old": "old", "gone": "gone", "file": "no folder"}


def test_shows_diff_as_git_would(tmp_path: Path) -> None:
    old, made = tmp_path / "old", tmp_path / "made"

    lines = list(diff_of({old: b"a\nb\n", made: None}, {old: b"a\nc\n", made: b"x\n"}, tmp_path))

    assert lines == [
        *("--- a/old", "+++ b/old", "@@ -1,2 +1,2 @@", " a", "-b", "+c"),
        *("--- /dev/null", "+++ b/made", "@@ -0,0 +1 @@", "+x"),
    ]


def test_refuses_what_is_not_committed(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    commit_all(tmp_path)
    (tmp_path / "two").write_text("changed")

    refuse_uncommitted([tmp_path / "one"], tmp_path)
    with pytest.raises(UsageError) as caught:
        refuse_uncommitted([tmp_path / "one", tmp_path / "two"], tmp_path)

    assert caught.value.why == "M two"


def test_knows_nothing_outside_a_repository(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")

    refuse_uncommitted([tmp_path / "one"], tmp_path)
