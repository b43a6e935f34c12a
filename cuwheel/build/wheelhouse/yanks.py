"""The list of withdrawn wheels, with reasons (PEP 592): installers take only pinned ones."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel.base import limits
from cuwheel.base.errors import IrregularFileError, UsageError, suggest
from cuwheel.base.formats.wheel.variants import split_variant
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.regular_files import parse_json, read_regular, read_text
from cuwheel.build.workspace.masking import PublicText

YANKS = "yanked.json"  # in a folder of wheels: reasons by file name


def read_yanks(folder: Path) -> dict[str, str]:
    """Read the reasons by file name, with secrets masked: indexes show them.

    Raises:
        UsageError: the file isn't what `yank` writes.
    """
    path = folder / YANKS
    try:
        yanks = parse_json(read_regular(path, limit=limits.TEXT))
    except FileNotFoundError:
        return {}
    except (IrregularFileError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise _malformed(path, str(why)) from problem
    if not isinstance(yanks, dict) or not all(isinstance(why, str) for why in yanks.values()):
        raise _malformed(path, "it has to map file names to reasons")
    return _public(yanks)


@dataclass(frozen=True)
class PublishedNames:
    """The names of a site's wheels, which may be elsewhere."""

    folder: Path
    names: frozenset[str]


def yank(
    reasons: Mapping[str, str | None],
    folders: Sequence[Path],
    published: PublishedNames | None = None,
) -> dict[str, tuple[str, ...]]:
    """Withdraw wheels, or take that back; the index follows when it is written next.

    All is read before anything is written.

    Args:
        reasons: by name of a wheel's file, or by `project==version` for all of a version; None:
            they are good again.
        folders: with wheels; each that has a wheel gets the reason.
        published: a site's wheels; its list gets the reasons of those that are in no folder.

    Returns:
        The names of the files, by the keys of `reasons`.

    Raises:
        UsageError: there is no such wheel, or a list of yanks is damaged.
    """
    wheels = {folder: {path.name for path in folder.glob("*.whl")} for folder in folders}
    if published is not None:
        wheels[published.folder] = set(published.names).difference(*wheels.values())
    where = ", ".join(map(str, wheels))
    files = set().union(*wheels.values())
    chosen = called(reasons, files, where)
    yanks = {folder: read_yanks(folder) for folder in wheels}
    for folder, names in wheels.items():
        changes = {file: why for file, why in chosen.items() if why is None or file in names}
        write_yanks(folder, changed_yanks(yanks[folder], changes))
    return {name: _files_called(name, files, where) for name in reasons}


def called(
    reasons: Mapping[str, str | None], files: Collection[str], where: str
) -> dict[str, str | None]:
    """Return the reasons of `yank` by name of file.

    Raises:
        UsageError: there is no such wheel.
    """
    return {
        file: reason
        for name, reason in reasons.items()
        for file in _files_called(name, files, where)
    }


def _public(yanks: Mapping[str, str]) -> dict[str, str]:
    text = PublicText({}, names=False) if yanks else None
    return {name: text.of(why) if text else why for name, why in yanks.items()}


def changed_yanks(yanks: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return reasons by name of file, with changes; None: that wheel is good again."""
    both = {**yanks, **changes}
    return {name: reason for name, reason in both.items() if reason is not None}


def _files_called(name: str, files: Collection[str], where: str) -> tuple[str, ...]:
    matching = tuple(file for file in sorted(files) if file == name or _is_of(file, name))
    if not matching:
        raise UsageError(
            f"{where} has no wheel {name}",
            why=suggest(name, files) or "it is neither a file name nor project==version",
            fix="give the file name, or all files of a version: -- --yank "
            "bitsandbytes==0.49.1+cu122; for a wheel that is only in a site, also give the "
            "site: --to DIR",
        )
    return matching


def write_yanks(folder: Path, yanks: Mapping[str, str]) -> None:
    """Write the reasons; a folder that never had any has no such file.

    An empty list is written where there was one: a release takes a missing list from the last
    record.
    """
    path = folder / YANKS
    text = json.dumps(_public(yanks), indent=1, sort_keys=True) + "\n"
    before = read_text(path) if path.is_file() else ""
    if text != before and (yanks or before):
        folder.mkdir(exist_ok=True)
        write_atomically(path, text)


def _is_of(file: str, name: str) -> bool:
    project, _, version = name.partition("==")
    try:
        stated, release, _, _ = parse_wheel_filename(split_variant(file)[0])
        return (stated, release) == (canonicalize_name(project), Version(version))
    except (InvalidWheelFilename, InvalidVersion):
        return False


def _malformed(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} can't be read",
        why=why,
        fix="correct it, or remove it and yank again: nox -s index -- --yank NAME --reason TEXT",
    )
