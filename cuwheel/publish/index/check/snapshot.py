"""Snapshots of the hashes of an index's files, and the changes since."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import UsageError
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.regular_files import parse_json, read_bytes
from cuwheel.publish.index.check.rules import Violation

_FORMAT = 1
# Project → file → its best hash, `sha256=...`, or nothing where none is known.
Projects = dict[str, dict[str, str]]


def read_snapshot(path: Path) -> dict[str, Projects]:
    """Read the projects of each index by its name; empty: there is no such file yet.

    Raises:
        UsageError: `write_snapshot` didn't write it.
    """
    try:
        content = parse_json(read_bytes(path, limit=limits.SNAPSHOT))
        if content["format"] != _FORMAT:
            raise ValueError(  # noqa: TRY301 - one place reports
                f"it has format {content['format']}, only {_FORMAT} is supported"
            )
        return {
            name: {
                project: {file: str(record["hash"]) for file, record in files.items()}
                for project, files in projects.items()
            }
            for name, projects in content["indexes"].items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(
            f"{path} is not a snapshot of an index",
            why=f"{type(problem).__name__}: {problem}",
            fix="give a file that --snapshot wrote, or one that doesn't exist yet",
        ) from problem


def write_snapshot(path: Path, indexes: Mapping[str, Projects]) -> None:
    """Write the projects of all indexes."""
    content = {
        name: {
            project: {file: {"hash": digest} for file, digest in files.items()}
            for project, files in projects.items()
        }
        for name, projects in indexes.items()
    }
    text = json.dumps({"format": _FORMAT, "indexes": content}, indent=0, sort_keys=True)
    write_atomically(path, f"{text}\n")


def find_changes(
    where: str, before: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[Violation]:
    """Yield what has changed in a project."""
    for name, old in sorted(before.items()):
        place, new = f"{where}: {name}", now.get(name)
        if new is None:
            digest = f"; it was {old}" if old else ""
            fact = f"it was listed when the snapshot was taken{digest}"
            yield Violation(code="vanished", where=place, fact=fact)
        elif old != new and old.partition("=")[0] == new.partition("=")[0]:
            yield Violation(code="changed", where=place, fact=f"it was {old}, it is {new}")
