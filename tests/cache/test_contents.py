"""Sizes and times of what lies in a cache."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cuwheel.cache.contents import OTHER, CacheContents, read_cache
from cuwheel.system.in_use import hold

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = 4096  # bytes, of which file systems give whole ones


def fill(path: Path, pages: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * (pages * _PAGE))
    return path


def pages_of(contents: CacheContents) -> dict[str, int]:
    return {kind.folder: size // _PAGE for kind, size in contents.sizes.items() if size}


def test_counts_each_kind(tmp_path: Path) -> None:
    fill(tmp_path / "toolchains" / "cuda130" / "bin" / "nvcc", 3)
    fill(tmp_path / "toolchains" / "cuda130.lock", 0)
    fill(tmp_path / "uv" / "archive" / "file", 2)
    fill(tmp_path / "canaries" / "one.json", 1)

    contents = read_cache(tmp_path)

    assert pages_of(contents) == {"toolchains": 3, "uv": 2, OTHER.folder: 1}
    assert [one.path.name for one in contents.entries] == ["cuda130"]


def test_file_with_two_names_counts_once(tmp_path: Path) -> None:
    """As uv's links into environments."""
    unpacked = fill(tmp_path / "uv" / "archive" / "file", 2)
    linked = tmp_path / "environments" / "tiny" / "file"
    linked.parent.mkdir(parents=True)
    linked.hardlink_to(unpacked)

    assert pages_of(read_cache(tmp_path)) == {"environments": 2}


def test_knows_when_something_was_used(tmp_path: Path) -> None:
    folder = fill(tmp_path / "toolchains" / "cuda130" / "file", 1).parent
    os.utime(folder, (1000, 1000))
    [before] = read_cache(tmp_path).entries

    hold(folder)

    [after] = read_cache(tmp_path).entries
    assert before.used == 1000
    assert after.used > before.used


def test_what_is_being_made_is_no_entry(tmp_path: Path) -> None:
    fill(tmp_path / "toolchains" / ".cuda130.abcd" / "file", 1)
    fill(tmp_path / "downloads" / ".locks" / "one", 1)

    assert read_cache(tmp_path).entries == ()


def test_no_cache_holds_nothing(tmp_path: Path) -> None:
    contents = read_cache(tmp_path / "nowhere")

    assert (contents.entries, contents.size) == ((), 0)
