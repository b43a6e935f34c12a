"""Facts about this machine for a build, found once."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

from cuwheel.base import free_memory
from cuwheel.base.errors import (
    CuwheelError,
    InterpreterNotFoundError,
    SandboxError,
    TargetRootError,
)
from cuwheel.base.system import machine
from cuwheel.base.system.compilers import find_host_compilers
from cuwheel.base.system.pythons import Interpreter
from cuwheel.build.recipe.platform import Platform
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.containers.image import image_here
from cuwheel.build.toolchains.cross.target_root import read_target_root
from cuwheel.build.workspace.job import Machine
from cuwheel.build.workspace.request import BuildRequest


def read_machine(
    settings: BuildRequest,
    python: Interpreter | InterpreterNotFoundError | None,
    environ: Mapping[str, str],
    *,
    has_own_compiler: bool = False,
    platform: Platform | None = None,
) -> Machine:
    """Read the machine's facts; what was requested and isn't there becomes a fault, not an error.

    Args:
        python: the one that the wheel is for, or why there is none; None: for no wheel.
        has_own_compiler: the build's compiler comes from a lock: the caller's `CXX` isn't run.
        platform: of the machines that the wheel is for; None: of this one.
    """
    faults: list[CuwheelError] = []
    sandbox, image = None, image_here(environ)
    try:
        sandbox = choose_sandbox(settings.sandbox, is_contained=image is not None)
    except SandboxError as error:
        faults.append(error)
    memory = None
    with contextlib.suppress(OSError):
        memory = min(limit.total for limit in free_memory.read_memory().levels)
    other = platform if platform and platform.is_foreign else None
    root = None
    if other and python and not isinstance(python, InterpreterNotFoundError):
        try:
            root = read_target_root(settings.target_root, other, python.release)
        except TargetRootError as error:
            faults.append(error)
    triplet = other.triplet if other else ""
    facts = Machine(
        python=None,
        sandbox=sandbox,
        compilers=() if has_own_compiler else find_host_compilers(environ, triplet),
        cores=machine.usable_cores(environ),
        memory=memory,
        driver=machine.driver_version(),
        image=image,
        target_root=root,
        faults=tuple(faults),
    )
    return with_python(facts, python)


def with_python(machine: Machine, python: Interpreter | InterpreterNotFoundError | None) -> Machine:
    """Return the machine for a wheel of another Python; the arguments are `read_machine`'s."""
    others = [fault for fault in machine.faults if not isinstance(fault, InterpreterNotFoundError)]
    if isinstance(python, InterpreterNotFoundError):
        return replace(machine, python=None, faults=(python, *others))
    return replace(machine, python=python, faults=tuple(others))
