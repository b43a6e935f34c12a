from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import rich.console

from cuwheel.system.console import Console
from cuwheel.toolchains import tree_record
from cuwheel.toolchains.store import Stored, obtain

if TYPE_CHECKING:
    from collections.abc import Callable

_TICK = 50_000_000  # ns


class Maker:
    """Makes the folder of a test, and counts how often."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0
        self.stream = io.StringIO()

    def __call__(self, aside: Path) -> dict[str, str]:
        (aside / "bin").mkdir()
        (aside / "bin" / "nvcc").write_text("the compiler")
        self.made += 1
        return {"nvcc": "13.0"}

    def obtain(self, *, reads_all: bool = False) -> Stored:
        console = Console(rich.console.Console(file=self.stream, width=200))
        return obtain(self.folder, self, reads_all=reads_all, console=console)


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setattr(tree_record, "_TICK", _TICK)
    return Maker(tmp_path / "store" / "cuda130")


@pytest.fixture
def used(maker: Maker) -> Maker:
    """One whose folder has been used, and is trusted."""
    maker.obtain()
    time.sleep(2 * _TICK / 1e9)
    maker.obtain()
    return maker


def test_makes_once_what_stays_whole(used: Maker) -> None:
    first, again = used.obtain(), used.obtain(reads_all=True)

    assert (used.made, again) == (1, first)
    assert again.facts == {"nvcc": "13.0"}


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        lambda nvcc: nvcc.chmod(0o755),
        lambda nvcc: nvcc.with_name("new").write_text("added"),
        lambda nvcc: nvcc.write_text(""),
    ],
    ids=["missing file", "changed mode", "added file", "emptied file"],
)
def test_makes_damaged_one_again(damage: Callable[[Path], object], used: Maker) -> None:
    whole = used.obtain()
    damage(used.folder / "bin" / "nvcc")

    again = used.obtain()

    assert (used.made, again) == (2, whole)


@pytest.mark.parametrize("reads_all", [False, True])
def test_makes_again_what_was_changed(used: Maker, *, reads_all: bool) -> None:
    nvcc = used.folder / "bin" / "nvcc"
    before, whole = nvcc.stat(), used.obtain()
    nvcc.write_text("another one!")
    os.utime(nvcc, ns=(before.st_atime_ns, before.st_mtime_ns))

    again = used.obtain(reads_all=reads_all)

    assert (used.made, again) == (2, whole)
    assert "cuda130 was damaged and is made again" in used.stream.getvalue()


def test_reads_all_where_it_is_asked_to(used: Maker) -> None:
    """What the file system doesn't know, as a disk's own error: the record says other bytes."""
    record = used.folder / "cuwheel.json"
    told = json.loads(record.read_text())
    nvcc = used.folder / "bin" / "nvcc"
    nvcc.write_text("other bytes!")
    time.sleep(2 * _TICK / 1e9)
    status = nvcc.lstat()
    content, mode, *_ = told["files"]["bin/nvcc"]
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    told["files"]["bin/nvcc"] = [content, mode, *stamp]
    record.write_text(json.dumps(told))

    used.obtain()
    assert used.made == 1

    used.obtain(reads_all=True)
    assert used.made == 2


def test_remembers_what_it_read(used: Maker) -> None:
    os.link(used.folder / "bin" / "nvcc", used.folder.with_name("link"))
    time.sleep(2 * _TICK / 1e9)

    used.obtain()

    recorded = json.loads((used.folder / "cuwheel.json").read_text())["files"]["bin/nvcc"]
    assert recorded[-1] == (used.folder / "bin" / "nvcc").stat().st_ctime_ns
    assert used.made == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tree": "x", "facts": {}, "files": []}'])
def test_makes_again_what_has_no_record(used: Maker, text: str) -> None:
    (used.folder / "cuwheel.json").write_text(text)

    used.obtain()

    assert used.made == 2


def test_takes_up_folder_of_an_older_cuwheel(used: Maker) -> None:
    """Its record lists no files."""
    record = used.folder / "cuwheel.json"
    told = json.loads(record.read_text())
    del told["files"]
    record.write_text(json.dumps(told))

    used.obtain()

    assert used.made == 1
    assert json.loads(record.read_text())["files"]


def test_removes_what_a_python_compiled_later(used: Maker) -> None:
    compiled = used.folder / "lib" / "__pycache__" / "json.cpython-312.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(b"planted")

    used.obtain()

    assert (used.made, compiled.exists()) == (1, False)
