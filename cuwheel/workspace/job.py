"""What every stage is given: one target, what was asked, the folders, and the machine's facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.containers.image import Image
    from cuwheel.errors import CuwheelError
    from cuwheel.model.target import Target
    from cuwheel.system.compilers import HostCompiler
    from cuwheel.system.pythons import Interpreter
    from cuwheel.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """What was asked for beside the target; but for the build tag, nothing of it changes a wheel.

    Attributes:
        offline: nothing may be downloaded.
        jobs: how many compiles at once; None: one for each core.
        reuse: False for `--no-cache`: the wheel is built again although nothing has changed.
        any_driver: the wheel is for another machine, whose driver isn't known here.
        sandbox: `auto`, or one of `sandbox.backends.KINDS`.
        build_tag: of the wheel's name; None: the next free one where other bytes are published.
        replace: publish under a name that is taken by other bytes.
        target_root: root folder of another kind of machine; None: none was named.
    """

    offline: bool = False
    jobs: int | None = None
    reuse: bool = True
    any_driver: bool = False
    sandbox: str = "auto"
    build_tag: int | None = None
    replace: bool = False
    target_root: Path | None = None


@dataclass(frozen=True, kw_only=True)
class TargetRoot:
    """A root folder of another kind of machine, and the Python that was found there.

    Attributes:
        folder: the root, an absolute path with links followed.
        python: of its interpreter, a path below `/` of that root: `/usr/bin/python3.11`.
        release: `3.11`.
        soabi: `cpython-311-aarch64-linux-gnu`.
        headers: this machine's paths of the folders with `Python.h` and with `pyconfig.h`.
        settings: what the interpreter's `sysconfig` knows of its own build.
        fingerprint: SHA-256 of the interpreter, its build settings, its headers and the C library.
    """

    folder: Path
    python: Path
    release: str
    soabi: str
    headers: tuple[Path, ...]
    settings: dict[str, object]
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What this machine has for a build, found once by `build.machine.read_machine`.

    Attributes:
        python: the Python that the wheel is for; None: there is none, and `faults` says why.
        sandbox: the kind of sandbox; None: not the one that was asked for.
        compilers: its GCCs, those that come first in the search first; none where the toolchain
            brings its own.
        cores: how many a build may use.
        memory: bytes that a build may use at most, limits of containers counted; None: unknown.
        driver: release of the NVIDIA driver, `580.105.08`; None: there is none.
        image: the image that cuwheel was started in by `--container`; None: on the machine itself.
        target_root: of the machine that the wheel is for; None: this machine is of its kind.
        faults: what was asked for and isn't there.
    """

    python: Interpreter | None
    sandbox: str | None
    compilers: tuple[HostCompiler, ...]
    cores: int
    memory: int | None
    driver: str | None
    image: Image | None = None
    target_root: TargetRoot | None = None
    faults: tuple[CuwheelError, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Job:
    """One target to be built here.

    Attributes:
        target: what is built.
        settings: what was asked for beside it.
        workspace: its folders, and the records of the stages that have run.
        machine: where.
    """

    target: Target
    settings: BuildSettings
    workspace: Workspace
    machine: Machine

    @property
    def python(self) -> Interpreter:
        """The Python that the wheel is for.

        Raises:
            InterpreterNotFoundError: this machine has none like it.
        """
        if self.machine.python is None:
            raise self.machine.faults[0]
        return self.machine.python

    @property
    def sandbox(self) -> str:
        """The kind of sandbox, `none` among them.

        Raises:
            SandboxError: the one that was asked for doesn't work here.
        """
        if self.machine.sandbox is None:
            raise self.machine.faults[-1]
        return self.machine.sandbox
