"""Stage toolchain: a CUDA home of the target's release, from a lock or from the machine."""

from __future__ import annotations

from cuwheel.build.toolchains.from_system import warn_of_other_headers
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Toolchain


def toolchain(job: Job) -> Toolchain:
    """Install the target's toolchain, or check that it is complete and of the right release.

    Raises:
        CuwheelError: as `provide_toolchain`.
    """
    platform = job.target.platform
    made = provide_toolchain(
        job.target.toolkit,
        job.target.provider,
        job.workspace,
        offline=job.settings.offline,
        reads_all=not job.settings.reuse,
        machine=platform.machine if platform.is_foreign else "",
        host_compiler=job.target.host_compiler,
    )
    if made.cxx is None and not platform.is_foreign:
        warn_of_other_headers(made.release, job.workspace)
    return made
