from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.index.tree import replace_pages

if TYPE_CHECKING:
    from pathlib import Path


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_holds_these_pages_and_no_others(tmp_path: Path) -> None:
    replace_pages(tmp_path, {"a/index.html": b"old", "index.html": b"old", "b/c/x": b""})

    new = {"a/index.html": b"new", "index.html": b"old", "d/e": b""}
    replace_pages(tmp_path, new)

    assert contents(tmp_path) == new
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "d", "index.html"]


def test_leaves_others_where_told(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()

    replace_pages(tmp_path, {"index.html": b""}, others_stay=True)

    assert (tmp_path / "files").is_dir()
