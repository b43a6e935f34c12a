"""Wheels that were withdrawn, and why (PEP 592): who pinned one still gets it, nobody else does."""

from __future__ import annotations

import json
from dataclasses import dataclass
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
        raise _malformed(path, "it has to map file names to reasons")
    return found


@dataclass(frozen=True)
class PublishedNames:
    """Wheels of a site, which may lie elsewhere.

    Attributes:
        folder: with the site's list.
        names: of the wheels' files.
    """

    folder: Path
    names: frozenset[str]


def yank(
    asked: Mapping[str, str | None],
    folders: Sequence[Path],
    published: PublishedNames | None = None,
) -> dict[str, tuple[str, ...]]:
    """Withdraw wheels, or take that back; the index follows when it is written next.

    All is found and read before anything is written.

    Args:
        asked: why, by name of a wheel's file or by `project==version` for all of a version; None:
            they are good again.
        folders: with wheels; each that has a wheel gets the reason.
        published: a site's wheels; its list gets the reason of what is in no folder.

    Returns:
        The names of the files, by what was asked for.

    Raises:
        UsageError: there is no such wheel, or a list of yanks is damaged.
    """
    there = {one: {path.name for path in one.glob("*.whl")} for one in folders}
    if published is not None:
        elsewhere = {name for names in there.values() for name in names}
        there[published.folder] = set(published.names) - elsewhere
    where = ", ".join(map(str, there))
    files = {one for names in there.values() for one in names}
    chosen = called(asked, files, where)
    yanks = {folder: read_yanks(folder) for folder in there}
    for folder, names in there.items():
        of_folder = {one: why for one, why in chosen.items() if why is None or one in names}
        write_yanks(folder, changed_yanks(yanks[folder], of_folder))
    return {name: _files_called(name, files, where) for name in asked}


def called(
    asked: Mapping[str, str | None], files: Collection[str], where: str
) -> dict[str, str | None]:
    """What was asked for, by name of file.

    Args:
        asked: as for `yank`.
        files: names of all wheels.
        where: they are, for the message.

    Raises:
        UsageError: there is no such wheel.
    """
    return {
        file: reason for name, reason in asked.items() for file in _files_called(name, files, where)
    }


def changed_yanks(yanks: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Reasons by name of file, with changes; None: that one is good again."""
    both = {**yanks, **changes}
    return {name: reason for name, reason in both.items() if reason is not None}


def _files_called(name: str, files: Collection[str], where: str) -> tuple[str, ...]:
    found = tuple(one for one in sorted(files) if one == name or _is_of(one, name))
    if not found:
        raise UsageError(
            f"{where} has no wheel {name}",
            why=suggest(name, files) or "it is neither a file name nor project==version",
            fix="give the file name, or all files of a version: -- --yank "
            "bitsandbytes==0.49.1+cu122; for a wheel that is only in a site, also give the "
            "site: --to DIR",
        )
    return found


def write_yanks(folder: Path, yanks: Mapping[str, str]) -> None:
    """Keep the reasons; a folder that never had any has no such file.

    One that has none any more says so: a release takes a missing list from the last record.
    """
    path = folder / YANKS
    text = json.dumps(yanks, indent=1, sort_keys=True) + "\n"
    before = read_text(path) if path.is_file() else ""
    if text != before and (yanks or before):
        folder.mkdir(exist_ok=True)
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
