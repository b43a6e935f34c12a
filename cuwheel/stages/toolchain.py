"""Stage toolchain: a CUDA home of the target's release, from a lock or from the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.toolchains.provide import provide_toolchain

if TYPE_CHECKING:
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.records import Toolchain


def toolchain(job: Job) -> Toolchain:
    """Make sure that the target's toolchain is there, whole and of the right release.

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
    )
