"""A recipe's patches held against another release of its source."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.errors import PatchError
from cuwheel.sources.patch_health import check_patches
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.sources.patch_health import PatchHealth, State


_ORDER: tuple[State, ...] = ("applies", "offset", "obsolete", "broken")  # the worst last


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
    patches = entry.recipe.patches if entry.recipe else ()
    folder = patch_folder(entry)
    if lost := [one.file for one in patches if not (folder / one.file).is_file()]:
        raise PatchError(
            f"{entry.name}: patches are missing",
            why=f"the recipe names {', '.join(lost)}, but {folder} has no such file",
            fix="add the file, or remove its line in the recipe",
        )
    found: dict[str, PatchHealth] = {}
    for number, names in enumerate(_series(entry)):
        copy = tree.with_name(f"{tree.name}.patched-{number}")
        shutil.copytree(tree, copy, symlinks=True)
        contents = {name: read_bytes(folder / name, limit=limits.PATCH) for name in names}
        for health in check_patches(contents, copy):
            known = found.setdefault(health.file, health)
            if _ORDER.index(health.state) > _ORDER.index(known.state):
                found[health.file] = health
    return tuple(found[one.file] for one in patches if one.file in found)


def _series(entry: CatalogueEntry) -> tuple[tuple[str, ...], ...]:
    """The patches that apply together: those of each toolkit, each series once."""
    if entry.recipe is None:
        return ()
    series = (
        tuple(one.file for one in entry.recipe.patches if release in (one.toolkits or (release,)))
        for release in entry.recipe.toolkits
    )
    return tuple(dict.fromkeys(names for names in series if names))
