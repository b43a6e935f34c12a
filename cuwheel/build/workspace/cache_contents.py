"""The contents of the cache, and removal of unused entries, safe while builds run."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import filelock

from cuwheel.base.system.cache_folder import is_mark, last_used, unused
from cuwheel.base.system.files import remove_tree

# Names of entries: they end in the hash of their inputs.
_ENTRY = re.compile(r"(?:[\w.+-]+-)?[0-9a-f]{12,64}")
_BLOCK = 512  # bytes of one of `st_blocks`, stat(2)
DAY = 86_400.0  # seconds
_SETTLED = DAY  # age of an entry of which no use is marked: a build takes hours at most


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The purpose of one folder of the cache.

    Attributes:
        is_held: its entries are marked while they are in use (`system.cache_folder`).
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
class CacheEntry:
    """A folder that can be removed by itself.

    Attributes:
        size: bytes on disk, of files that no other entry before it has.
        used: when its last use began, seconds since 1970.
    """

    path: Path
    kind: Kind
    size: int
    used: float


@dataclass(frozen=True, kw_only=True)
class CacheContents:
    """The contents of a cache folder, with the bytes on disk of each kind."""

    folder: Path
    entries: tuple[CacheEntry, ...]
    sizes: dict[Kind, int]

    @property
    def size(self) -> int:
        """The bytes on disk of all."""
        return sum(self.sizes.values())


def read_cache(folder: Path) -> CacheContents:
    """Read everything in the cache; a file with several names counts once.

    Args:
        folder: of the cache; needn't be there.
    """
    counted: set[tuple[int, int]] = set()
    entries: list[CacheEntry] = []
    sizes: dict[Kind, int] = {}
    for kind in KINDS:
        of_kind = tuple(_entries(folder / kind.folder, kind, counted))
        entries += of_kind
        sizes[kind] = sum(entry.size for entry in of_kind) + _size(folder / kind.folder, counted)
    sizes[OTHER] = _size(folder, counted)
    return CacheContents(folder=folder, entries=tuple(entries), sizes=sizes)


def _entries(folder: Path, kind: Kind, counted: set[tuple[int, int]]) -> Iterator[CacheEntry]:
    if not folder.is_dir() or not kind.is_pruned:
        return
    paths = [path for path in sorted(folder.iterdir()) if _is_entry(path)]
    used = {path: last_used(path) for path in paths}  # before one is read
    # Entries may share files: the one that was used last has them, as it is removed last.
    newest_first = sorted(paths, key=lambda path: used[path], reverse=True)
    sizes = {path: _size(path, counted) for path in newest_first}
    for path in paths:
        yield CacheEntry(path=path, kind=kind, size=sizes[path], used=used[path])


def _is_entry(path: Path) -> bool:
    """Return False for what is being made, and for a user's."""
    is_folder = path.is_dir() and not path.is_symlink() and not is_mark(path.name)
    return is_folder and _ENTRY.fullmatch(path.name) is not None


def _size(folder: Path, counted: set[tuple[int, int]]) -> int:
    """Return the bytes on disk below a folder, of files that weren't counted yet."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # another process removes it meanwhile
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - of 100,000
                identity = (status.st_dev, status.st_ino)
                if identity not in counted:
                    counted.add(identity)
                    total += status.st_blocks * _BLOCK
    return total


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The result of pruning the cache."""

    removed: tuple[CacheEntry, ...]
    in_use: tuple[CacheEntry, ...]


def choose(
    contents: CacheContents, now: float, *, unused_for: float | None, size: int | None
) -> tuple[CacheEntry, ...]:
    """Choose the entries to remove, the longest unused first.

    Args:
        now: seconds since 1970.
        unused_for: seconds since the last use began; None: age is no reason.
        size: bytes that all of the cache may have; None: size is no reason.
    """
    free = [
        entry for entry in contents.entries if entry.kind.is_held or now - entry.used > _SETTLED
    ]
    oldest = sorted(free, key=lambda entry: entry.used)
    chosen = [entry for entry in oldest if unused_for is not None and now - entry.used > unused_for]
    remaining = contents.size - sum(entry.size for entry in chosen)
    for entry in oldest:
        if size is None or remaining <= size:
            break
        if entry not in chosen:
            chosen.append(entry)
            remaining -= entry.size
    return tuple(chosen)


def prune(chosen: Sequence[CacheEntry], *, dry_run: bool = False) -> Pruned:
    """Remove entries, but for those that are in use or are just being made.

    Args:
        dry_run: remove nothing, and return the result that removing would have now.

    Raises:
        OSError: one can't be removed.
    """
    removed: list[CacheEntry] = []
    in_use: list[CacheEntry] = []
    for entry in chosen:
        with _alone_with(entry) as is_alone:
            if is_alone and not dry_run:
                remove_tree(entry.path)
            (removed if is_alone else in_use).append(entry)
    return Pruned(removed=tuple(removed), in_use=tuple(in_use))


@contextlib.contextmanager
def _alone_with(entry: CacheEntry) -> Iterator[bool]:
    """Yield True if an entry is not in use; until the block ends no use begins."""
    if not entry.kind.is_held:
        yield True
        return
    try:
        with (
            filelock.FileLock(f"{entry.path}.lock", timeout=0, fallback_to_soft=False),
            unused(entry.path) as is_unused,
        ):
            yield is_unused
    except filelock.Timeout:  # it is being made or checked
        yield False
