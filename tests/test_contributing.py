"""CONTRIBUTING's recipe: whoever types it word for word has one that the engine takes."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.model.catalogue import find_recipe, load_catalogue
from cuwheel.model.recipe_check import check_recipe
from cuwheel.paths import ROOT
from tests.support.drafted import write_tree

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.recipe import Recipe

_PAGE = (ROOT / "CONTRIBUTING.md").read_text()
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RECIPE, _PATCHES, _SCRIPT, _SMOKE = _BLOCK.findall(_PAGE)


def load(folder: Path, text: str) -> Recipe:
    write_tree(folder, {"recipes/torch_cluster.py": text})
    recipe = find_recipe("torch-cluster", load_catalogue([folder])).recipe
    assert recipe is not None
    return recipe


def test_recipe_is_well_formed(tmp_path: Path) -> None:
    check_recipe(load(tmp_path, _RECIPE))


def test_recipe_has_the_handle_that_is_typed(tmp_path: Path) -> None:
    [typed] = re.findall(r"^\$ nox -s new -- \S+ --maintainer (\S+)$", _PAGE, re.MULTILINE)

    assert load(tmp_path, _RECIPE).maintainers == (typed,)


def test_recipe_is_well_formed_with_what_later_steps_add(tmp_path: Path) -> None:
    text = _RECIPE.replace("import Framework", "import Patch, Framework")
    text = text.replace('    requires=("ninja"', f'{_PATCHES}    requires=("ninja"')
    text = re.sub(r"^    smoke=.*\n", _SMOKE, text, flags=re.MULTILINE)

    recipe = load(tmp_path, text)

    check_recipe(recipe)
    assert [one.file for one in recipe.patches] == ["0001-compile-with-ninja.patch"]
    assert recipe.smoke.script == "torch_cluster.py"


@pytest.mark.parametrize("name", ["torch", "torch_cluster"])
def test_smoke_script_imports_what_the_wheel_brings(name: str) -> None:
    compile(_SCRIPT, "torch_cluster.py", "exec")

    assert name in re.findall(r"^(?:import|from) (\w+)", _SCRIPT, re.MULTILINE)
    assert name not in sys.stdlib_module_names
