"""Checks of a command line against the recipe: an impossible request leaves no record.

Imports little, as builds that have nothing to do start with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from packaging.requirements import Requirement

from cuwheel.base.errors import CuwheelError, SourceError, UsageError
from cuwheel.base.system.versions import plain_release
from cuwheel.build.recipe.cells import is_cell, pythons_of
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.problems import problems_of
from cuwheel.check.cuda.toolkits import check_archs


def is_impossible(job: Job) -> bool:
    """Return True if no machine can carry out the command line; the early check says why."""
    is_unknown = job.machine.python is None and not is_cell(job.target)
    checks = (check_release, check_target_archs, check_source_override)
    return is_unknown or any(True for _ in problems_of(partial(check, job) for check in checks))


def check_release(job: Job) -> Iterator[CuwheelError]:
    """Check that the recipe has wheels for that Python, which this machine needn't have."""
    target, python = job.target, job.machine.python
    recipe, version = target.recipe, python.version if python else plain_release(target.python)
    if not Requirement(f"x{recipe.requires_python}").specifier.contains(version):
        known = pythons_of(recipe)
        yield UsageError(
            f"Python {version} is not supported by the recipe of {recipe.name}",
            why=f"its `requires_python` is {recipe.requires_python}",
            fix="choose another one with -- --python" + f": {', '.join(known)}" * bool(known),
        )


def check_target_archs(job: Job) -> None:
    """Raise RecipeError where the toolkit's nvcc doesn't compile for an arch."""
    target = job.target
    check_archs(target.id, target.toolkit, target.archs)


def check_source_override(job: Job) -> Iterator[CuwheelError]:
    """Check that the source of `--source` is there."""
    source = job.target.source_override
    if source and not source.is_dir() and not source.is_file():
        yield SourceError(
            f"{source} doesn't exist",
            why="--source names it, relative to the working directory",
            fix="give a folder with pyproject.toml or setup.py, or an archive of one",
        )
