"""Stage toolchain: a CUDA home of the target's release, from a lock or from the machine."""

from __future__ import annotations

from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Toolchain


def toolchain(job: Job) -> Toolchain:
    """Install the target's toolchain, or check that it is complete and of the right release.

    Raises:
        CuwheelError: as `provide_toolchain`.
    """
    platform = job.target.platform
    return provide_toolchain(
        job.target.toolkit,
        job.target.provider,
        job.workspace,
        offline=job.settings.offline,
        reads_all=not job.settings.reuse,
        machine=platform.machine if platform.is_foreign else "",
        host_compiler=job.target.host_compiler,
    )
