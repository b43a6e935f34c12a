"""What a verification leaves on disk: folders, what removing each frees, and how that is done."""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.system.console import Console


_NAME, _SIZE = 10, 11  # characters of two columns
_BLOCK = 512  # bytes, what st_blocks counts (stat(2))
_KINDS = {
    "usual": "the first build: wheel, log, result of a comparison",
    "some": "the build in another folder, with its own cache",
    "warm": "the build from the compile cache",
    "compiles": "the compile cache of the first and the last",
    "against": "the wheel that was built to be compared",
    "again": "the rebuilt wheel, and the result of a comparison",
    "published": "downloaded files",
}


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A folder that stays.

    Attributes:
        path: of the folder.
        size: bytes that are free once it is removed; a file with a name elsewhere, such as a hard
            link into the cache, frees nothing.
    """

    path: Path
    size: int


def leftovers_of(folder: Path) -> tuple[Leftover, ...]:
    """The folders in a folder, the largest first."""
    found = [Leftover(path=one, size=_freed(one)) for one in folder.iterdir() if one.is_dir()]
    return tuple(sorted(found, key=lambda one: -one.size))


def tell_leftovers(folder: Path, console: Console) -> None:
    """Say what lies in a verification's folder, and how it is removed; nothing where it isn't."""
    if not folder.is_dir():
        return
    left = leftovers_of(folder)
    console.note(f"left, {show_size(sum(one.size for one in left))}: {folder}")
    for one in left:
        what = _KINDS.get(one.path.name, "")
        console.note(f"  {one.path.name:<{_NAME}}{show_size(one.size):>{_SIZE}}  {what}")
    console.note(f"to remove it: rm -rf {shlex.quote(str(folder))}")


def _freed(folder: Path) -> int:
    names: dict[tuple[int, int], int] = {}
    sizes: dict[tuple[int, int], tuple[int, int]] = {}
    for status in _files(folder):
        identity = status.st_dev, status.st_ino
        names[identity] = names.get(identity, 0) + 1
        sizes[identity] = status.st_nlink, status.st_blocks * _BLOCK
    return sum(size for one, (links, size) in sizes.items() if names[one] == links)


def _files(folder: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # another process removes it meanwhile
                yield os.lstat(os.path.join(parent, name))  # noqa: PTH118 - of 100,000
