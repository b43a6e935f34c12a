from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.formats.wheel.record import record_digest
from cuwheel.base.system.files import sha256_of_tree
from cuwheel.build.toolchains import store
from cuwheel.build.toolchains.store import (
    Stored,
    describe_tree,
    digest_of_tree,
    find_equal_files,
    obtain,
)
from tests.support.factories import heard, later, make_workspace

_TICK = 50_000_000  # ns


class Maker:
    """Maker of a test's folder, which counts its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0
        self.workspace = make_workspace(folder.parent)

    def __call__(self, aside: Path) -> dict[str, str]:
        (aside / "bin").mkdir()
        (aside / "bin" / "nvcc").write_text("the compiler")
        self.made += 1
        return {"nvcc": "13.0"}

    def obtain(self, *, reads_all: bool = False) -> Stored:
        return obtain(self.folder, self, later(self.workspace), reads_all=reads_all)


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setattr(store, "_TICK", _TICK)
    return Maker(tmp_path / "store" / "cuda130")


@pytest.fixture
def used(maker: Maker) -> Maker:
    """A maker with a folder that was used and is trusted."""
    maker.obtain()
    time.sleep(2 * _TICK / 1e9)
    maker.obtain()
    return maker


def test_makes_once_what_stays_whole(used: Maker) -> None:
    first, again = used.obtain(), used.obtain(reads_all=True)

    assert (used.made, again) == (1, first)
    assert again.facts == {"nvcc": "13.0"}


def write_in_place(file: Path) -> None:
    """As many bytes, and the old times: what a careful program can hide."""
    before = file.stat()
    with file.open("r+") as stream:
        stream.write("another one!")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(file: Path) -> None:
    """Likewise, by another file of that name."""
    before = file.stat()
    other = file.with_name("other")
    other.write_text("another one!")
    other.chmod(before.st_mode)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)


def swap_for_link(file: Path) -> None:
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")


@pytest.mark.parametrize(
    "damage",
    [
        write_in_place,
        replace,
        swap_for_link,
        lambda nvcc: nvcc.chmod(0o755),
        lambda nvcc: nvcc.unlink(),
        lambda nvcc: nvcc.with_name("more").touch(),
        lambda nvcc: nvcc.rename(nvcc.with_name("nvcc2")),
        lambda nvcc: os.truncate(nvcc, 3),
    ],
)
def test_makes_damaged_one_again(damage: Callable[[Path], object], used: Maker) -> None:
    whole = used.obtain()
    damage(used.folder / "bin" / "nvcc")

    again = used.obtain()

    assert (used.made, again) == (2, whole)
    assert "cuda130 was damaged and is made again" in heard(used.workspace)


def test_reads_all_on_request(used: Maker) -> None:
    """A disk's own error, unknown to the file system: the record has other bytes."""
    record = used.folder / "cuwheel.json"
    data = json.loads(record.read_text())
    nvcc = used.folder / "bin" / "nvcc"
    nvcc.write_text("other bytes!")
    time.sleep(2 * _TICK / 1e9)
    status = nvcc.lstat()
    content, mode, *_ = data["files"]["bin/nvcc"]
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    data["files"]["bin/nvcc"] = [content, mode, *stamp]
    record.write_text(json.dumps(data))

    used.obtain()
    assert used.made == 1

    used.obtain(reads_all=True)
    assert used.made == 2


def test_remembers_what_it_read(used: Maker) -> None:
    os.link(used.folder / "bin" / "nvcc", used.folder.with_name("link"))
    time.sleep(2 * _TICK / 1e9)

    used.obtain()

    assert recorded(used)[-1] == (used.folder / "bin" / "nvcc").stat().st_ctime_ns
    assert used.made == 1


def test_takes_content_of_a_shared_file_from_the_folder_that_read_it_last(
    used: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to a file changes its ctime; reading gigabytes again would tell nothing."""
    monkeypatch.setattr(store, "_LITTLE", 0)
    other = used.folder.with_name("cuda131")

    def link(aside: Path) -> dict[str, str]:
        (aside / "nvcc").hardlink_to(used.folder / "bin" / "nvcc")
        time.sleep(2 * _TICK / 1e9)
        return {}

    obtain(other, link, later(used.workspace))
    monkeypatch.setattr(store, "describe_file", lambda path: f"{path} was read")

    used.obtain()

    assert used.made == 1


def test_finds_equal_files_that_are_as_recorded(used: Maker) -> None:
    """By name below a folder that both have, and by content; not one that has changed since."""
    folder, name = used.folder, "lib/python3.11/site-packages/nvcc"
    digest = record_digest("sha256", hashlib.sha256(b"the compiler").digest())
    wanted = {"bin/nvcc": digest, "bin/other": digest, name: digest}

    equal = find_equal_files(wanted, [folder], below="site-packages")
    none = find_equal_files({"bin/nvcc": "sha256=x"}, [folder], below="site-packages")
    write_in_place(folder / "bin" / "nvcc")
    changed = find_equal_files(wanted, [folder], below="site-packages")

    assert (equal, none, changed) == ({"bin/nvcc": folder / "bin/nvcc"}, {}, {})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tree": "x", "facts": {}, "files": []}'])
def test_makes_again_what_has_no_record(used: Maker, text: str) -> None:
    (used.folder / "cuwheel.json").write_text(text)

    used.obtain()

    assert used.made == 2


def test_takes_up_folder_of_an_older_cuwheel(used: Maker) -> None:
    """Its record lists no files."""
    record = used.folder / "cuwheel.json"
    content = json.loads(record.read_text())
    del content["files"]
    record.write_text(json.dumps(content))

    used.obtain()

    assert used.made == 1
    assert json.loads(record.read_text())["files"]


def test_removes_what_a_python_compiled_later(used: Maker) -> None:
    compiled = used.folder / "lib" / "__pycache__" / "json.cpython-312.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(b"planted")

    used.obtain()

    assert (used.made, compiled.exists()) == (1, False)


def test_trusts_no_file_that_was_touched_just_now(maker: Maker) -> None:
    """Within a tick of the clock, another change would leave the same time."""
    early = recorded(maker)
    time.sleep(2 * _TICK / 1e9)
    late = recorded(maker)

    assert (len(early), len(late)) == (1, 6)


def recorded(maker: Maker) -> list[object]:
    """Obtain the folder, and return what its record holds of a file: content and stamp."""
    maker.obtain()
    files: dict[str, list[object]] = json.loads((maker.folder / "cuwheel.json").read_text())[
        "files"
    ]
    return files["bin/nvcc"]


def test_gives_the_digest_of_the_whole_tree(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").write_text("the compiler")
    (tmp_path / "bin-2").write_text("sorts between")
    (tmp_path / "lib64").symlink_to("bin")

    assert digest_of_tree(describe_tree(tmp_path, {})) == sha256_of_tree(tmp_path)
