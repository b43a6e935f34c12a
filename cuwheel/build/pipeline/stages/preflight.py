"""Stage preflight: the checks that need source, toolchain or environment, before any compile."""

from __future__ import annotations

from cuwheel.build.pipeline.checks import check
from cuwheel.build.toolchains.host_compiler import (
    host_compiler,
    is_pinned,
    unused_settings,
)
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Preflight


def preflight(job: Job) -> Preflight:
    """Check the earlier stages' output against the target, and choose the host compiler.

    Raises:
        CuwheelError: as `check`.
    """
    check(job, "preflight")
    workspace, compiler = job.workspace, host_compiler(job)
    if unused := unused_settings(workspace, workspace.environ):
        workspace.console.note(
            f"{', '.join(unused)} of your environment: not used, because the toolchain has its own "
            "compilers"
        )
    return Preflight(
        host_compiler=compiler.cxx if compiler else None,
        c_compiler=compiler.cc if compiler else None,
        host_compiler_version=compiler.banner if compiler else "",
        jobs=job.settings.jobs or job.machine.cores,
        host_compiler_pinned=is_pinned(workspace),
    )
