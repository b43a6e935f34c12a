"""Every recipe, ours and those of the tests, against the engine and the files around it."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.environments.lock_file import cuda_of_lock, faults_of_lock
from cuwheel.build.locks.lock_jobs import LockSpec, lock_jobs
from cuwheel.build.recipe import recipe as declarations
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.build.recipe.recipe import CUDA_PLACEHOLDERS, PLACEHOLDERS, Recipe
from cuwheel.build.recipe.recipe_check import check_recipe
from cuwheel.build.recipe.recipe_lock import RecipeLock, lock_of
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.check.cuda.toolkits import toolkit_by_release
from cuwheel.check.explain.catalogue import causes
from cuwheel.cli.target_choice import choose_target
from tests.support.factories import make_workspace

_PROJECTS = (ROOT, ROOT / "tests" / "project")
_ENTRIES = [entry for root in _PROJECTS for entry in load_catalogue([root])]

_LOCKS = [
    (entry, job)
    for entry in _ENTRIES
    for job in lock_jobs(["all"], (entry,))
    if isinstance(job.source, RecipeLock)
]

every_recipe = pytest.mark.parametrize("entry", _ENTRIES, ids=lambda entry: entry.name)
every_lock = pytest.mark.parametrize(("entry", "job"), _LOCKS, ids=lambda part: part.name)


# Probes without a grid, and why.
_WITHOUT_GRID = {"jaxmg.py": "its wheel has no kernels: cuSOLVERMg's run, on several GPUs"}


def recipe_of(entry: CatalogueEntry) -> Recipe:
    assert entry.recipe, entry.fault
    return entry.recipe


def module_of(entry: CatalogueEntry) -> Path:
    return entry.root / "recipes" / f"{recipe_of(entry).folder}.py"


@every_recipe
def test_is_well_formed(entry: CatalogueEntry) -> None:
    recipe = recipe_of(entry)
    script = recipe.smoke.script
    path = entry.root / "recipes" / "smoke" / script
    declared = recipe.library_per_cuda

    check_recipe(recipe)

    assert not script or compile(path.read_text(), path, "exec")
    assert declared is None or declared.explained in ("", *causes())


@every_recipe
def test_holds_nothing_but_declarations_in_order(entry: CatalogueEntry) -> None:
    """A reader finds the same thing at the same place in every recipe."""
    documentation, *rest = ast.parse(module_of(entry).read_text()).body

    assert isinstance(documentation, ast.Expr)
    imports, recipe = rest
    assert isinstance(imports, ast.ImportFrom)
    assert imports.module == "cuwheel"
    assert isinstance(recipe, ast.Assign)
    assert isinstance(recipe.value, ast.Call)
    order = [field.name for field in dataclasses.fields(Recipe)]
    declared = [keyword.arg for keyword in recipe.value.keywords if keyword.arg]
    assert declared == sorted(declared, key=order.index)


@every_recipe
def test_archs_are_only_asked_for_where_there_is_device_code(
    entry: CatalogueEntry, tmp_path: Path
) -> None:
    recipe = recipe_of(entry)
    request = BuildRequest(targets=(entry.name,), arch=("90",), host_compiler="system")

    target = choose_target(
        entry, recipe.toolkits[0].replace(".", ""), "3.12", request, make_workspace(tmp_path)
    )

    assert target.archs == (("90",) if recipe.archs else ())


@every_lock
def test_lock_matches_recipe(entry: CatalogueEntry, job: LockSpec) -> None:
    assert faults_of_lock(job.lock, job.input_text) == [], entry.name


@every_recipe
def test_framework_was_built_with_toolkit(entry: CatalogueEntry) -> None:
    recipe = recipe_of(entry)
    locks = {
        release: lock_of(recipe, "build", int(release.split(".")[0]), framework)
        for release in recipe.toolkits
        if (framework := recipe.framework_for(release))
    }

    built_with = {release: cuda_of_lock(entry.root / lock.path) for release, lock in locks.items()}

    assert built_with == {release: release for release in locks}


@pytest.mark.parametrize("root", _PROJECTS, ids=lambda root: root.name)
def test_every_lock_is_of_a_recipe(root: Path) -> None:
    found = {path for kind in ("build", "smoke") for path in (root / "envs" / kind).glob("*")}

    assert found == {job.lock for _, job in _LOCKS if root in job.lock.parents[2:3]}


@every_recipe
def test_patch_folder_holds_patches_of_recipe_that_say_why(entry: CatalogueEntry) -> None:
    recipe = recipe_of(entry)
    paths = sorted((entry.root / "patches" / recipe.folder).glob("*"))

    assert [path.name for path in paths] == [patch.file for patch in recipe.patches]
    for path in paths:
        header, _, _ = path.read_text().partition("\n--- ")
        assert re.search(r"upstream", header, re.IGNORECASE), f"{path.name}: upstream status"


@pytest.mark.parametrize("root", _PROJECTS, ids=lambda root: root.name)
def test_every_smoke_test_is_of_a_recipe(root: Path) -> None:
    found = {path.name for path in (root / "recipes" / "smoke").glob("*.py")}

    declared = {recipe_of(entry).smoke.script for entry in _ENTRIES if entry.root == root}
    assert found == declared - {""}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "recipes" / "perf").glob("*.py")), ids=lambda path: path.name
)
def test_every_probe_has_a_grid_and_says_what_it_leaves_out(path: Path) -> None:
    values = assigned(path)
    calls = {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    }

    has_grid = {"GRIDS", "UNTOUCHED"} <= values.keys()
    assert has_grid != (path.name in _WITHOUT_GRID)
    if has_grid:
        assert ast.literal_eval(values["UNTOUCHED"])
        assert calls & {"cases_of", "grid_cases"}


def assigned(path: Path) -> dict[str, ast.expr]:
    """The values of a module's names; its own imports need a GPU's environment."""
    return {
        node.targets[0].id: node.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def test_every_probe_imports_only_what_is_there() -> None:
    """A probe runs among its package's requirements; of the engine it has three modules."""
    known = {path.stem for path in (ROOT / "cuwheel" / "lab" / "perf" / "runner").glob("*.py")}
    for path in (ROOT / "recipes" / "perf").glob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        found = {node.module for node in nodes if isinstance(node, ast.ImportFrom)} & known
        assert found <= {"attention", "grid", "perf_case"}, path.name


@pytest.mark.parametrize("name", ["tiny_skbuild", "tiny_capi", "tiny_rdc"])
def test_tiny_package_has_version_of_its_recipe(name: str) -> None:
    [entry] = [entry for entry in _ENTRIES if recipe_of(entry).folder == name]
    package = ROOT / "tests" / "packages" / name
    version = recipe_of(entry).version

    assert f'\nversion = "{version}"\n' in (package / "pyproject.toml").read_text()
    assert f'\n__version__ = "{version}"\n' in (package / f"src/{name}/__init__.py").read_text()


def test_documents_every_placeholder() -> None:
    documented = re.findall(r"`\{(\w+)\}`", declarations.__doc__ or "")

    assert set(documented) == {*PLACEHOLDERS, *CUDA_PLACEHOLDERS}


def test_says_what_was_never_built() -> None:
    """A toolchain whose files nobody has fetched has made no wheel; what is recorded was made."""
    made = json.loads((ROOT / "docs" / "reproducibility.json").read_text())
    for entry in load_catalogue([ROOT]):
        recipe = entry.recipe
        assert recipe is not None
        for name, release in zip(entry.target_names, recipe.toolkits, strict=True):
            toolkit = toolkit_by_release(release)
            is_never = release in recipe.never_built
            if toolkit.provider == "conda":
                lock = ROOT / "envs" / f"cuda{toolkit.tag}" / "conda-lock.yml"
                is_unread = "files: 'not fetched" in lock.read_text()
                assert is_never == is_unread, name
            assert not (is_never and any(one.startswith(f"{name}-") for one in made)), name
