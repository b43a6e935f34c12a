"""What is removed, and that nothing is which somebody uses."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.cache.contents import read_cache
from cuwheel.cache.pruning import DAY, choose, preview, prune
from cuwheel.paths import ROOT
from cuwheel.system.in_use import hold

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOW = 100 * DAY
_PAGE = 4096
_USER = """
import sys
from pathlib import Path
from cuwheel.system.in_use import hold
hold(Path(sys.argv[1]))
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """One with three toolchains, used 90, 50 and 10 days ago, and as many downloads."""
    for kind in ("toolchains", "downloads"):
        for days in (10, 50, 90):
            folder = tmp_path / kind / f"{kind[:-1]}-{days}"
            folder.mkdir(parents=True)
            (folder / "file").write_bytes(b"x" * _PAGE)
            os.utime(folder, (_NOW - days * DAY, _NOW - days * DAY))
    return tmp_path


@pytest.fixture
def used(cache: Path) -> Iterator[Path]:
    """The oldest toolchain, which another process uses."""
    folder = cache / "toolchains" / "toolchain-90"
    command = [sys.executable, "-c", _USER, str(folder)]
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout
        assert user.stdout.readline() == b"holds\n"
        times = (_NOW - 90 * DAY, _NOW - 90 * DAY)
        os.utime(f"{folder}.use", times)
        yield folder


def names(cache: Path, **limits: float | None) -> list[str]:
    asked = {"unused_for": None, "size": None, **limits}
    return [one.path.name for one in choose(read_cache(cache), _NOW, **asked)]  # type: ignore[arg-type]


def test_chooses_what_is_old(cache: Path) -> None:
    assert sorted(names(cache, unused_for=40 * DAY)) == [
        "download-50",
        "download-90",
        "toolchain-50",
        "toolchain-90",
    ]


def test_chooses_the_oldest_until_the_rest_is_small(cache: Path) -> None:
    assert sorted(names(cache, size=4 * _PAGE)) == ["download-90", "toolchain-90"]


def test_size_that_is_there_takes_nothing(cache: Path) -> None:
    assert names(cache, size=6 * _PAGE) == []


def test_download_of_today_stays(cache: Path) -> None:
    folder = cache / "downloads" / "download-10"
    os.utime(folder, (_NOW - 60, _NOW - 60))

    assert "download-10" not in names(cache, unused_for=0)


def test_removes(cache: Path) -> None:
    chosen = choose(read_cache(cache), _NOW, unused_for=40 * DAY, size=None)

    done = prune(chosen)

    assert len(done.removed) == 4
    left = sorted(path.name for path in cache.glob("*/*") if path.is_dir())
    assert left == ["download-10", "toolchain-10"]


def test_leaves_what_another_process_uses(cache: Path, used: Path) -> None:
    chosen = choose(read_cache(cache), _NOW, unused_for=40 * DAY, size=None)

    done = prune(chosen)

    assert [one.path for one in done.in_use] == [used]
    assert (used / "file").exists()
    assert len(done.removed) == 3


def test_leaves_what_is_just_being_made(cache: Path) -> None:
    folder = cache / "toolchains" / "toolchain-90"
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        chosen = choose(read_cache(cache), _NOW, unused_for=80 * DAY, size=None)
        done = prune(chosen)

    assert [one.path for one in done.in_use] == [folder]
    assert folder.is_dir()


def test_asking_is_no_use(cache: Path) -> None:
    before = {one.path: one.used for one in read_cache(cache).entries}

    assert not preview(read_cache(cache).entries).in_use

    assert {one.path: one.used for one in read_cache(cache).entries} == before


def test_using_twice_takes_one_file(cache: Path) -> None:
    folder = cache / "toolchains" / "toolchain-10"
    hold(folder)
    before = len(list(Path("/proc/self/fd").iterdir()))

    hold(folder)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_removes_what_a_process_used_that_has_ended(cache: Path) -> None:
    folder = cache / "toolchains" / "toolchain-90"
    command = [sys.executable, "-c", _USER, str(folder)]
    subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, check=True, stdin=subprocess.DEVNULL)

    done = prune([one for one in read_cache(cache).entries if one.path == folder])

    assert [one.path for one in done.removed] == [folder]
