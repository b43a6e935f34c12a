"""Entries of `DT_RPATH` and `DT_RUNPATH`, from a library to a folder and back (ld.so(8))."""

from __future__ import annotations

import os
import re
from pathlib import PurePath, PurePosixPath
from typing import TypeVar

_ORIGIN = re.compile(r"\$(ORIGIN\b|\{ORIGIN\})")
Place = TypeVar("Place", bound=PurePath)


def relative_entry(library: PurePosixPath, folder: PurePosixPath) -> str:
    """Return the rpath entry from a library to a folder, both relative to site-packages."""
    path = os.path.relpath(folder, library.parent)
    return "$ORIGIN" if path == "." else f"$ORIGIN/{path}"


def resolve_entry(library: Place, entry: str) -> Place | None:
    """Return the folder to which an entry leads, relative to site-packages like the library.

    Args:
        library: its path below site-packages, or its absolute path on disk.

    Returns:
        None if it depends on more than the library's path, as on the folder where a program is
        started; for a path below site-packages also if it is absolute or leads out of there.
    """
    is_absolute = library.is_absolute()
    if not is_absolute and not _ORIGIN.match(entry):
        return None
    path = os.path.normpath(_ORIGIN.sub(lambda _: str(library.parent), entry, count=1))
    leaves = path == ".." or path.startswith("../") or path.startswith("/") != is_absolute
    return None if leaves or "$" in path else type(library)(path)
