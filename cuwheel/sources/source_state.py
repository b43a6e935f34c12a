"""A source folder as it was at a build, so that the next one can say what has changed in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.sources.checkouts import commit_of
from cuwheel.sources.tree import describe_sources
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

_SHOWN = 3  # files that are named of each kind
_COMMIT = 12  # characters of a commit


@dataclass(frozen=True, kw_only=True)
class SourceState:
    """What was in a source folder.

    Attributes:
        folder: its path.
        commit: that git has checked out there, short; empty: it is no git repository.
        files: name and digest of each file.
    """

    folder: str
    commit: str
    files: tuple[tuple[str, str], ...]


def read_source_state(folder: Path, *, without: Collection[Path] = ()) -> SourceState:
    """What is in a source folder now.

    Args:
        folder: the source.
        without: folders that don't count.

    Raises:
        SourceError: it holds what can't be copied.
    """
    files = describe_sources(folder, without=without)
    commit = commit_of(folder)[:_COMMIT]
    return SourceState(folder=str(folder), commit=commit, files=tuple(files.items()))


def describe_source_change(old: SourceState, new: SourceState) -> str:
    """What differs between two states, in words; empty: nothing."""
    before, now = dict(old.files), dict(new.files)
    both = before.keys() & now.keys()
    kinds = {
        "changed": sorted(name for name in both if before[name] != now[name]),
        "new": sorted(now.keys() - both),
        "gone": sorted(before.keys() - both),
    }
    words = [_listed(kind, names) for kind, names in kinds.items() if names]
    if old.commit != new.commit:
        words.insert(0, f"commit {old.commit or 'none'} -> {new.commit or 'none'}")
    if not words:
        return ""
    if old.folder != new.folder:
        words.insert(0, f"{new.folder} instead of {old.folder}")
    return "; ".join(words)


def _listed(kind: str, names: Sequence[str]) -> str:
    """`2 files changed: setup.py, src/a.cu`."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{plural(len(names), 'file')} {kind}: {', '.join(names[:_SHOWN])}{more}"
