"""What the pages say of the code: modules, imports, variables; and the recipe of CONTRIBUTING."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.build.recipe.recipe_check import check_recipe
from tests.support.build.drafts import write_tree

# Of wheels that the page is about, and of readers' projects.
_FOREIGN = {
    *("faiss/loader.py", "libcudf/load.py", "setup.py"),
    *("packages/axpy/src/axpy/__init__.py", "recipes/axpy.py", "recipes/hello_cuda.py"),
}
_STARTS = ("", "cuwheel/**/", "tests/**/", "ci/**/")
_PATH = re.compile(r"`([\w.*/-]+\.py)`")


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT))
)
def test_names_modules_that_there_are(page: Path) -> None:
    named = set(_PATH.findall(page.read_text())) - _FOREIGN

    assert [path for path in sorted(named) if not _is_module(path)] == []


# Variables between cuwheel's own processes, scripts and tools, and in what it generates.
_INTERNAL = {
    *"""
    CALLERS_PYTHONHOME CALLERS_PYTHONPATH CCACHE CELL COMMANDS COMPILE DEVICE_CODE DEVICE_TOOLS
    DIRECT_MODE ENTRY EPOCH EVENTS FILE GIT_PASSWORD GIT_USER GPUS_HELD IMAGE INVOKED_FROM JOBS
    LINKS MEMORY NIGHTLY_REPORT NO_COMPILE_CACHE ONLY_ARCHS PARENT PLATFORM REAL SAME_BYTES TREE
    TRUSTED VERSION
    """.split()  # noqa: SIM905 - a list that people read
}


def test_page_has_each_variable_that_users_set() -> None:
    variable = re.compile(r"\bCUWHEEL_([A-Z_]+[A-Z])\b")
    page = (ROOT / "docs" / "reference" / "environment-variables.md").read_text()
    code = {
        name for path in ROOT.glob("cuwheel/**/*.py") for name in variable.findall(path.read_text())
    }

    assert code - _INTERNAL == {*variable.findall(page)}
    assert code >= _INTERNAL


def test_finds_paths_of_modules() -> None:
    assert _is_module("cuwheel/base/fetch/urls.py")
    assert _is_module("base/fetch/urls.py")
    assert not _is_module("fetch/url.py")
    assert not _is_module("etch/urls.py")


def test_bootstrap_imports_from_base_and_version_alone() -> None:
    """It runs before the engine's packages are there."""
    tree = ast.parse((ROOT / "cuwheel" / "bootstrap.py").read_text())
    imports = [one for one in ast.walk(tree) if isinstance(one, (ast.Import, ast.ImportFrom))]
    lines = [ast.unparse(one).split() for one in imports]
    found = {line[1].removeprefix("cuwheel.") for line in lines if line[1].startswith("cuwheel")}

    assert {name.partition(".")[0] for name in found} == {"base", "version"}


def _is_module(path: str) -> bool:
    """Whether a path, or the end of one, is a file of the project."""
    return any(next(ROOT.glob(start + path), None) for start in _STARTS)


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
