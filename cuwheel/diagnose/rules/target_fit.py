"""Which targets of the catalogue this machine can run, and build, and why not the others."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from cuwheel.binaries.archs import DeviceCode, describe_code, runs_on
from cuwheel.build.checks import check_disk, check_system_packages
from cuwheel.build.machine import read_machine
from cuwheel.model.target import declared_target
from cuwheel.system.versions import version_key
from cuwheel.toolchains.host_compiler import check_host_compiler
from cuwheel.workspace.job import BuildSettings, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.host import HostFacts
    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.target import Target
    from cuwheel.workspace.job import Machine
    from cuwheel.workspace.workspace import Workspace


# The C library that a conda toolchain's wheels ask for: its lock's sysroot (envs/cuda*).
_CONDA_GLIBC = "2.28"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A target on this machine.

    Attributes:
        name: as in the session, `bitsandbytes-122`.
        runs: why its wheel doesn't run here; none: it does, as far as is known.
        builds: why it can't be built here.
    """

    name: str
    runs: tuple[str, ...]
    builds: tuple[str, ...]


def fit_targets(
    entries: Iterable[CatalogueEntry],
    workspace: Workspace,
    driver: Driver,
    host: HostFacts | None,
    python: str,
) -> tuple[Fit, ...]:
    """Hold each recipe and toolkit against this machine.

    Args:
        entries: the catalogue.
        workspace: where a build would work.
        driver: of this machine.
        host: the machine itself; None where it couldn't be asked.
        python: of the environment, `3.12.1`; empty where there is none.
    """
    found = []
    machine = read_machine(BuildSettings(), None)
    for entry in entries:
        if entry.recipe is None:
            found.append(Fit(name=entry.name, runs=(), builds=(f"broken recipe: {entry.fault}",)))
            continue
        for release in entry.recipe.toolkits:
            plain = ".".join(python.split(".")[:2]) or "3.12"
            target = declared_target(entry.recipe, release, plain, entry.root)
            found.append(
                Fit(
                    name=target.name,
                    runs=tuple(_why_not_run(target, driver, host, python)),
                    builds=tuple(_why_not_build(target, workspace, machine)),
                )
            )
    return tuple(found)


def _why_not_run(
    target: Target, driver: Driver, host: HostFacts | None, python: str
) -> Iterator[str]:
    least = target.toolkit.min_driver
    if not driver.version:
        yield "there is no NVIDIA driver"
    elif version_key(driver.version) < version_key(least):
        yield f"driver {driver.version} is older than {least}"
    code = DeviceCode(sass=target.archs, ptx=target.ptx_archs)
    for capability in sorted({gpu.capability for gpu in driver.gpus if gpu.capability}):
        if target.archs and not runs_on(code, capability):
            yield f"its archs are {describe_code(code)}, but the GPU is sm_{capability}"
    required = target.recipe.requires_python
    if python and not Requirement(f"x{required}").specifier.contains(python, prereleases=True):
        yield f"it needs Python {required}, the environment's is {python}"
    glibc = host.glibc if host else ""
    if target.provider == "conda" and glibc and version_key(glibc) < version_key(_CONDA_GLIBC):
        yield f"glibc {glibc} is older than {_CONDA_GLIBC}"


def _why_not_build(target: Target, workspace: Workspace, machine: Machine) -> Iterator[str]:
    own = dataclasses.replace(workspace, work=workspace.work / target.id)
    job = Job(target=target, settings=BuildSettings(), workspace=own, machine=machine)
    for check in (check_host_compiler, check_system_packages, check_disk):
        for problem in check(job):
            yield f"{problem.what}: {problem.why}"
