"""The content-addressed store: folders in the cache that are whole and as they were made, or made
again.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuwheel.system.files import (
    file_lock,
    naming_full_disk,
    new_folder,
    remove_leftovers,
    remove_tree,
    write_atomically,
)
from cuwheel.system.in_use import hold
from cuwheel.system.regular_files import read_json
from cuwheel.toolchains.tree_record import FileRecord, describe_tree, digest_of_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cuwheel.system.console import Console


_RECORD = "cuwheel.json"  # written last, and no part of what it describes


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A folder of the store.

    Attributes:
        folder: where it is.
        tree: SHA-256 over the names and contents of all that is in it.
        facts: what its maker said about it.
    """

    folder: Path
    tree: str
    facts: Mapping[str, Any]


def obtain(
    folder: Path,
    make: Callable[[Path], Mapping[str, Any]],
    *,
    console: Console,
    reads_all: bool = False,
    checked: dict[Path, Any] | None = None,
) -> Stored:
    """Give a folder of the store; make it where it isn't there or isn't as it was made.

    Two processes that need the same folder make it once.

    Args:
        folder: its name in the store, which has to hold a hash of everything that it's made from.
        make: fills the folder it is given, which gets its name afterwards, and says facts about it
            that JSON can hold.
        console: reports waiting and damage.
        reads_all: compare the content of every file; otherwise only of those that the file system
            says were touched (`tree_record`).
        checked: folders that this process needs to look at no more; gets this one.

    Raises:
        DiskFullError: the disk of the store ran full.
        CuwheelError: whatever `make` raises; nothing is left then.
    """

    def note_waiting() -> None:
        console.note(f"another cuwheel is making {folder.name}; waiting for it")

    if checked is not None and folder in checked and folder.is_dir():
        known: Stored = checked[folder]
        return known
    with file_lock(folder.with_name(f"{folder.name}.lock"), on_wait=note_waiting):
        remove_leftovers(folder)
        found = _read(folder, reads_all=reads_all)
        if found is None:
            if folder.exists():
                console.warn(f"{folder.name} was damaged and is made again")
                remove_tree(folder)
            found = _fill(folder, make)
        hold(folder)
    if checked is not None:
        checked[folder] = found
    return found


def _read(folder: Path, *, reads_all: bool) -> Stored | None:
    """What is there, when it is as it was made."""
    record = read_json(folder / _RECORD) or {}
    try:
        known = {
            name: FileRecord(content=content, stamp=tuple(stamp))
            for name, (content, *stamp) in record.get("files", {}).items()
        }
        stored = Stored(folder=folder, tree=record["tree"], facts=record["facts"])
        files = describe_tree(folder, {} if reads_all else known, skip=_is_record)
        _remove_other_bytecode(folder, files, known)
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    if digest_of_tree(files) != stored.tree:
        return None
    if files != known:
        _write_record(stored, files)  # what was read needn't be read again
    return stored


def _fill(folder: Path, make: Callable[[Path], Mapping[str, Any]]) -> Stored:
    with naming_full_disk(folder.parent), new_folder(folder) as aside:
        facts = make(aside)
        files = describe_tree(aside, {}, skip=_is_record)
        made = Stored(folder=aside, tree=digest_of_tree(files), facts=facts)
        _write_record(made, files)
    return dataclasses.replace(made, folder=folder)


def _write_record(stored: Stored, files: Mapping[str, FileRecord]) -> None:
    listed = {name: (file.content, *file.stamp) for name, file in files.items()}
    text = json.dumps({"tree": stored.tree, "facts": stored.facts, "files": listed})
    write_atomically(stored.folder / _RECORD, text)


def _remove_other_bytecode(
    folder: Path, files: dict[str, FileRecord], known: Mapping[str, FileRecord]
) -> None:
    """Remove what a Python compiled later: nobody knows whether it is what its source says."""
    for name in files.keys() - known.keys():
        if "__pycache__" in name.split("/"):
            (folder / name).unlink()
            del files[name]


def _is_record(name: str) -> bool:
    return name == _RECORD
