"""Every recipe, ours and those of the tests, against the engine and the files around it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from cuwheel.locks.jobs import PypiLockSpec, lock_jobs
from cuwheel.model import recipe as declarations
from cuwheel.model.catalogue import CatalogueEntry, load_catalogue
from cuwheel.model.recipe import PLACEHOLDERS, Recipe
from cuwheel.model.recipe_check import check_recipe
from cuwheel.paths import ROOT
from cuwheel.pypi.lock_file import faults_of_lock, read_input

if TYPE_CHECKING:
    from pathlib import Path

_PROJECTS = (ROOT, ROOT / "tests" / "project")
_ENTRIES = [entry for root in _PROJECTS for entry in load_catalogue([root])]

_LOCKS = [
    (entry, job)
    for entry in _ENTRIES
    for job in lock_jobs([f"build:{entry.name}"], (entry,))
    if isinstance(job, PypiLockSpec)
]

every_recipe = pytest.mark.parametrize("entry", _ENTRIES, ids=lambda entry: entry.name)
every_lock = pytest.mark.parametrize(("entry", "job"), _LOCKS, ids=lambda part: part.name)


def recipe_of(entry: CatalogueEntry) -> Recipe:
    assert entry.recipe, entry.fault
    return entry.recipe


def module_of(entry: CatalogueEntry) -> Path:
    return entry.root / "recipes" / f"{recipe_of(entry).folder}.py"


@every_recipe
def test_is_well_formed(entry: CatalogueEntry) -> None:
    check_recipe(recipe_of(entry))


@every_recipe
def test_stands_in_module_of_its_name(entry: CatalogueEntry) -> None:
    assert module_of(entry).is_file()


@every_recipe
def test_holds_nothing_but_declarations(entry: CatalogueEntry) -> None:
    documentation, *rest = ast.parse(module_of(entry).read_text()).body

    assert isinstance(documentation, ast.Expr)
    assert [type(node) for node in rest] == [ast.ImportFrom, ast.Assign]
    assert isinstance(rest[0], ast.ImportFrom)
    assert rest[0].module == "cuwheel"


@every_lock
def test_asks_for_the_frontend(entry: CatalogueEntry, job: PypiLockSpec) -> None:
    assert "build" in read_input(job.source).split(), entry.name


@every_lock
def test_input_pins_framework_of_recipe(entry: CatalogueEntry, job: PypiLockSpec) -> None:
    framework = recipe_of(entry).framework
    pinned = [f"{framework.name}=={framework.version}"] if framework else []

    found = [line for line in read_input(job.source).split() if line.startswith("torch=")]

    assert found == pinned


@every_recipe
def test_has_lock_for_each_cuda(entry: CatalogueEntry) -> None:
    recipe = recipe_of(entry)
    majors = {release.split(".")[0] for release in recipe.toolkits}
    found = {job.lock.stem for own, job in _LOCKS if own is entry}

    assert found in ({recipe.folder}, {f"{recipe.folder}-cu{major}" for major in majors})


@every_lock
def test_lock_matches_input(entry: CatalogueEntry, job: PypiLockSpec) -> None:
    assert faults_of_lock(job.lock, job.wanted) == [], entry.name


@every_recipe
def test_patch_folder_holds_patches_of_recipe(entry: CatalogueEntry) -> None:
    recipe = recipe_of(entry)
    folder = entry.root / "patches" / recipe.folder

    found = sorted(path.name for path in folder.glob("*"))

    assert found == [patch.file for patch in recipe.patches]


@every_recipe
def test_patches_say_why(entry: CatalogueEntry) -> None:
    recipe = recipe_of(entry)
    folder = entry.root / "patches" / recipe.folder

    for patch in recipe.patches:
        header, _, _ = (folder / patch.file).read_text().partition("\n--- ")

        assert re.search(r"upstream", header, re.IGNORECASE), f"{patch.file}: upstream status"


@pytest.mark.parametrize("name", ["tiny_skbuild", "tiny_capi", "tiny_rdc"])
def test_tiny_package_has_version_of_its_recipe(name: str) -> None:
    [entry] = [entry for entry in _ENTRIES if recipe_of(entry).folder == name]
    package = ROOT / "tests" / "packages" / name
    version = recipe_of(entry).version

    assert f'\nversion = "{version}"\n' in (package / "pyproject.toml").read_text()
    assert f'\n__version__ = "{version}"\n' in (package / f"src/{name}/__init__.py").read_text()


def test_documents_every_placeholder() -> None:
    documented = re.findall(r"`\{(\w+)\}`", declarations.__doc__ or "")

    assert sorted(documented) == sorted(PLACEHOLDERS)
