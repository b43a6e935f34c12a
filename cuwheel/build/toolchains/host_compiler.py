"""The compiler for nvcc's host code: its choice, and the check that this nvcc supports it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.errors import LockError, PreflightError
from cuwheel.base.paths import find_lock
from cuwheel.base.system.compilers import SYSTEM_PATH, HostCompiler, newest_gcc_for, read_compiler
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace

# Variables that choose a compiler; a toolchain with its own ignores them.
_COMPILER_VARIABLES = (
    *("CC", "CXX", "CUDAHOSTCXX", "CUDA_HOME", "CUDA_PATH"),
    *("NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS"),
)


def check_host_compiler(job: Job) -> None:
    """Raise PreflightError where there is no GCC that this nvcc supports.

    A GCC of a lock is checked where it is installed (`conda_layout`, `pinned_compiler`).
    """
    target = job.target
    if target.has_own_compiler or _has_compiler(job.workspace):
        return
    if job.settings.host_compiler is None and target.usual_compiler != target.host_compiler:
        _warn_of_machine(job)
    newest, compilers = _newest_gcc(job), job.machine.compilers
    if any(compiler.major <= newest for compiler in compilers):
        return
    platform = target.platform
    if platform.is_foreign and not compilers:
        raise PreflightError(
            f"there is no compiler for {platform.machine}",
            why=f"{platform.triplet}-g++ isn't on {SYSTEM_PATH}",
            fix=f"apt-get install g++-{platform.triplet}",
        )
    if not compilers:
        variable = job.workspace.environ.get("CXX")
        why = f"CXX={variable} is not a working g++" if variable else "there is no g++ in /usr/bin"
        fix = "unset CXX" if variable else "apt-get install g++"
        fix += f", or set it to a g++ of version {newest} or older, without options"
        raise PreflightError("no host compiler was found", why=why, fix=fix)
    raise PreflightError(
        f"nvcc of CUDA {target.toolkit.release} supports GCC up to {newest}",
        why=", ".join(f"{compiler.cxx} is {compiler.version}" for compiler in compilers),
        fix=f"apt-get install g++-{newest}, or set CXX to a g++ of version {newest} or older",
    )


def _warn_of_machine(job: Job) -> None:
    """Warn of a build with the machine's compiler where a pinned one is usual; once a build."""
    if job.workspace.has("toolchain") or job.settings.container:
        return
    usual = job.target.usual_compiler
    job.workspace.console.warn(
        f"the machine's compiler is used, so the wheel's bytes and platform tag depend on it: no "
        f"Debian archive with {usual} is known. For {usual}: `export "
        f"CUWHEEL_DEBIAN_MIRROR=https://HOST/debian`, the address of one; for no warning: "
        "`-- --host-compiler system`"
    )


def host_compiler(job: Job) -> HostCompiler | None:
    """Return the GCC of the build; None before the toolchain that contains it is installed.

    The machine has passed `check_host_compiler`.
    """
    workspace = job.workspace
    if workspace.has("toolchain"):
        toolchain = workspace.load("toolchain", Toolchain)
        if toolchain.cxx or job.target.has_own_compiler:
            compiler = read_compiler(toolchain.cxx) if toolchain.cxx else None
            cc = toolchain.cc
            return dataclasses.replace(compiler, cc=cc) if compiler and cc else compiler
    elif job.target.has_own_compiler:
        return None
    newest = _newest_gcc(job)
    return next(compiler for compiler in job.machine.compilers if compiler.major <= newest)


def is_pinned(workspace: Workspace) -> bool:
    """Return True if the toolchain's lock determines the compiler."""
    return _has_compiler(workspace) and workspace.load("toolchain", Toolchain).pinned


def unused_settings(workspace: Workspace, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return variables that choose a compiler although the toolchain has its own."""
    if not _has_compiler(workspace):
        return ()
    return tuple(name for name in _COMPILER_VARIABLES if environ.get(name))


def compiler_lock(name: str, workspace: Workspace) -> Path:
    """Return the path of a pinned compiler's lock.

    Raises:
        LockError: there is none.
    """
    lock = find_lock(f"{name}/debian.lock", workspace.caller.roots)
    if lock is None:
        raise LockError(
            f"there is no lock of the host compiler {name}",
            why=f"no project folder has envs/{name}/debian.lock",
            fix=f"nox -s lock -- host-compiler:{name}",
        )
    return lock


def is_obtainable(name: str, workspace: Workspace, *, offline: bool) -> bool:
    """Return True if a pinned compiler is installed, or its packages are where they come from.

    One of an older lock counts as installed: builds don't change to the machine's then.

    Raises:
        LockError: there is no lock for it, or it can't be used.
        UsageError: the variable with the archives' addresses is malformed.
    """
    if any(path.is_dir() for path in workspace.cache.glob(f"compilers/{name}-*")):
        return True
    # They load slowly.
    from cuwheel.build.toolchains.debian.archives import configured_archives  # noqa: PLC0415
    from cuwheel.build.toolchains.debian.install import is_reachable  # noqa: PLC0415

    return is_reachable(
        compiler_lock(name, workspace),
        workspace.cache,
        configured_archives(workspace.environ),
        offline=offline,
    )


def _has_compiler(workspace: Workspace) -> bool:
    if not workspace.has("toolchain"):
        return False
    return workspace.load("toolchain", Toolchain).cxx is not None


def _newest_gcc(job: Job) -> int:
    """Return the limit of the toolkit's header, or of the table before it is installed."""
    if job.workspace.has("toolchain"):
        home = job.workspace.load("toolchain", Toolchain).home
        return newest_gcc_for(home) or job.target.toolkit.max_gcc
    return job.target.toolkit.max_gcc
