"""What has changed in a source folder since the last build."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.sources.source_state import describe_source_change, read_source_state
from cuwheel.system.process import run

if TYPE_CHECKING:
    from pathlib import Path

_GIT = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "src").mkdir(parents=True)
    for name in ("setup.py", "src/a.cu", "src/b.cu"):
        (folder / name).write_text(name)
    return folder


def commit(tree: Path, message: str) -> str:
    for words in (["init", "-q"], ["add", "-A"], [*_GIT, "commit", "-qm", message]):
        run(["git", "-C", tree, *words], env={"PATH": os.environ["PATH"], "HOME": str(tree)})
    return read_source_state(tree).commit


def test_names_files(tree: Path) -> None:
    before = read_source_state(tree)
    (tree / "setup.py").write_text("other")
    (tree / "src" / "b.cu").unlink()
    for number in range(5):
        (tree / "src" / f"n{number}.cu").touch()

    told = describe_source_change(before, read_source_state(tree))

    assert told == (
        "1 file changed: setup.py; 5 files new: src/n0.cu, src/n1.cu, src/n2.cu and 2 more; "
        "1 file gone: src/b.cu"
    )


def test_names_commits(tree: Path) -> None:
    first = commit(tree, "one")
    before = read_source_state(tree)
    (tree / "src" / "a.cu").write_text("other")
    second = commit(tree, "two")

    told = describe_source_change(before, read_source_state(tree))

    assert first != second
    assert told == f"commit {first} -> {second}; 1 file changed: src/a.cu"


def test_says_nothing_where_nothing_differs(tree: Path) -> None:
    before = read_source_state(tree)
    (tree / "build").mkdir()
    (tree / "build" / "x.o").touch()

    assert describe_source_change(before, read_source_state(tree)) == ""
