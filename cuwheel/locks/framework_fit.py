"""Whether a release of a framework goes with a toolkit, a Python and a recipe; and its lock.

A framework's release is built with one release of CUDA. Its lock says with which, and where there
is none, the package index does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cuwheel.cuda.toolkits import TOOLKITS
from cuwheel.errors import FrameworkError, LockError
from cuwheel.locks.jobs import PypiLockSpec, spec_of
from cuwheel.model.recipe_lock import RecipeLock, lock_of
from cuwheel.pypi.lock_file import cuda_of_lock, pythons_of_lock
from cuwheel.system.versions import version_key
from cuwheel.system.whole_files import read_text
from cuwheel.workspace.problems import problem_of, raise_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuwheel.errors import CuwheelError
    from cuwheel.locks.jobs import CondaLockSpec
    from cuwheel.model.recipe import Framework, Recipe
    from cuwheel.model.target import Target
    from cuwheel.pypi.framework_release import FrameworkRelease
    from cuwheel.workspace.workspace import Workspace


def fitting_toolkit(
    recipe: Recipe, root: Path, framework: Framework, workspace: Workspace, *, offline: bool
) -> str:
    """The CUDA release among the recipe's that a release of its framework was built with, `13.2`.

    Args:
        recipe: the package.
        root: its project folder.
        framework: the release that is asked for.
        workspace: its cache keeps what the index says.
        offline: the index may not be asked.

    Raises:
        FrameworkError: the recipe doesn't name that CUDA release, or there is no such framework.
        LockError: only the index could say, and it may not be asked.
        DownloadError: the index can't be reached.
    """
    for release in recipe.toolkits:
        if recipe.framework_for(release) == framework:
            return release
    cuda = _cuda_of(recipe, root, framework, workspace, offline=offline)
    if cuda in recipe.toolkits:
        return cuda
    built = f"with CUDA {cuda}" if cuda else "with no CUDA that its requirements name"
    raise FrameworkError(
        f"{recipe.name} can't be built for {framework.pin}",
        why=f"that was built {built}, but the recipe's toolkits are {', '.join(recipe.toolkits)}",
        fix=_way_to_declare(recipe, root, framework, cuda),
    )


def settle_framework(target: Target, workspace: Workspace, *, offline: bool) -> None:
    """See that the target's framework goes with it, and make its lock where that is missing.

    A lock says for which CUDA release and which Pythons its framework is; the index is asked where
    there is none. The CUDA release of what a recipe names itself was looked at when its lock was
    made.

    Raises:
        FrameworkError: it doesn't fit: another CUDA release, no wheel for the Python.
        PreflightError: for several such reasons.
        LockError: the lock is missing and may not be made.
        CuwheelError: the index can't be reached, or nothing satisfies what the lock has to hold.
    """
    framework = target.framework
    if framework is None:
        return
    pythons = pythons_of_lock(target.lock)
    if framework == target.recipe.framework_for(target.toolkit.release):
        _refuse(target, _python_faults(target, framework, pythons))
        return
    missing = [
        declared
        for declared in dict.fromkeys((target.locked_build, target.locked_smoke))
        if not (target.root / declared.path).is_file()
    ]
    if missing and offline:
        raise _unlocked(missing[0], target.id)
    if not missing:
        cuda_faults = _cuda_faults(target, framework, cuda_of_lock(target.lock))
        _refuse(target, (*cuda_faults, *_python_faults(target, framework, pythons)))
        return
    release = _read_release(framework, workspace)
    newest = dict(release.newest_for).get(target.python, "")
    python_faults = _python_faults(target, framework, release.pythons, newest)
    _refuse(target, (*_cuda_faults(target, framework, release.cuda), *python_faults))
    from cuwheel.locks.resolve import resolve_locks  # noqa: PLC0415 - as `_read_release`

    for declared in missing:
        spec = _serving(spec_of(declared, target.root), release)
        resolve_locks((spec,), workspace)
        workspace.console.note(
            f"there was no lock for {framework.pin}: {declared.path} was written, as by "
            f"`{declared.command}`; `git add {declared.path}` keeps the pin"
        )


def python_fault(framework: Framework, python: str, workspace: Workspace, *, offline: bool) -> str:
    """Why a release of a framework can't be used with a Python, `3.14`; empty: it can.

    It is empty too where only the index could say, and it may not be asked.

    Raises:
        CuwheelError: the index can't be reached, or has no such release.
    """
    kept = workspace.cache / "frameworks" / f"{framework.name}-{framework.version}.json"
    if offline and not kept.is_file():
        return ""
    pythons = _read_release(framework, workspace).pythons
    if python in pythons:
        return ""
    return f"{framework.pin} has no wheel for Python {python}, only for {', '.join(pythons)}"


def fit_specs(
    specs: tuple[PypiLockSpec | CondaLockSpec, ...], workspace: Workspace
) -> tuple[PypiLockSpec | CondaLockSpec, ...]:
    """Locks as their frameworks' releases allow: for the Pythons that these have wheels for.

    Raises:
        FrameworkError: a release was built with a CUDA that the recipe doesn't name, or there is
            no such release.
        DownloadError: the index can't be reached.
    """
    return tuple(_fit(spec, workspace) for spec in specs)


def _fit(spec: PypiLockSpec | CondaLockSpec, workspace: Workspace) -> PypiLockSpec | CondaLockSpec:
    declared = spec.source
    if not isinstance(spec, PypiLockSpec) or not isinstance(declared, RecipeLock):
        return spec
    framework, recipe = declared.framework, declared.recipe
    if framework is None:
        return spec
    release = _read_release(framework, workspace)
    served = [
        one
        for one in recipe.toolkits
        if recipe.framework_for(one) == framework or framework not in recipe.frameworks
    ]
    if release.cuda and not any(_goes_with(release.cuda, one, framework, recipe) for one in served):
        raise FrameworkError(
            f"{spec.name} can't be locked for {framework.pin}",
            why=f"that was built with CUDA {release.cuda}, and the lock is for a target of CUDA "
            f"{' or '.join(served)}",
            fix=f"choose a {framework.name} that was built with CUDA {' or '.join(served)}, or "
            f'add "{release.cuda}" to `toolkits` in {recipe.module}',
        )
    return _serving(spec, release)


def _goes_with(cuda: str, toolkit: str, framework: Framework, recipe: Recipe) -> bool:
    """Whether a framework's CUDA release is a toolkit's; a stable ABI asks for its major alone."""
    own = recipe.framework_for(toolkit)
    if own and framework in own.served:
        return cuda.split(".", maxsplit=1)[0] == toolkit.split(".", maxsplit=1)[0]
    return cuda == toolkit


def _serving(spec: PypiLockSpec, release: FrameworkRelease) -> PypiLockSpec:
    oldest = max(spec.python, release.oldest_python, key=version_key)
    return replace(spec, python=oldest, pythons=release.pythons)


def _cuda_of(
    recipe: Recipe, root: Path, framework: Framework, workspace: Workspace, *, offline: bool
) -> str:
    majors = dict.fromkeys(int(release.split(".")[0]) for release in recipe.toolkits)
    declared = [lock_of(recipe, "build", major, framework) for major in majors]
    locked = (cuda_of_lock(root / one.path) for one in declared)
    if cuda := next(filter(None, locked), ""):
        return cuda
    if offline:
        raise _unlocked(declared[0], recipe.name)
    return _read_release(framework, workspace).cuda


def _read_release(framework: Framework, workspace: Workspace) -> FrameworkRelease:
    # Most builds ask no index: they needn't load what does.
    from cuwheel.pypi.framework_release import read_framework_release  # noqa: PLC0415

    name, version = framework.name, framework.version
    return read_framework_release(name, version, cache=workspace.cache)


def _unlocked(declared: RecipeLock, subject: str) -> LockError:
    return LockError(
        f"{subject}: the lock {declared.path} is missing",
        why="writing it needs the package index, and --offline is set",
        fix=f"`{declared.command}` on a machine with a network",
    )


def _cuda_faults(target: Target, framework: Framework, cuda: str) -> Iterator[CuwheelError]:
    """Another CUDA release than the target's; a framework that names none passes."""
    recipe, release = target.recipe, target.toolkit.release
    if cuda in {"", release}:
        return
    way = f"`nox -s build -- {recipe.name} --framework {framework.pin}` uses CUDA {cuda}"
    yield FrameworkError(
        f"{target.id}: {framework.pin} was built with CUDA {cuda}",
        why=f"the target is for CUDA {release}; two CUDA releases in one process lead to "
        "undefined symbols",
        fix=way
        if cuda in recipe.toolkits
        else _way_to_declare(recipe, target.root, framework, cuda),
    )


def _python_faults(
    target: Target, framework: Framework, pythons: tuple[str, ...], newest: str = ""
) -> Iterator[CuwheelError]:
    """A Python that the framework has no wheel for; where it isn't known for which, all pass."""
    if not pythons or target.python in pythons:
        return
    named = f"{framework.name} {framework.version}"
    other = f", or --framework {framework.name}=={newest}, the newest that has one"
    yield FrameworkError(
        f"{target.id}: {named} has no wheel for Python {target.python}",
        why=f"the index has it for {', '.join(pythons)}",
        fix=f"-- --python {_nearest(target.python, pythons)}{other if newest else ''}",
    )


def _refuse(target: Target, faults: Iterable[CuwheelError]) -> None:
    raise_problems(map(problem_of, faults), target.id)


def _nearest(python: str, known: tuple[str, ...]) -> str:
    """The oldest that is newer, else the newest."""
    plain = [one for one in known if not one.endswith("t")] or [*known]
    asked = version_key(python)
    return next((one for one in plain if version_key(one) >= asked), plain[-1])


def _way_to_declare(recipe: Recipe, root: Path, framework: Framework, cuda: str) -> str:
    """How a recipe comes to be built with a CUDA release that it doesn't name."""
    if all(toolkit.release != cuda for toolkit in TOOLKITS):
        return f"use a {framework.name} for CUDA {', '.join(recipe.toolkits)}"
    again = f"`nox -s build -- {recipe.name} --framework {framework.pin}`"
    named = [one for one in ("archs", "framework") if isinstance(getattr(recipe, one), Mapping)]
    lines = [f"`{one}`{_line_of(root / recipe.module, one)}" for one in ("toolkits", *named)]
    return f'add "{cuda}" to {" and ".join(lines)} of {recipe.module}, then {again}'


def _line_of(module: Path, field: str) -> str:
    """` (line 18)` of a recipe's module; nothing where it can't be read."""
    try:
        lines = read_text(module).splitlines()
    except OSError:
        return ""
    found = (n for n, line in enumerate(lines, 1) if re.match(rf"\s+{field}=", line))
    return next((f" (line {number})" for number in found), "")
