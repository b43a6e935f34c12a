"""Source trees on disk: copied without what a build left there, equal on every machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import SourceError
from cuwheel.files import list_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

_LITTER = {".git", ".hg", ".svn", "__pycache__"}
# Only at the top: deeper down, a package may well have a folder that is called `build`.
_LITTER_AT_TOP = {"build", "dist", ".nox", ".tox", ".venv"}
_SHOWN = 10  # bad entries that the message names


def is_litter(name: Path) -> bool:
    """Whether a path, relative to a source tree, is no source: version control, caches, builds."""
    return (
        not _LITTER.isdisjoint(name.parts)
        or name.parts[0] in _LITTER_AT_TOP
        or any(part.endswith(".egg-info") for part in name.parts[:2])
    )


def copy_source(tree: Path, to: Path, *, without: Iterable[Path] = ()) -> None:
    """Copy a source tree into a new folder, links as links, without litter.

    Args:
        tree: the folder.
        to: where; it must not be there yet.
        without: folders that aren't copied, such as a work folder inside the tree.

    Raises:
        SourceError: a link leads outside the tree, or something is no file, folder or link.
    """
    skipped = {path.absolute() for path in without}

    def ignore(folder: str, names: list[str]) -> set[str]:
        paths = {name: Path(folder).absolute() / name for name in names}
        return {
            name
            for name, path in paths.items()
            if path in skipped or is_litter(path.relative_to(tree.absolute()))
        }

    _refuse_foreign(tree, ignore)
    shutil.copytree(tree, to, symlinks=True, ignore=ignore)
