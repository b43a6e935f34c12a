"""Wheels that were withdrawn, and why (PEP 592): who pinned one still gets it, nobody else does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel.errors import UsageError, suggest
from cuwheel.system.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

YANKS = "yanked.json"  # in a folder of wheels: reasons by file name


def read_yanks(folder: Path) -> dict[str, str]:
    """Reasons by file name.

    Raises:
        UsageError: the file isn't what `yank` writes.
    """
    path = folder / YANKS
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as problem:
        raise _malformed(path, str(problem)) from problem
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise _malformed(path, "it has to hold reasons by file name")
    return found


def yank(folder: Path, name: str, reason: str | None) -> tuple[str, ...]:
    """Withdraw wheels, or take that back; the index follows when it is written next.

    Args:
        folder: with the wheels.
        name: of a wheel's file, or `project==version` for all of a version.
        reason: why; None: they are good again.

    Returns:
        The names of the files.

    Raises:
        UsageError: there is no such wheel.
    """
    yanks = read_yanks(folder)
    there = sorted(path.name for path in folder.glob("*.whl"))
    chosen = tuple(one for one in there if one == name or _is_of(one, name))
    if not chosen:
        raise UsageError(
            f"{folder} holds no wheel {name}",
            why=suggest(name, there) or "it is neither the name of a file nor project==version",
            fix="name the file, or all of a version: -- --yank bitsandbytes==0.49.1+cu122",
        )
    for one in chosen:
        yanks.pop(one, None)
        if reason is not None:
            yanks[one] = reason
    write_yanks(folder, yanks)
    return chosen


def write_yanks(folder: Path, yanks: Mapping[str, str]) -> None:
    """Keep the reasons; a folder without any has no such file."""
    path = folder / YANKS
    text = json.dumps(yanks, indent=1, sort_keys=True) + "\n"
    if not yanks:
        path.unlink(missing_ok=True)
    elif not path.is_file() or path.read_text() != text:
        write_atomically(path, text)


def _is_of(file: str, name: str) -> bool:
    project, _, version = name.partition("==")
    try:
        found, release, _, _ = parse_wheel_filename(file)
        return (found, release) == (canonicalize_name(project), Version(version))
    except (InvalidWheelFilename, InvalidVersion):
        return False


def _malformed(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} can't be read",
        why=why,
        fix="correct it, or remove it and yank again: nox -s index -- --yank NAME --reason TEXT",
    )
