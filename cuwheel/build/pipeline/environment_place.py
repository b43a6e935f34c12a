"""Where a job's build environment is, or will be."""

from __future__ import annotations

from cuwheel.base.system.pythons import Interpreter
from cuwheel.build.environments.build_environment import EnvironmentPlace, place_environment
from cuwheel.build.workspace.job import Job


def environment_of(job: Job, python: Interpreter) -> EnvironmentPlace:
    """Return the place of a job's build environment for a Python.

    Raises:
        OSError: the target has no lock.
        InvalidRequirement: a line of the lock is no requirement.
    """
    return place_environment(
        job.target.lock,
        python,
        job.workspace.cache,
        framework=job.target.framework_tag,
        sandbox=job.machine.sandbox or "none",
    )
