"""What an index offered when it was last seen, and what has changed since."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.errors import UsageError
from cuwheel.index.check.rules import Finding
from cuwheel.system.files import write_atomically
from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is kept of a file.

    Attributes:
        hash: its best one, `sha256=...`; empty where none is known.
        date: the upload time as the page gives it; empty where it doesn't.
        yanked: why it was withdrawn; None: it wasn't.
    """

    hash: str
    date: str
    yanked: str | None


Projects = dict[str, dict[str, Seen]]  # project → file


def read_snapshot(path: Path) -> dict[str, Projects]:
    """What each index offered, by its name; nothing where there is no such file yet.

    Raises:
        UsageError: it isn't what `write_snapshot` writes.
    """
    try:
        if path.stat().st_size > limits.SNAPSHOT:
            raise _malformed(path, f"it has more than {show_size(limits.SNAPSHOT)}")
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as problem:
        raise _malformed(path, str(problem)) from problem
    try:
        if found["format"] != _FORMAT:
            raise _malformed(path, f"it has format {found['format']}, only {_FORMAT} is supported")
        return {
            name: {
                project: {file: Seen(**seen) for file, seen in files.items()}
                for project, files in projects.items()
            }
            for name, projects in found["indexes"].items()
        }
    except (KeyError, TypeError, AttributeError) as problem:
        raise _malformed(path, f"{type(problem).__name__}: {problem}") from problem


def write_snapshot(path: Path, indexes: Mapping[str, Projects]) -> None:
    """Keep what the indexes offer."""
    kept = {
        name: {
            project: {file: vars(seen) for file, seen in files.items()}
            for project, files in projects.items()
        }
        for name, projects in indexes.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": _FORMAT, "indexes": kept}, indent=0, sort_keys=True)
    write_atomically(path, f"{text}\n")


def change_findings(
    where: str, before: Mapping[str, Seen], now: Mapping[str, Seen]
) -> Iterator[Finding]:
    """What has changed of a project.

    Args:
        where: its page, for findings.
        before: its files as they were.
        now: as they are.
    """
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        for code, fact in _changes(old, new):
            yield Finding(code=code, where=f"{where}: {name}", fact=fact)


def _changes(old: Seen | None, new: Seen | None) -> Iterator[tuple[str, str]]:
    """Codes and facts."""
    if new is None:
        said = f"; it was {old.hash}" if old and old.hash else ""
        yield "vanished", f"it was listed when the snapshot was taken{said}"
    elif old is None:
        yield "new", new.hash or "it has no hash"
    else:
        kinds = [one.hash.partition("=")[0] for one in (old, new)]
        if old.hash != new.hash and kinds[0] == kinds[1]:
            yield "changed", f"it was {old.hash}, it is {new.hash}"
        if old.date and old.date != new.date:
            yield "redated", f"it was {old.date}, it is {new.date or 'without a date'}"
        if (old.yanked is None) is not (new.yanked is None):
            yield "yanked", _withdrawn(new.yanked)


def _withdrawn(reason: str | None) -> str:
    if reason is None:
        return "it was yanked, and no longer is"
    return f"it is yanked now: {reason or 'no reason is given'}"


def _malformed(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a snapshot of an index",
        why=why,
        fix="give a file that --snapshot wrote, or one that doesn't exist yet",
    )
