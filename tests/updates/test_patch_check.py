from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import PatchError
from cuwheel.updates.patch_check import check_patches_of
from tests.support.patched import SETUP
from tests.support.updated import make_updated

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.catalogue import CatalogueEntry
    from tests.support.drafted import Index


def source(folder: Path) -> Path:
    (folder / "tree").mkdir()
    (folder / "tree" / "setup.py").write_bytes(SETUP)
    return folder / "tree"


def limited(entry: CatalogueEntry, *toolkits: tuple[str, ...]) -> CatalogueEntry:
    """The recipe for two toolkits, each patch for some of them."""
    assert entry.recipe
    patches = [
        dataclasses.replace(patch, toolkits=releases)
        for patch, releases in zip(entry.recipe.patches, toolkits, strict=True)
    ]
    recipe = dataclasses.replace(entry.recipe, patches=tuple(patches), toolkits=("12.8", "13.0"))
    return dataclasses.replace(entry, recipe=recipe)


def test_leaves_source_as_it_was(index: Index, tmp_path: Path) -> None:
    entry, tree = make_updated(tmp_path, index, SETUP, 5, 20).entry, source(tmp_path)

    found = check_patches_of(entry, tree)

    assert [one.state for one in found] == ["applies", "applies"]
    assert (tree / "setup.py").read_bytes() == SETUP


def test_tries_together_what_one_toolkit_gets(index: Index, tmp_path: Path) -> None:
    """The second can't follow the first, whose line it changes too, and never has to."""
    project = make_updated(tmp_path, index, SETUP, 20, 22)

    found = check_patches_of(limited(project.entry, ("12.8",), ("13.0",)), source(tmp_path))

    assert [one.state for one in found] == ["applies", "applies"]


def test_reports_the_worst_of_several_toolkits(index: Index, tmp_path: Path) -> None:
    project = make_updated(tmp_path, index, SETUP, 20, 22)

    found = check_patches_of(limited(project.entry, ("12.8",), ()), source(tmp_path))

    assert [(one.file[:4], one.state) for one in found] == [("0020", "applies"), ("0022", "broken")]


def test_names_patch_that_is_missing(index: Index, tmp_path: Path) -> None:
    project = make_updated(tmp_path, index, SETUP, 5)
    (project.patches / "0005-change.patch").unlink()

    with pytest.raises(PatchError) as caught:
        check_patches_of(project.entry, source(tmp_path))

    assert "0005-change.patch" in caught.value.why
