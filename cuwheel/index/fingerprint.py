"""Whether anything has changed since a site was written: stat(2) of all files, and our code."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CODE = Path(__file__).parent


def fingerprint(folders: Iterable[Path], *facts: str) -> str:
    """A digest that another state of any file below some folders changes.

    Contents aren't read: the time of the last change of the inode is one that nobody can set.

    Args:
        folders: needn't be there.
        facts: what else decides.
    """
    digest = hashlib.sha256()
    for one in (*facts, *(read_text(path) for path in sorted(_CODE.glob("*.py")))):
        digest.update(f"{len(one)}:{one}".encode())
    for folder in folders:
        for line in sorted(_states(str(folder))):
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _states(folder: str) -> Iterator[str]:
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _states(entry.path)
            elif not entry.name.endswith(".lock"):
                state = entry.stat(follow_symlinks=False)
                yield f"{entry.path}\0{state.st_size}\0{state.st_ctime_ns}\0{state.st_ino}\n"
