"""The fit of a framework's release with a toolkit, a Python and a recipe; and its lock.

A framework's release is built with one release of CUDA. Its lock states which, and without a lock
the package index does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.base.errors import LockError, RecipeError
from cuwheel.base.system.versions import version_key
from cuwheel.build.environments.lock_file import cuda_of_lock, pythons_of_lock
from cuwheel.build.locks.lock_jobs import LockSpec, spec_of
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.recipe_lock import RecipeLock, lock_of
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.problems import raise_problems
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import TOOLKITS

if TYPE_CHECKING:  # it loads requests
    from cuwheel.build.environments.framework_release import FrameworkRelease


def fitting_toolkit(
    recipe: Recipe, root: Path, framework: Framework, workspace: Workspace, *, offline: bool
) -> str:
    """Return the recipe's CUDA release that a framework's release was built with, `13.2`.

    Raises:
        RecipeError: the recipe doesn't name that CUDA release, or there is no such framework.
        LockError: only the index has it, and the build is offline.
        DownloadError: the index can't be reached.
    """
    for release in recipe.toolkits:
        if recipe.framework_for(release) == framework:
            return release
    cuda = _cuda_of(recipe, root, framework, workspace, offline=offline)
    if cuda in recipe.toolkits:
        return cuda
    built = f"with CUDA {cuda}" if cuda else "with no CUDA that its requirements name"
    raise RecipeError(
        f"{recipe.name} can't be built for {framework.pin}",
        why=f"that was built {built}, but the recipe's toolkits are {', '.join(recipe.toolkits)}",
        fix=_declaration_fix(recipe, framework, cuda),
    )


def settle_framework(target: Target, workspace: Workspace, *, offline: bool) -> None:
    """Check that the target's framework fits it, and write its lock if that is missing.

    A lock states CUDA release and Pythons of its framework; the index is queried without one. The
    CUDA release of a recipe's own framework was checked when its lock was written.

    Raises:
        RecipeError: it doesn't fit: another CUDA release, no wheel for the Python.
        PreflightError: for several such reasons.
        LockError: the lock is missing, and the build is offline.
        CuwheelError: the index can't be reached, or nothing satisfies the lock's input.
    """
    framework = target.framework
    if framework is None:
        return
    pythons = pythons_of_lock(target.lock)
    if framework == target.recipe.framework_for(target.toolkit.release):
        _refuse_misfit(target, framework, "", pythons)
        return
    missing = [
        declared
        for declared in dict.fromkeys((target.locked_build, target.locked_smoke))
        if not (target.root / declared.path).is_file()
    ]
    if missing and offline:
        raise _unlocked(missing[0], target.id)
    if not missing:
        _refuse_misfit(target, framework, cuda_of_lock(target.lock), pythons)
        return
    release = _read_release(framework, workspace)
    _refuse_misfit(target, framework, release.cuda, release.pythons)
    from cuwheel.build.locks.resolve import resolve_locks  # noqa: PLC0415 - as `_read_release`

    for declared in missing:
        spec = _for_release(spec_of(declared, target.root), release)
        resolve_locks((spec,), workspace)
        workspace.console.note(
            f"there was no lock for {framework.pin}: {declared.path} was written, as by "
            f"`{declared.command}`; `git add {declared.path}` keeps the pin"
        )


def python_fault(framework: Framework, python: str, workspace: Workspace, *, offline: bool) -> str:
    """Return why a release of a framework can't be used with a Python, `3.14`; empty: it can.

    It is empty too if only the index has the answer and the build is offline.

    Raises:
        CuwheelError: the index can't be reached, or has no such release.
    """
    record = workspace.cache / "frameworks" / f"{framework.name}-{framework.version}.json"
    if offline and not record.is_file():
        return ""
    pythons = _read_release(framework, workspace).pythons
    if python in pythons:
        return ""
    return f"{framework.pin} has no wheel for Python {python}, only for {', '.join(pythons)}"


def fit_specs(specs: tuple[LockSpec, ...], workspace: Workspace) -> tuple[LockSpec, ...]:
    """Return locks for the Pythons that their frameworks' releases have wheels for.

    Raises:
        RecipeError: a release was built with a CUDA that the recipe doesn't name, or there is
            no such release.
        DownloadError: the index can't be reached.
    """
    return tuple(_fit(spec, workspace) for spec in specs)


def _fit(spec: LockSpec, workspace: Workspace) -> LockSpec:
    declared = spec.source
    if not isinstance(declared, RecipeLock):
        return spec
    framework, recipe = declared.framework, declared.recipe
    if framework is None:
        return spec
    release = _read_release(framework, workspace)
    toolkits = [
        toolkit
        for toolkit in recipe.toolkits
        if recipe.framework_for(toolkit) == framework or framework not in recipe.frameworks
    ]
    if release.cuda and not any(
        _is_compatible(release.cuda, toolkit, framework, recipe) for toolkit in toolkits
    ):
        fix = f"choose a {framework.name} that was built with CUDA {' or '.join(toolkits)}"
        if _is_known(release.cuda):
            fix += f', or add "{release.cuda}" to `toolkits` in {recipe.module}'
        raise RecipeError(
            f"{spec.name} can't be locked for {framework.pin}",
            why=f"that was built with CUDA {release.cuda}, and the lock is for a target of CUDA "
            f"{' or '.join(toolkits)}",
            fix=fix,
        )
    return _for_release(spec, release)


def _is_compatible(cuda: str, toolkit: str, framework: Framework, recipe: Recipe) -> bool:
    """Return True if a framework's CUDA release fits a toolkit; a stable ABI needs its major."""
    declared = recipe.framework_for(toolkit)
    if declared and framework in declared.served:
        return cuda.split(".", maxsplit=1)[0] == toolkit.split(".", maxsplit=1)[0]
    return cuda == toolkit


def _for_release(spec: LockSpec, release: FrameworkRelease) -> LockSpec:
    oldest = max(spec.python, release.oldest_python, key=version_key)
    return replace(spec, python=oldest, pythons=release.pythons)


def _cuda_of(
    recipe: Recipe, root: Path, framework: Framework, workspace: Workspace, *, offline: bool
) -> str:
    majors = dict.fromkeys(int(release.split(".")[0]) for release in recipe.toolkits)
    locks = [lock_of(recipe, "build", major, framework) for major in majors]
    for lock in locks:
        if cuda := cuda_of_lock(root / lock.path):
            return cuda
    if offline:
        raise _unlocked(locks[0], recipe.name)
    return _read_release(framework, workspace).cuda


def _read_release(framework: Framework, workspace: Workspace) -> FrameworkRelease:
    # Most builds query no index: they needn't load its reader.
    from cuwheel.build.environments.framework_release import read_framework_release  # noqa: PLC0415

    return read_framework_release(framework.name, framework.version, workspace)


def _unlocked(declared: RecipeLock, subject: str) -> LockError:
    return LockError(
        f"{subject}: the lock {declared.path} is missing",
        why="writing it needs the package index, and --offline is set",
        fix=f"`{declared.command}` on a machine with a network",
    )


def _refuse_misfit(
    target: Target, framework: Framework, cuda: str, pythons: tuple[str, ...]
) -> None:
    """Refuse another CUDA release than the target's, or a Python without a wheel.

    Args:
        cuda: of the framework's release; empty: not known.
        pythons: that it has wheels for; none: not known.
    """
    recipe, release = target.recipe, target.toolkit.release
    errors = []
    if cuda not in {"", release}:
        command = f"`nox -s build -- {recipe.name} --framework {framework.pin}` uses CUDA {cuda}"
        is_declared = cuda in recipe.toolkits
        line = (
            f"{framework.name}=={framework.version.partition('+')[0]}+cu{release.replace('.', '')}"
        )
        errors.append(
            RecipeError(
                f"{target.id}: {framework.pin} was built with CUDA {cuda}",
                why=f"the target is for CUDA {release}; two CUDA releases in one process lead to "
                "undefined symbols",
                fix=(command if is_declared else _declaration_fix(recipe, framework, cuda))
                + f"; for CUDA {release}: -- --framework {line}, if PyTorch publishes it",
            )
        )
    if pythons and target.python not in pythons:
        # The oldest that is newer, else the newest.
        plain = [python for python in pythons if not python.endswith("t")] or [*pythons]
        wanted = version_key(target.python)
        near = next((python for python in plain if version_key(python) >= wanted), plain[-1])
        name = f"{framework.name} {framework.version}"
        errors.append(
            RecipeError(
                f"{target.id}: {name} has no wheel for Python {target.python}",
                why=f"the index has it for {', '.join(pythons)}",
                fix=f"-- --python {near}",
            )
        )
    raise_problems(errors, target.id)


def _is_known(cuda: str) -> bool:
    return any(toolkit.release == cuda for toolkit in TOOLKITS)


def _declaration_fix(recipe: Recipe, framework: Framework, cuda: str) -> str:
    """Return how to build a recipe with a CUDA release that it doesn't name."""
    if not _is_known(cuda):
        return f"use a {framework.name} for CUDA {', '.join(recipe.toolkits)}"
    command = f"`nox -s build -- {recipe.name} --framework {framework.pin}`"
    by_toolkit = [
        field for field in ("archs", "framework") if isinstance(getattr(recipe, field), Mapping)
    ]
    places = [f"`{field}`" for field in ("toolkits", *by_toolkit)]
    return f'add "{cuda}" to {" and ".join(places)} of {recipe.module}, then {command}'
