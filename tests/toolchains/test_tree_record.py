from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from cuwheel.system.files import sha256_of_tree
from cuwheel.toolchains import tree_record
from cuwheel.toolchains.tree_record import FileRecord, describe_tree, digest_of_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_TICK = 50_000_000  # ns


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree that nobody has touched for longer than a tick of the clock."""
    monkeypatch.setattr(tree_record, "_TICK", _TICK)
    folder = tmp_path / "tree"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "nvcc").write_text("the compiler")
    (folder / "bin" / "nvcc").chmod(0o755)
    (folder / "bin-2").write_text("sorts between")
    (folder / "lib64").symlink_to("bin")
    time.sleep(2 * _TICK / 1e9)
    return folder


def describe(tree: Path, known: Mapping[str, FileRecord] | None = None) -> dict[str, FileRecord]:
    return describe_tree(tree, known or {}, skip=lambda name: name.endswith(".skipped"))


def test_gives_the_digest_of_the_whole_tree(tree: Path) -> None:
    assert digest_of_tree(describe(tree)) == sha256_of_tree(tree)


def test_reads_nothing_of_what_was_not_touched(tree: Path) -> None:
    known = {
        name: FileRecord(content="was not read", stamp=file.stamp)
        for name, file in describe(tree).items()
    }

    assert describe(tree, known) == known


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
        lambda file: file.chmod(0o644),
        lambda file: file.unlink(),
        lambda file: file.with_name("more").touch(),
        lambda file: file.rename(file.with_name("nvcc2")),
        lambda file: os.truncate(file, 3),
    ],
)
def test_notices_damage(damage: Callable[[Path], object], tree: Path) -> None:
    before = describe(tree)

    damage(tree / "bin" / "nvcc")

    after = describe(tree, before)
    assert digest_of_tree(after) != digest_of_tree(before)
    assert digest_of_tree(after) == sha256_of_tree(tree)


def test_takes_a_touched_file_that_holds_the_same_for_the_same(tree: Path) -> None:
    """As a hard link to it does, in another environment."""
    before = describe(tree)

    os.link(tree / "bin" / "nvcc", tree.with_name("link"))

    after = describe(tree, before)
    assert after != before
    assert digest_of_tree(after) == digest_of_tree(before)


def test_trusts_no_file_that_was_touched_just_now(tree: Path) -> None:
    """Within a tick of the clock, another change would leave the same time."""
    (tree / "bin" / "nvcc").touch()

    early = describe(tree)
    time.sleep(2 * _TICK / 1e9)
    late = describe(tree, early)

    assert early["bin/nvcc"].stamp == ()
    assert late["bin/nvcc"].stamp != ()


def test_passes_over_what_does_not_count(tree: Path) -> None:
    before = describe(tree)

    (tree / "bin" / "x.skipped").touch()

    assert describe(tree, before) == before
