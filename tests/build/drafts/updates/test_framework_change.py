"""Recipes' texts for another release of their framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import RecipeError, UsageError
from cuwheel.build.drafts.updates.framework_change import (
    FrameworkChange,
    changed_project,
    loosened,
    replaced_requirements,
)
from cuwheel.build.recipe.catalogue import CatalogueEntry, find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import Framework, Recipe, Setuptools
from tests.support.build.recipe_files import write_recipe
from tests.support.factories import make_recipe

_NEW = Framework(name="torch", version="2.15.0")
_SINGLE = 'framework=Framework(name="torch", version="2.11.0"),\n    build=Setuptools(),'
_BY_RELEASE = """\
framework={
        "13.0": Framework(name="torch", version="2.11.0"),
    },
    build=Setuptools(env={"TINY": {"13.0": "yes"}}),"""


def entry_with(folder: Path, more: str) -> CatalogueEntry:
    write_recipe(folder, "tiny", f'{more}\n    link=Link("cudart"),')
    return find_recipe("tiny", load_catalogue([folder]))


def changed(folder: Path, more: str, **changes: Any) -> Recipe:
    """The recipe with these fields, changed; a new CUDA release unless `cuda` says otherwise."""
    change = FrameworkChange(**{"framework": _NEW, "cuda": "13.2", **changes})
    recipe = changed_project(entry_with(folder, more), change, folder / "aside").recipe
    assert recipe is not None
    return recipe


@pytest.mark.parametrize("more", [_SINGLE, _BY_RELEASE], ids=["single", "by release"])
def test_new_cuda_release_keeps_the_old_framework(tmp_path: Path, more: str) -> None:
    recipe = changed(tmp_path, more)

    assert recipe.toolkits == ("13.0", "13.2")
    assert recipe.framework_for("13.2") == _NEW
    assert recipe.framework_for("13.0") == Framework(name="torch", version="2.11.0")


def test_new_cuda_release_gets_the_settings_of_the_newest(tmp_path: Path) -> None:
    recipe = changed(tmp_path, _BY_RELEASE)

    assert isinstance(recipe.build, Setuptools)
    assert recipe.build.env["TINY"] == {"13.0": "yes", "13.2": "yes"}


@pytest.mark.parametrize("more", [_SINGLE, _BY_RELEASE], ids=["single", "by release"])
def test_known_cuda_release_gets_the_new_pin(tmp_path: Path, more: str) -> None:
    recipe = changed(tmp_path, more, cuda="13.0")

    assert (recipe.toolkits, recipe.framework_for("13.0")) == (("13.0",), _NEW)


def test_arch_that_the_new_nvcc_lacks_is_dropped(tmp_path: Path) -> None:
    text = _SINGLE.replace("framework", 'ptx="last", framework')
    entry = entry_with(tmp_path, text)
    path = tmp_path / "recipes" / "tiny.py"
    path.write_text(
        path.read_text().replace('("13.0",)', '("12.8",)').replace('("90",)', '("70", "90")')
    )
    [entry] = load_catalogue([tmp_path])
    assert entry.recipe is not None
    change = FrameworkChange(framework=_NEW, cuda="13.2")

    recipe = changed_project(entry, change, tmp_path / "aside").recipe

    assert recipe is not None
    assert recipe.archs_for("13.2") == ("90",)
    assert recipe.archs_for("12.8") == ("70", "90")
    assert change.summary(entry.recipe) == ("CUDA 13.2", "without sm_70")


def test_standard_holds_from_the_release_on(tmp_path: Path) -> None:
    why = "    # Why it is\n    # built so.\n    build="

    recipe = changed(tmp_path, _SINGLE.replace("    build=", why), cxx_standard="20")

    assert recipe.cxx_standard == {"torch>=2.15": "20"}
    [text] = [path.read_text() for path in tmp_path.glob("aside/**/recipes/tiny.py")]
    assert f'"20"}},\n{why}' in text  # the comment stays with its field


def test_comment_stays_above_its_argument(tmp_path: Path) -> None:
    lines = "    # Two lines about\n    # the build.\n    build="
    entry = entry_with(tmp_path, _SINGLE.replace("    build=", lines))
    assert entry.recipe is not None
    change = FrameworkChange(framework=_NEW, cuda="13.2", cxx_standard="20")

    text = change.text_of(entry, entry.recipe)

    assert f'    cxx_standard={{"torch>=2.15": "20"}},\n{lines}' in text


def test_refuses_what_is_no_literal(tmp_path: Path) -> None:
    entry = entry_with(tmp_path, _SINGLE)
    path = tmp_path / "recipes" / "tiny.py"
    path.write_text(path.read_text().replace('("13.0",)', 'tuple(["13.0"])'))

    assert entry.recipe is not None
    with pytest.raises(RecipeError):
        FrameworkChange(framework=_NEW, cuda="13.2").text_of(entry, entry.recipe)


def test_loosens_each_limit_then_all() -> None:
    recipe = make_recipe(requires=("a==1", "b>=2,<3", "c>=1", "d"))

    assert list(loosened(recipe)) == [
        {"a==1": "a"},
        {"b>=2,<3": "b>=2"},
        {"a==1": "a", "b>=2,<3": "b>=2"},
    ]


def test_requirement_replaces_the_one_of_its_name() -> None:
    recipe = make_recipe(requires=("Tile_Lang==1", "wheel"))

    assert replaced_requirements(recipe, ["tile-lang>=2"]) == {"Tile_Lang==1": "tile-lang>=2"}
    with pytest.raises(UsageError):
        replaced_requirements(recipe, ["ninja"])
