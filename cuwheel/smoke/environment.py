"""A clean environment for a wheel: only what it declares, and the machine's CUDA out of sight."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name, parse_wheel_filename

from cuwheel.sandbox.confinement import Confinement
from cuwheel.smoke.bytecode import (
    bytecode_folder,
    keep_bytecode,
    lend_bytecode,
    note_sources,
)
from cuwheel.smoke.hide_cuda import find_cuda, hiding_prefix, write_decoy
from cuwheel.smoke.loaded_libraries import own_libraries, owners
from cuwheel.smoke.packages import install_wheel
from cuwheel.smoke.probe import SCRIPT, Probe
from cuwheel.workspace.records import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.smoke.probe import SmokeAnswer
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.records import RepairedWheel


ENVIRONMENT = "environment"  # below the folder of one


@dataclass(frozen=True, kw_only=True)
class SmokeEnvironment:
    """Where a wheel is tried.

    Attributes:
        probe: runs in an environment that holds the wheel and what it declares.
        hidden: the machine's CUDA that can't be seen there; None: the system refused to hide it.
        libraries: the wheel's own, below site-packages.
        sources: from `bytecode.note_sources`, before any of the wheel's code ran.
    """

    probe: Probe
    hidden: tuple[Path, ...] | None
    libraries: tuple[str, ...]
    sources: dict[str, int]

    def compile_imported(self, answer: SmokeAnswer, job: Job) -> None:
        """Compile what a process has imported, for the processes and the wheels after it.

        Args:
            answer: of the process.
            job: of the wheel's build.
        """
        base = self.probe.confinement.base
        if base is None:  # another kind of machine's
            return
        site, kept = self.probe.site, bytecode_folder(job)
        is_new = keep_bytecode(
            kept,
            site,
            canonicalize_name(job.target.project),
            imported=answer.sources,
            python=base,
            sources=self.sources,
        )
        if is_new:
            lend_bytecode(kept, site, sandbox=job.sandbox)


def prepare_environment(
    folder: Path, wheel: RepairedWheel, job: Job, driver_stub: bytes | None
) -> SmokeEnvironment:
    """Install a wheel where nothing else is, and find out what of the machine to hide.

    Args:
        folder: for the environment; an absolute path with nothing there but what
            `packages.install_ahead` has left.
        wheel: what to install.
        job: of its build; the target's smoke lock says which releases are installed with it.
        driver_stub: what may stand in for a driver that isn't there; None: nothing.

    Raises:
        InstallError: what the wheel declares can't be installed, or isn't in the recipe's lock.
    """
    target, workspace = job.target, job.workspace
    base = workspace.load("environment", Environment).base_python
    environment = folder / ENVIRONMENT
    python = install_wheel(environment, base, wheel.path, wheel.sha256, job)
    [site] = (environment.resolve() / "lib").glob("python*/site-packages")
    keep = (environment, workspace.cache, workspace.work, base.resolve().parent.parent)
    hidden_paths = find_cuda(os.environ, base, keep=keep)
    decoy = write_decoy(folder / "no-library")
    is_sandboxed = job.sandbox != "none"
    prefix = hiding_prefix(hidden_paths, decoy) if hidden_paths and not is_sandboxed else ()
    stub = folder / "libcuda-stub.so" if driver_stub else None
    if stub and driver_stub:
        stub.write_bytes(driver_stub)
    lend_bytecode(bytecode_folder(job), site, sandbox=job.sandbox)
    owned = owners(site)
    probe = Probe(
        python=python,
        site=site,
        owned=owned,
        confinement=_confinement(
            environment, base, job, stub=stub, hidden=hidden_paths, decoy=decoy
        ),
        log=workspace.log("smoke"),
        name=target.id,
        hiding_prefix=prefix,
        stub=stub,
    )
    hidden = hidden_paths if is_sandboxed or prefix or not hidden_paths else None
    project = parse_wheel_filename(wheel.path.name)[0]
    return SmokeEnvironment(
        probe=probe,
        hidden=hidden,
        libraries=own_libraries(site, owned, project),
        sources=note_sources(site),
    )


def _confinement(  # noqa: PLR0913 - what of the machine is seen, and what isn't
    environment: Path,
    base: Path,
    job: Job,
    *,
    stub: Path | None,
    hidden: tuple[Path, ...],
    decoy: Path,
) -> Confinement:
    """What the wheel sees: the environment, its Python, the smoke test, GPUs; where it may write.

    The environment can't be written: its files may be names of those in the installer's cache.
    """
    given = (SCRIPT, job.target.smoke_script, stub)
    return Confinement(
        sandbox=job.sandbox,
        environment=environment,
        base=base,
        folder=environment.with_name("asked"),
        read=tuple(path.absolute() for path in given if path),
        covered=hidden,
        decoy=decoy,
        has_gpu=True,
    )
