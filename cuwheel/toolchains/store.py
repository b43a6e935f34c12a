"""The content-addressed store: folders in the cache that are whole and as they were made, or made
again.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuwheel.system.files import (
    file_lock,
    naming_full_disk,
    new_folder,
    remove_leftovers,
    remove_tree,
    sha256_of_tree,
    write_atomically,
)

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


def obtain(folder: Path, make: Callable[[Path], Mapping[str, Any]], *, console: Console) -> Stored:
    """Give a folder of the store; make it where it isn't there or isn't as it was made.

    Every file is read and compared each time. Two processes that want the same folder make it once.

    Args:
        folder: its name in the store, which has to hold a hash of everything that it's made from.
        make: fills the folder it is given, which gets its name afterwards, and says facts about it
            that JSON can hold.
        console: hears of waiting and of damage.

    Raises:
        DiskFullError: the disk of the store ran full.
        CuwheelError: whatever `make` raises; nothing is left then.
    """

    def tell() -> None:
        console.note(f"another cuwheel is making {folder.name}; waiting for it")

    with file_lock(folder.with_name(f"{folder.name}.lock"), on_wait=tell):
        remove_leftovers(folder)
        found = _read(folder)
        if found is None:
            if folder.exists():
                console.warn(f"{folder.name} was damaged and is made again")
                remove_tree(folder)
            found = _fill(folder, make)
    return found


def _read(folder: Path) -> Stored | None:
    """What is there, when it is as it was made."""
    try:
        record = json.loads((folder / _RECORD).read_text())
        tree = _digest(folder)
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("tree") != tree:
        return None
    return Stored(folder=folder, tree=tree, facts=record.get("facts", {}))


def _fill(folder: Path, make: Callable[[Path], Mapping[str, Any]]) -> Stored:
    with naming_full_disk(folder.parent), new_folder(folder) as aside:
        facts = make(aside)
        tree = _digest(aside)
        write_atomically(aside / _RECORD, json.dumps({"tree": tree, "facts": facts}, indent=2))
    return Stored(folder=folder, tree=tree, facts=facts)


def _digest(folder: Path) -> str:
    """Over all but the record, and but what a Python compiles when it is used."""
    return sha256_of_tree(
        folder, skip=lambda name: str(name) == _RECORD or "__pycache__" in name.parts
    )
