"""Find what this machine has for a build; nothing after it looks again."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from cuwheel.containers.image import image_here
from cuwheel.cross.target_root import read_target_root
from cuwheel.errors import (
    CuwheelError,
    InterpreterNotFoundError,
    SandboxError,
    TargetRootError,
)
from cuwheel.sandbox.backends import choose_sandbox
from cuwheel.standalone.memory_gate import free_memory
from cuwheel.system import machine
from cuwheel.system.compilers import find_host_compilers
from cuwheel.workspace.job import Machine

if TYPE_CHECKING:
    from cuwheel.model.platform import Platform
    from cuwheel.system.pythons import Interpreter
    from cuwheel.workspace.job import BuildSettings


def read_machine(
    settings: BuildSettings,
    python: Interpreter | InterpreterNotFoundError | None,
    *,
    provider: str = "pypi",
    platform: Platform | None = None,
) -> Machine:
    """Ask the machine once; what was asked for and isn't there becomes a fault, not an error.

    Args:
        settings: which sandbox was asked for.
        python: the one that the wheel is for, or why there is none; None: for no wheel.
        provider: where the toolchain comes from. That of conda brings its compiler; what the
            caller names as `CXX` is no business of such a build, and isn't run.
        platform: of the machines that the wheel is for; None: of this one.
    """
    faults: list[CuwheelError] = []
    sandbox = None
    try:
        sandbox = choose_sandbox(settings.sandbox)
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
    found = Machine(
        python=None,
        sandbox=sandbox,
        compilers=() if provider == "conda" else find_host_compilers(os.environ, triplet),
        cores=machine.usable_cores(),
        memory=memory,
        driver=machine.driver_version(),
        image=image_here(os.environ),
        target_root=root,
        faults=tuple(faults),
    )
    return with_python(found, python)


def with_python(machine: Machine, python: Interpreter | InterpreterNotFoundError | None) -> Machine:
    """The same machine for a wheel of another Python; the arguments are those of `read_machine`."""
    others = [one for one in machine.faults if not isinstance(one, InterpreterNotFoundError)]
    if isinstance(python, InterpreterNotFoundError):
        return replace(machine, python=None, faults=(python, *others))
    return replace(machine, python=python, faults=tuple(others))
