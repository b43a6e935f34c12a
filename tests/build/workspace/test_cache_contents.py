"""Sizes and times of a cache's entries, and removal of those that are not in use."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.cache_folder import hold
from cuwheel.build.workspace.cache_contents import (
    DAY,
    OTHER,
    CacheContents,
    choose,
    prune,
    read_cache,
)

_NOW = 100 * DAY
_PAGE = 4096  # bytes, of which file systems give whole ones
_USER = """
import sys
from pathlib import Path
from cuwheel.base.system.cache_folder import hold
hold(Path(sys.argv[1]))
print("holds", flush=True)
sys.stdin.read()
"""


def fill(path: Path, pages: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * (pages * _PAGE))
    return path


def pages_of(contents: CacheContents) -> dict[str, int]:
    return {kind.folder: size // _PAGE for kind, size in contents.sizes.items() if size}


def test_counts_each_kind(tmp_path: Path) -> None:
    """What is being made is no entry, and a file with two names counts once."""
    fill(tmp_path / "toolchains" / "cuda130-000000000001" / "bin" / "nvcc", 3)
    fill(tmp_path / "toolchains" / "cuda130-000000000001.lock", 0)
    fill(tmp_path / "toolchains" / ".cuda130.abcd" / "file", 1)
    unpacked = fill(tmp_path / "uv" / "archive" / "file", 2)
    linked = fill(tmp_path / "environments" / "tiny" / "file", 0)
    linked.unlink()
    linked.hardlink_to(unpacked)
    fill(tmp_path / "canaries" / "one.json", 1)

    contents = read_cache(tmp_path)

    assert pages_of(contents) == {"toolchains": 4, "environments": 2, OTHER.folder: 1}
    assert [entry.path.name for entry in contents.entries] == ["cuda130-000000000001"]


def test_entry_that_was_used_last_has_the_shared_files(tmp_path: Path) -> None:
    """Removing the older one frees no more than its own."""
    names = ("cp311-torch2.11-000000000001", "cp311-torch2.11-000000000002")
    older, newer = (tmp_path / "environments" / name for name in names)
    shared = fill(older / "torch.so", 5)
    fill(older / "own.so", 1)
    newer.mkdir()
    (newer / "torch.so").hardlink_to(shared)
    os.utime(older, (1000, 1000))

    sizes = {entry.path: entry.size // _PAGE for entry in read_cache(tmp_path).entries}

    assert sizes == {older: 1, newer: 5}


def test_knows_when_something_was_used(tmp_path: Path) -> None:
    folder = fill(tmp_path / "toolchains" / "cuda130-000000000001" / "file", 1).parent
    os.utime(folder, (1000, 1000))
    [before] = read_cache(tmp_path).entries

    hold(folder)

    [after] = read_cache(tmp_path).entries
    assert before.used == 1000
    assert after.used > before.used


def test_no_cache_holds_nothing(tmp_path: Path) -> None:
    contents = read_cache(tmp_path / "nowhere")

    assert (contents.entries, contents.size) == ((), 0)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with three toolchains, used 90, 50 and 10 days ago, and as many downloads."""
    for kind in ("toolchains", "downloads"):
        for days in (10, 50, 90):
            folder = fill(tmp_path / kind / f"{kind[:-1]}-{days:012}" / "file", 1).parent
            os.utime(folder, (_NOW - days * DAY, _NOW - days * DAY))
    return tmp_path


@pytest.fixture
def used(cache: Path) -> Iterator[Path]:
    """The oldest toolchain, which another process uses."""
    folder = cache / "toolchains" / "toolchain-000000000090"
    command = [sys.executable, "-c", _USER, str(folder)]
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout
        assert user.stdout.readline() == b"holds\n"
        times = (_NOW - 90 * DAY, _NOW - 90 * DAY)
        os.utime(f"{folder}.use", times)
        yield folder


_OLDEST = ["download-000000000090", "toolchain-000000000090"]


@pytest.mark.parametrize(
    ("limits", "chosen"),
    [
        (
            {"unused_for": 40 * DAY, "size": None},
            ["download-000000000050", *_OLDEST[:1], "toolchain-000000000050", *_OLDEST[1:]],
        ),
        ({"unused_for": None, "size": 4 * _PAGE}, _OLDEST),
        ({"unused_for": None, "size": 6 * _PAGE}, []),
    ],
    ids=["old", "until the rest is small", "small enough"],
)
def test_chooses_the_longest_unused(
    limits: dict[str, float], chosen: list[str], cache: Path
) -> None:
    entries = choose(read_cache(cache), _NOW, **limits)  # type: ignore[arg-type]

    assert sorted(entry.path.name for entry in entries) == chosen


def test_download_of_today_stays(cache: Path) -> None:
    folder = cache / "downloads" / "download-000000000010"
    os.utime(folder, (_NOW - 60, _NOW - 60))

    chosen = choose(read_cache(cache), _NOW, unused_for=0, size=None)

    assert folder not in [entry.path for entry in chosen]


def test_removes(cache: Path) -> None:
    done = prune(choose(read_cache(cache), _NOW, unused_for=40 * DAY, size=None))

    assert len(done.removed) == 4
    names_left = sorted(path.name for path in cache.glob("*/*") if path.is_dir())
    assert names_left == ["download-000000000010", "toolchain-000000000010"]


def test_leaves_what_another_process_uses(cache: Path, used: Path) -> None:
    done = prune(choose(read_cache(cache), _NOW, unused_for=40 * DAY, size=None))

    assert [entry.path for entry in done.in_use] == [used]
    assert (used / "file").exists()
    assert len(done.removed) == 3


def test_leaves_what_is_just_being_made(cache: Path) -> None:
    folder = cache / "toolchains" / "toolchain-000000000090"
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = prune(choose(read_cache(cache), _NOW, unused_for=80 * DAY, size=None))

    assert [entry.path for entry in done.in_use] == [folder]
    assert folder.is_dir()


def test_preview_is_no_use(cache: Path) -> None:
    before = {entry.path: entry.used for entry in read_cache(cache).entries}

    assert not prune(read_cache(cache).entries, dry_run=True).in_use

    assert {entry.path: entry.used for entry in read_cache(cache).entries} == before


def test_using_twice_takes_one_file(cache: Path) -> None:
    folder = cache / "toolchains" / "toolchain-000000000010"
    hold(folder)
    before = len(list(Path("/proc/self/fd").iterdir()))

    hold(folder)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_removes_what_a_process_used_that_has_ended(cache: Path) -> None:
    folder = cache / "toolchains" / "toolchain-000000000090"
    command = [sys.executable, "-c", _USER, str(folder)]
    subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, check=True, stdin=subprocess.DEVNULL)

    done = prune([entry for entry in read_cache(cache).entries if entry.path == folder])

    assert [entry.path for entry in done.removed] == [folder]
