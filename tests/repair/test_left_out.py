"""Files that a recipe leaves out of its wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import RepairError
from cuwheel.repair.left_out import leave_out
from tests.support.factories import make_target

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("pkg/__init__.py", "tests/a/test_b.py", "tests/data.bin", "pkg-1.dist-info/METADATA")


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """An unpacked wheel that holds its tests."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_removes_what_patterns_fit_and_says_what(content: Path) -> None:
    gone = leave_out(content, make_target(leave_out=("tests/*",)))

    assert gone == ("tests/a/test_b.py", "tests/data.bin")
    assert [name for name in NAMES if (content / name).exists()] == [NAMES[0], NAMES[3]]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("test/*", '"test/*" matches no file'), ("*/METADATA", "it matches pkg-1.dist-info/METADATA")],
)
def test_refuses_pattern(content: Path, pattern: str, words: str) -> None:
    with pytest.raises(RepairError) as caught:
        leave_out(content, make_target(leave_out=("tests/*", pattern)))

    assert words in caught.value.why
    assert all((content / name).exists() for name in NAMES)
