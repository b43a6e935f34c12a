"""The input of every stage: one target, the settings, the folders, and the machine's facts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import CuwheelError, SandboxError
from cuwheel.base.system.compilers import HostCompiler
from cuwheel.base.system.pythons import Interpreter
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.containers.image import Image
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class TargetRoot:
    """A root folder of another kind of machine, and its Python.

    Attributes:
        python: path of the interpreter below `/` of that root: `/usr/bin/python3.11`.
        release: `3.11`.
        soabi: `cpython-311-aarch64-linux-gnu`.
        headers: this machine's paths of the folders with `Python.h` and with `pyconfig.h`.
        settings: the interpreter's build settings, as in its `sysconfig`.
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
    """The machine's facts for a build, read once by `pipeline.machine.read_machine`.

    Attributes:
        python: the Python that the wheel is for; None: there is none, and `faults` has the reason.
        sandbox: the kind of sandbox; None: the requested one doesn't work.
        compilers: its GCCs, in the order of the search; none where the toolchain brings its own.
        memory: bytes that a build may use at most, limits of containers included; None: unknown.
        driver: release of the NVIDIA driver, `580.105.08`; None: there is none.
        image: the image that cuwheel was started in by `--container`; None: on the machine itself.
        target_root: of the machine that the wheel is for; None: this machine is of its kind.
        faults: errors about what was requested and isn't there.
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
    """One target to be built here; but for the build tag, no setting changes a wheel."""

    target: Target
    settings: BuildRequest
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
            SandboxError: the requested one doesn't work here.
        """
        if self.machine.sandbox is None:
            raise next(fault for fault in self.machine.faults if isinstance(fault, SandboxError))
        return self.machine.sandbox

    @property
    def may_run_code(self) -> bool:
        """True if a package's code may run now.

        Not in a container that has a network and allows no sandbox: it runs in the container's next
        part, which has no network.
        """
        is_in_container = self.machine.image is not None
        return self.sandbox != "none" or not is_in_container or self.settings.offline
