"""What lies in the cache: kinds of things, their sizes, when each was last used."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.system.in_use import is_mark, last_used

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BLOCK = 512  # bytes of one of `st_blocks`, stat(2)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What one folder of the cache is for.

    Attributes:
        folder: its name.
        what: for the reader.
        is_held: who uses an entry of it says so (`system.in_use`).
        is_pruned: entries of it may be removed one by one.
    """

    folder: str
    what: str
    is_held: bool = False
    is_pruned: bool = True


# In the order in which a file with several names counts: the environments' are uv's too.
KINDS = (
    Kind(folder="toolchains", what="CUDA toolkits and compilers", is_held=True),
    Kind(folder="environments", what="Python packages of builds", is_held=True),
    Kind(folder="pythons", what="Pythons from conda packages", is_held=True),
    Kind(folder="engine", what="cuwheel's own environments", is_held=True),
    Kind(folder="bytecode", what="compiled modules for smoke tests", is_held=True),
    Kind(folder="toolboxes", what="links to the machine's programs", is_held=True),
    Kind(
        folder="compiles", what="the compile cache, which has a limit of its own", is_pruned=False
    ),
    Kind(folder="downloads", what="sources, resources, conda packages"),
    Kind(folder="conda", what="conda packages, unpacked", is_pruned=False),
    Kind(folder="uv", what="Python packages, unpacked", is_pruned=False),
)
OTHER = Kind(folder="", what="records of measurements and look-ups", is_pruned=False)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A folder that can be removed by itself.

    Attributes:
        path: the folder.
        kind: what it is.
        size: bytes on disk, of files that no other entry before it has.
        used: when somebody last began to use it, seconds since 1970.
    """

    path: Path
    kind: Kind
    size: int
    used: float


@dataclass(frozen=True, kw_only=True)
class CacheContents:
    """What was found.

    Attributes:
        folder: of the cache.
        entries: all that can be removed by itself.
        sizes: bytes on disk of each kind.
    """

    folder: Path
    entries: tuple[Entry, ...]
    sizes: dict[Kind, int]

    @property
    def size(self) -> int:
        """Bytes on disk of all."""
        return sum(self.sizes.values())


def read_cache(folder: Path) -> CacheContents:
    """Look at everything in the cache; a file with several names counts once.

    Args:
        folder: of the cache; needn't be there.
    """
    seen: set[tuple[int, int]] = set()
    entries: list[Entry] = []
    sizes: dict[Kind, int] = {}
    for kind in KINDS:
        own = folder / kind.folder
        found = tuple(_entries(own, kind, seen))
        entries += found
        sizes[kind] = sum(one.size for one in found) + _size(own, seen)
    sizes[OTHER] = _size(folder, seen)
    return CacheContents(folder=folder, entries=tuple(entries), sizes=sizes)


def _entries(folder: Path, kind: Kind, seen: set[tuple[int, int]]) -> Iterator[Entry]:
    if not folder.is_dir() or not kind.is_pruned:
        return
    for path in sorted(folder.iterdir()):
        is_entry = path.is_dir() and not path.is_symlink() and not is_mark(path.name)
        if is_entry and not path.name.startswith("."):  # which is being made, or no entry
            used = last_used(path)  # before it is read
            yield Entry(path=path, kind=kind, size=_size(path, seen), used=used)


def _size(folder: Path, seen: set[tuple[int, int]]) -> int:
    """Bytes on disk below a folder, of files that weren't seen yet."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # another process removes it meanwhile
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - of 100,000
                identity = (status.st_dev, status.st_ino)
                if identity not in seen:
                    seen.add(identity)
                    total += status.st_blocks * _BLOCK
    return total
