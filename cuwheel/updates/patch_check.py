"""A recipe's patches held against another release of its source."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cuwheel.errors import PatchError
from cuwheel.sources.patch_health import check_patches

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.sources.patch_health import PatchHealth


def patch_folder(entry: CatalogueEntry) -> Path:
    """Where the patches of a recipe are."""
    folder = entry.recipe.folder if entry.recipe else entry.name
    return entry.root / "patches" / folder


def check_patches_of(entry: CatalogueEntry, tree: Path) -> tuple[PatchHealth, ...]:
    """Whether each patch of a recipe fits a source.

    Args:
        entry: the recipe.
        tree: the source; it stays as it is.

    Raises:
        PatchError: the recipe names a patch that isn't there.
    """
    named = [patch.file for patch in entry.recipe.patches] if entry.recipe else []
    folder = patch_folder(entry)
    if lost := [name for name in named if not (folder / name).is_file()]:
        raise PatchError(
            f"{entry.name}: patches are missing",
            why=f"the recipe names {', '.join(lost)}, and {folder} holds none of that name",
            fix="add the file, or remove its line in the recipe",
        )
    if not named:
        return ()
    copy = tree.with_name(f"{tree.name}.patched")
    shutil.copytree(tree, copy, symlinks=True)
    return check_patches({name: (folder / name).read_bytes() for name in named}, copy)
