"""The toolkit for a framework's release, its refusals, and the new lock."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import CuwheelError, LockError, PreflightError, RecipeError
from cuwheel.build.environments.framework_release import FrameworkRelease
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.locks.framework_fit import fit_specs, fitting_toolkit, settle_framework
from cuwheel.build.locks.lock_jobs import LockSpec, lock_jobs
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import heard, make_recipe, make_target, make_workspace

OLD, NEW = (Framework(name="torch", version=version) for version in ("2.11.0", "2.15.0"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with two releases of PyTorch in its cache."""
    made = make_workspace(tmp_path)
    folder = made.cache / "frameworks"
    folder.mkdir(parents=True)
    for framework, cuda, pythons in (
        (OLD, "13.0", ("3.10", "3.11", "3.14", "3.14t")),
        (NEW, "13.2", ("3.11", "3.12")),
    ):
        release = FrameworkRelease(
            name="torch",
            version=framework.version,
            cuda=cuda,
            pythons=pythons,
        )
        path = folder / f"torch-{framework.version}.json"
        path.write_text(json.dumps(dataclasses.asdict(release)))
    return made


def recipe_with(*toolkits: str, **changes: Any) -> Recipe:
    return make_recipe(toolkits=toolkits, **{"framework": OLD, **changes})


def target_of(root: Path, framework: Framework, **changes: Any) -> Target:
    usual = {"toolkits": ("13.0", "13.2"), "framework": OLD, "root": root}
    return dataclasses.replace(make_target(**{**usual, **changes}), framework=framework)


def refusal(target: Target, workspace: Workspace, *, offline: bool = False) -> CuwheelError:
    with pytest.raises(CuwheelError) as caught:
        settle_framework(target, workspace, offline=offline)
    return caught.value


def test_takes_toolkit_that_framework_was_built_with(workspace: Workspace, tmp_path: Path) -> None:
    recipe = recipe_with("13.0", "13.2")

    assert fitting_toolkit(recipe, tmp_path, NEW, workspace, offline=False) == "13.2"


def test_takes_toolkit_that_recipe_names_for_it(workspace: Workspace, tmp_path: Path) -> None:
    unknown = Framework(name="torch", version="9.9")
    recipe = recipe_with("13.0", "13.2", framework={"13.0": OLD, "13.2": unknown})

    assert fitting_toolkit(recipe, tmp_path, unknown, workspace, offline=True) == "13.2"


def test_lock_states_toolkit_without_index(workspace: Workspace, tmp_path: Path) -> None:
    lock = tmp_path / "envs" / "build" / "tiny_cuda-torch9.9.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("cuda-toolkit==13.2.2\n")
    framework = Framework(name="torch", version="9.9")

    cuda = fitting_toolkit(
        recipe_with("13.0", "13.2"), tmp_path, framework, workspace, offline=True
    )

    assert cuda == "13.2"


def test_names_field_that_has_to_name_the_toolkit(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        fitting_toolkit(recipe_with("13.0"), tmp_path, NEW, workspace, offline=False)

    assert caught.value.why == "that was built with CUDA 13.2, but the recipe's toolkits are 13.0"
    assert caught.value.fix.startswith('add "13.2" to `toolkits` of recipes/tiny_cuda.py')


def test_refuses_target_of_other_cuda_with_command(workspace: Workspace, tmp_path: Path) -> None:
    error = refusal(target_of(tmp_path, NEW), workspace)

    assert isinstance(error, RecipeError)
    assert error.what == "tiny-cuda-130-cp311-torch2.15: torch==2.15.0 was built with CUDA 13.2"
    assert error.fix.startswith("`nox -s build -- tiny-cuda --framework torch==2.15.0`")


def test_refuses_python_that_framework_has_no_wheel_for(
    workspace: Workspace, tmp_path: Path
) -> None:
    error = refusal(target_of(tmp_path, NEW, toolkit="13.2", python="3.10"), workspace)

    assert error.what.endswith("torch 2.15.0 has no wheel for Python 3.10")
    assert error.fix == "-- --python 3.11"


@pytest.mark.parametrize("framework", [OLD, NEW], ids=["own", "other"])
def test_lock_states_pythons_without_index(tmp_path: Path, framework: Framework) -> None:
    target = target_of(tmp_path, framework, toolkit="13.2", python="3.13")
    target.lock.parent.mkdir(parents=True)
    target.lock.write_text("# pythons  3.11 3.12\n")

    error = refusal(target, make_workspace(tmp_path), offline=True)

    assert error.what.endswith(f"torch {framework.version} has no wheel for Python 3.13")
    assert (error.why, error.fix) == ("the index has it for 3.11, 3.12", "-- --python 3.12")


def test_takes_python_that_lock_names(tmp_path: Path) -> None:
    target = target_of(tmp_path, OLD, python="3.12")
    target.lock.parent.mkdir(parents=True)
    target.lock.write_text("# pythons  3.11 3.12\n")

    settle_framework(target, make_workspace(tmp_path), offline=True)


def test_reports_all_reasons_together(workspace: Workspace, tmp_path: Path) -> None:
    error = refusal(target_of(tmp_path, NEW, python="3.10"), workspace)

    assert isinstance(error, PreflightError)
    assert "CUDA 13.2" in error.why
    assert "Python 3.10" in error.why


def test_reports_offline_what_makes_the_lock(workspace: Workspace, tmp_path: Path) -> None:
    error = refusal(target_of(tmp_path, NEW, toolkit="13.2"), workspace, offline=True)

    assert isinstance(error, LockError)
    assert error.fix == (
        "`nox -s lock -- build:tiny-cuda --framework torch==2.15.0` on a machine with a network"
    )


@pytest.mark.e2e
def test_makes_lock_that_is_missing_and_reports_it(
    lean_workspace: Workspace, tmp_path: Path
) -> None:
    """With the real index: PyTorch 2.12.0 was built with CUDA 13.0."""
    root = tmp_path / "project"
    target = target_of(root, Framework(name="torch", version="2.12.0"))

    settle_framework(target, lean_workspace, offline=False)

    assert pinned_version(root / "envs/build/tiny_cuda-torch2.12.0.lock", "torch") == "2.12.0"
    release = heard(lean_workspace)
    assert "envs/build/tiny_cuda-torch2.12.0.lock was written" in release
    assert "nox -s lock -- build:tiny-cuda --framework torch==2.12.0" in release


def test_takes_what_recipe_names_as_it_is(tmp_path: Path) -> None:
    settle_framework(target_of(tmp_path, OLD), make_workspace(tmp_path), offline=True)


def specs_of(recipe: Recipe, root: Path, framework: Framework) -> tuple[LockSpec, ...]:
    entry = CatalogueEntry(root=root, name=recipe.name, recipe=recipe)
    return lock_jobs(["build:tiny-cuda"], (entry,), framework)


def test_lock_serves_pythons_of_framework(workspace: Workspace, tmp_path: Path) -> None:
    specs = specs_of(recipe_with("13.2"), tmp_path, NEW)

    [fitted] = fit_specs(specs, workspace)

    assert (specs[0].python, fitted.python) == ("3.10", "3.11")
    assert fitted.pythons == ("3.11", "3.12")


def test_refuses_lock_for_other_cuda(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        fit_specs(specs_of(recipe_with("13.0"), tmp_path, NEW), workspace)

    assert caught.value.what == "build:tiny-cuda can't be locked for torch==2.15.0"
    assert "built with CUDA 13.2, and the lock is for a target of CUDA 13.0" in caught.value.why


@pytest.mark.parametrize(("cuda", "is_named"), [("12.6", True), ("12.7", False)])
def test_names_only_toolkits_that_exist(
    workspace: Workspace, tmp_path: Path, cuda: str, *, is_named: bool
) -> None:
    path = workspace.cache / "frameworks" / f"torch-{NEW.version}.json"
    path.write_text(path.read_text().replace("13.2", cuda))

    with pytest.raises(RecipeError) as caught:
        fit_specs(specs_of(recipe_with("13.0"), tmp_path, NEW), workspace)

    assert ("`toolkits`" in caught.value.fix) == is_named


@pytest.mark.parametrize(("toolkit", "is_refused"), [("13.0", False), ("12.8", True)])
def test_release_served_by_stable_abi_needs_the_same_cuda_major(
    workspace: Workspace, tmp_path: Path, toolkit: str, *, is_refused: bool
) -> None:
    stable = dataclasses.replace(OLD, serves=(NEW.version,))
    specs = specs_of(recipe_with(toolkit, framework=stable), tmp_path, NEW)

    if is_refused:
        with pytest.raises(RecipeError, match="built with CUDA 13"):
            fit_specs(specs, workspace)
    else:
        assert fit_specs(specs, workspace)


def test_refuses_lock_for_cuda_of_another_framework(workspace: Workspace, tmp_path: Path) -> None:
    recipe = recipe_with("13.0", "13.2", framework={"13.0": NEW, "13.2": OLD})

    with pytest.raises(RecipeError, match=r"can't be locked for torch==2\.15\.0"):
        fit_specs(specs_of(recipe, tmp_path, NEW), workspace)
