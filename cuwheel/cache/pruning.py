"""Remove from the cache what nobody uses, beside builds that run."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import filelock

from cuwheel.system.files import remove_tree
from cuwheel.system.in_use import unused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cuwheel.cache.contents import CacheContents, Entry

DAY = 86_400.0  # seconds
# Of what nobody says that it is in use: a build takes hours at most.
_SETTLED = DAY


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What became of the cache.

    Attributes:
        removed: entries that are gone.
        in_use: entries that would be, and that a running build uses.
    """

    removed: tuple[Entry, ...]
    in_use: tuple[Entry, ...]


def choose(
    contents: CacheContents, now: float, *, unused_for: float | None, size: int | None
) -> tuple[Entry, ...]:
    """What is to be removed, the longest unused first.

    Args:
        contents: of the cache.
        now: seconds since 1970.
        unused_for: seconds: what nobody has begun to use since then; None: age is no reason.
        size: bytes that all of the cache may have; None: size is no reason.
    """
    free = [one for one in contents.entries if one.kind.is_held or now - one.used > _SETTLED]
    oldest = sorted(free, key=lambda one: one.used)
    chosen = [one for one in oldest if unused_for is not None and now - one.used > unused_for]
    left = contents.size - sum(one.size for one in chosen)
    for one in oldest:
        if size is None or left <= size:
            break
        if one not in chosen:
            chosen.append(one)
            left -= one.size
    return tuple(chosen)


def prune(chosen: Sequence[Entry]) -> Pruned:
    """Remove entries, but for those that somebody uses or is just making.

    Raises:
        OSError: one can't be removed.
    """
    removed = [one for one in chosen if _remove(one)]
    gone = {one.path for one in removed}
    left = tuple(one for one in chosen if one.path not in gone)
    return Pruned(removed=tuple(removed), in_use=left)


def preview(chosen: Sequence[Entry]) -> Pruned:
    """What `prune` would do now."""
    free = tuple(one for one in chosen if _is_free(one))
    return Pruned(removed=free, in_use=tuple(one for one in chosen if one not in free))


def _is_free(entry: Entry) -> bool:
    with _alone_with(entry) as is_alone:
        return is_alone


def _remove(entry: Entry) -> bool:
    with _alone_with(entry) as is_alone:
        if is_alone:
            remove_tree(entry.path)
        return is_alone


@contextlib.contextmanager
def _alone_with(entry: Entry) -> Iterator[bool]:
    """Whether nobody uses an entry; until the block ends nobody begins to."""
    if not entry.kind.is_held:
        yield True
        return
    with _not_being_made(entry.path) as is_settled, unused(entry.path) as is_unused:
        yield is_settled and is_unused


@contextlib.contextmanager
def _not_being_made(folder: Path) -> Iterator[bool]:
    """Whether nobody makes or checks a folder; until the block ends nobody begins to."""
    lock = filelock.FileLock(f"{folder}.lock", fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
