"""Wheels that were withdrawn, and why (PEP 592): who pinned one still gets it, nobody else does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel.errors import UsageError, suggest
from cuwheel.system.files import write_atomically
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.variants import split_variant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

YANKS = "yanked.json"  # in a folder of wheels: reasons by file name


def read_yanks(folder: Path) -> dict[str, str]:
    """Reasons by file name.

    Raises:
        UsageError: the file isn't what `yank` writes.
    """
    path = folder / YANKS
    try:
        found = json.loads(read_text(path))
    except FileNotFoundError:
        return {}
    except ValueError as problem:
        raise _malformed(path, str(problem)) from problem
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise _malformed(path, "it has to hold reasons by file name")
    return found


def yank(
    asked: Mapping[str, str | None], folders: Sequence[Path], published: Path | None = None
) -> dict[str, tuple[str, ...]]:
    """Withdraw wheels, or take that back; the index follows when it is written next.

    All is found and read before anything is written.

    Args:
        asked: why, by name of a wheel's file or by `project==version` for all of a version; None:
            they are good again.
        folders: with wheels; each that has a wheel gets the reason.
        published: the folder of a site's wheels; it gets the reason of what is in no other.

    Returns:
        The names of the files, by what was asked for.

    Raises:
        UsageError: there is no such wheel, or a list of yanks is damaged.
    """
    there = {one: {path.name for path in one.glob("*.whl")} for one in folders}
    if published is not None:
        elsewhere = {name for names in there.values() for name in names}
        there[published] = {path.name for path in published.glob("*.whl")} - elsewhere
    chosen = {name: _files_called(name, there) for name in asked}
    yanks = {folder: read_yanks(folder) for folder in there}
    for name, reason in asked.items():
        for folder, files in there.items():
            for one in chosen[name]:
                if reason is None:
                    yanks[folder].pop(one, None)
                elif one in files:
                    yanks[folder][one] = reason
    for folder, reasons in yanks.items():
        write_yanks(folder, reasons)
    return chosen


def _files_called(name: str, there: Mapping[Path, Collection[str]]) -> tuple[str, ...]:
    files = sorted({one for names in there.values() for one in names})
    found = tuple(one for one in files if one == name or _is_of(one, name))
    if not found:
        raise UsageError(
            f"{', '.join(map(str, there))} holds no wheel {name}",
            why=suggest(name, files) or "it is neither the name of a file nor project==version",
            fix="name the file, or all of a version: -- --yank bitsandbytes==0.49.1+cu122; for a "
            "wheel that only a site has, name the site too: --to DIR",
        )
    return found


def write_yanks(folder: Path, yanks: Mapping[str, str]) -> None:
    """Keep the reasons; a folder without any has no such file."""
    path = folder / YANKS
    text = json.dumps(yanks, indent=1, sort_keys=True) + "\n"
    if not yanks:
        path.unlink(missing_ok=True)
    elif not path.is_file() or read_text(path) != text:
        write_atomically(path, text)


def _is_of(file: str, name: str) -> bool:
    project, _, version = name.partition("==")
    try:
        found, release, _, _ = parse_wheel_filename(split_variant(file)[0])
        return (found, release) == (canonicalize_name(project), Version(version))
    except (InvalidWheelFilename, InvalidVersion):
        return False


def _malformed(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} can't be read",
        why=why,
        fix="correct it, or remove it and yank again: nox -s index -- --yank NAME --reason TEXT",
    )
