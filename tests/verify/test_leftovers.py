"""What a verification says of the folders that it leaves."""

from __future__ import annotations

import io
import shlex
import subprocess
from typing import TYPE_CHECKING

import rich.console

from cuwheel.system.console import Console
from cuwheel.verify.leftovers import leftovers_of, tell_leftovers

if TYPE_CHECKING:
    from pathlib import Path

_MIB = 1 << 20


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * _MIB)
    return path


def test_counts_what_removing_frees(tmp_path: Path) -> None:
    shared = _file(tmp_path / "cache" / "wheel")
    _file(tmp_path / "left" / "some" / "cache" / "own").with_name("again").hardlink_to(
        tmp_path / "left" / "some" / "cache" / "own"
    )
    (tmp_path / "left" / "some" / "linked").hardlink_to(shared)
    (tmp_path / "left" / "some" / "downloads").symlink_to(shared.parent)

    [left] = leftovers_of(tmp_path / "left")

    assert left.path.name == "some"
    assert _MIB <= left.size < _MIB + 64 * 1024


def test_tells_folders_and_a_command_that_removes_them(tmp_path: Path) -> None:
    folder = tmp_path / "work dir" / "verify" / "x-130"
    shared = _file(tmp_path / "cache" / "wheel")
    _file(folder / "usual" / "x.whl")
    (folder / "some").mkdir()
    (folder / "some" / "uv").symlink_to(shared.parent)
    written = io.StringIO()

    tell_leftovers(folder, Console(rich.console.Console(file=written, width=200)))

    lines = [line.strip() for line in written.getvalue().splitlines()]
    assert lines[0] == f"left, 1.0 MiB: {folder}"
    assert [line.split()[0] for line in lines[1:3]] == ["usual", "some"]
    subprocess.run(shlex.split(lines[3].removeprefix("to remove it: ")), check=True)
    assert (folder.exists(), shared.exists()) == (False, True)
