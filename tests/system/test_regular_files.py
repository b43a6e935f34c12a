"""What a package may put where something of its own is read."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.system.regular_files import is_regular, open_regular, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


_TRAPS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "folder": os.mkdir,
    "socket": bind,
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("make", _TRAPS.values(), ids=_TRAPS)
def test_opens_nothing_but_files(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "x"
    make(path)

    assert not is_regular(path)
    with pytest.raises(OSError):  # noqa: PT011 - which, depends on what is there
        open_regular(path)


def test_reads_no_more_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(5 << 20))

    assert len(read_regular(path, limit=5 << 20)) == 5 << 20
    with pytest.raises(OSError, match="more than 4 MiB"):
        read_regular(path, limit=(5 << 20) - 1)


def test_reads_file_that_states_no_size() -> None:
    assert read_regular(Path("/proc/self/maps"), limit=1 << 20)
