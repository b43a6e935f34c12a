"""The compiler that nvcc hands host code to: which one it is, and whether this nvcc supports it."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from cuwheel.system.compilers import SYSTEM_PATH, newest_gcc_for, read_compiler
from cuwheel.workspace.problems import Problem
from cuwheel.workspace.records import Toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.system.compilers import HostCompiler
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


# What people set to choose a compiler; a toolchain that has its own takes nothing from them.
_CHOOSING = (
    "CC",
    "CXX",
    "CUDAHOSTCXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "NVCC_PREPEND_FLAGS",
)


def check_host_compiler(job: Job) -> list[Problem]:
    """Find a GCC that this nvcc supports.

    Where the toolchain brings one, there is nothing to check: it isn't there without a GCC that its
    nvcc takes (`conda_layout.check_own_compiler`).
    """
    return [] if _brings_compiler(job) else _check_system_compilers(job)


def host_compiler(job: Job) -> HostCompiler | None:
    """The GCC that the build will use; None while the toolchain that brings it isn't there.

    It is for a machine that `check_host_compiler` found nothing wrong with.
    """
    if _brings_compiler(job):
        if not job.workspace.has("toolchain"):
            return None
        made = job.workspace.load("toolchain", Toolchain)
        found = read_compiler(made.cxx) if made.cxx else None
        return dataclasses.replace(found, cc=made.cc) if found and made.cc else found
    newest = _newest_gcc(job)
    return next(compiler for compiler in job.machine.compilers if compiler.major <= newest)


def is_pinned(workspace: Workspace) -> bool:
    """Whether the toolchain's lock decided the compiler."""
    if not workspace.has("toolchain"):
        return False
    made = workspace.load("toolchain", Toolchain)
    return made.pinned and made.cxx is not None


def unused_settings(workspace: Workspace, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Variables with which the caller chose a compiler, where the toolchain brings its own."""
    if not workspace.has("toolchain") or workspace.load("toolchain", Toolchain).cxx is None:
        return ()
    return tuple(name for name in _CHOOSING if environ.get(name))


def _brings_compiler(job: Job) -> bool:
    if job.target.provider == "conda":
        return True
    workspace = job.workspace
    return workspace.has("toolchain") and workspace.load("toolchain", Toolchain).cxx is not None


def _check_system_compilers(job: Job) -> list[Problem]:
    newest, found = _newest_gcc(job), job.machine.compilers
    if any(compiler.major <= newest for compiler in found):
        return []
    platform = job.target.platform
    if platform.is_foreign and not found:
        return [
            Problem(
                what=f"there is no compiler for {platform.machine}",
                why=f"{platform.triplet}-g++ isn't on {SYSTEM_PATH}",
                fix=f"apt-get install g++-{platform.triplet}",
            )
        ]
    fix = f"apt-get install g++-{newest}, or set CXX to a g++ of version {newest} or older"
    if not found:
        named = os.environ.get("CXX")
        why = f"CXX={named} is not a working g++" if named else "there is no g++ in /usr/bin"
        fix = "unset CXX" if named else "apt-get install g++"
        fix += f", or set it to a g++ of version {newest} or older, without options"
        return [Problem(what="no host compiler was found", why=why, fix=fix)]
    versions = ", ".join(f"{compiler.cxx} is {compiler.version}" for compiler in found)
    return [
        Problem(
            what=f"nvcc of CUDA {job.target.toolkit.release} supports GCC up to {newest}",
            why=versions,
            fix=fix,
        )
    ]


def _newest_gcc(job: Job) -> int:
    """What the toolkit's own header says, or the table while there is no toolkit yet."""
    if job.workspace.has("toolchain"):
        home = job.workspace.load("toolchain", Toolchain).home
        return newest_gcc_for(home) or job.target.toolkit.max_gcc
    return job.target.toolkit.max_gcc
