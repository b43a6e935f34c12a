"""The early check: every reason why a build can't work, found before anything is downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.build.checks import (
    check_disk,
    check_dist,
    check_driver,
    check_folder_names,
    check_platform,
    check_python,
    check_system_packages,
)
from cuwheel.build.compile_cache.choice import check_compile_cache
from cuwheel.build.link_flags import check_linkable
from cuwheel.cuda.components import component_by_name
from cuwheel.cuda.toolkits import check_archs
from cuwheel.errors import CuwheelError, SourceError
from cuwheel.locks.jobs import check_target_lock
from cuwheel.model.link import External
from cuwheel.pypi.lock_file import pinned_version
from cuwheel.toolchains.host_compiler import check_host_compiler
from cuwheel.workspace.problems import Problem, problem_of, raise_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuwheel.workspace.job import Job


def check_early(job: Job) -> None:
    """Hold the target against this machine, its locks and its folders.

    Raises:
        PreflightError: with every problem found, each with its cause and fix.
        CuwheelError: the one problem, where an error of its own says it.
    """
    checks: tuple[Callable[[Job], list[Problem]], ...] = (
        _check_machine,
        check_platform,
        check_python,
        _check_archs,
        check_host_compiler,
        check_driver,
        check_system_packages,
        check_disk,
        check_folder_names,
        check_dist,
        _check_lock,
        _check_given_source,
        _check_smoke_script,
        check_linkable,
        check_compile_cache,
    )
    raise_problems((problem for check in checks for problem in check(job)), job.target.id)
    _warn_of_suppliers(job)


def _check_machine(job: Job) -> list[Problem]:
    """What was asked for and isn't there: a Python, a kind of sandbox."""
    return [problem_of(fault) for fault in job.machine.faults]


def _check_archs(job: Job) -> list[Problem]:
    try:
        check_archs(job.target.id, job.target.toolkit, job.target.archs)
    except CuwheelError as error:
        return [problem_of(error)]
    return []


def _check_lock(job: Job) -> list[Problem]:
    try:
        check_target_lock(job.target)
    except CuwheelError as error:
        return [problem_of(error)]
    return []


def _check_given_source(job: Job) -> list[Problem]:
    given = job.target.source_override
    if given is None or given.is_dir() or given.is_file():
        return []
    error = SourceError(
        f"{given} doesn't exist",
        why="--source names it, relative to the folder in which nox was started",
        fix="give a folder with pyproject.toml or setup.py, or an archive of one",
    )
    return [problem_of(error)]


def _check_smoke_script(job: Job) -> list[Problem]:
    """It is run at the very end."""
    script = job.target.smoke_script
    if script is None or script.is_file():
        return []
    return [
        Problem(
            what=f"the smoke test {script.name} is missing",
            why=f"`smoke` in {job.target.recipe.module} names it, and {script} doesn't exist",
            fix="write it, or remove `script` from the recipe",
        )
    ]


def _warn_of_suppliers(job: Job) -> None:
    """What the wheel will require should be in the lock that it is tried with at the end.

    A warning, as what the recipe declares and no library needs is not required.
    """
    target, lock = job.target, job.target.smoke_lock
    linked = [
        component_by_name(name, target.toolkit.major) for name in target.recipe.link.components
    ]
    required = [
        component.distribution
        for component in linked
        if component.cuda is None or isinstance(target.mode, External)
    ]
    lacking = [name for name in dict.fromkeys(required) if pinned_version(lock, name) is None]
    if lacking:
        job.workspace.console.warn(
            "the finished wheel may fail its smoke test: the recipe's `link` can make it require "
            f"{', '.join(lacking)}, and {target.locked_smoke.path} has none of them; "
            f"{target.locked_smoke.way_to_add(*lacking)}"
        )
