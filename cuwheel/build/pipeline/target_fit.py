"""The targets of the catalogue that this machine can run and build, and why not the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from packaging.requirements import Requirement

from cuwheel.base.errors import CuwheelError
from cuwheel.base.formats.binaries.archs import DeviceCode, describe_code, runs_on
from cuwheel.base.system.versions import version_key
from cuwheel.build.pipeline.disk_needs import check_disk
from cuwheel.build.pipeline.machine import read_machine
from cuwheel.build.pipeline.machine_checks import check_system_packages
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.target import Target, declared_target
from cuwheel.build.toolchains.host_compiler import check_host_compiler
from cuwheel.build.workspace.job import Job, Machine
from cuwheel.build.workspace.problems import problems_of
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.diagnose.document import DiagnosedTarget
from cuwheel.check.diagnose.facts.machine import Driver, HostFacts

# The C library that a conda toolchain's wheels need: its lock's sysroot (envs/cuda*).
_CONDA_GLIBC = "2.28"


def fit_targets(
    entries: Iterable[CatalogueEntry],
    workspace: Workspace,
    driver: Driver,
    host: HostFacts | None,
    python: str,
) -> tuple[DiagnosedTarget, ...]:
    """Compare each recipe and toolkit with this machine.

    Args:
        host: the machine itself; None where it couldn't be read.
        python: of the environment, `3.12.1`; empty where there is none.
    """
    targets = []
    machine = read_machine(BuildRequest(), None, workspace.environ)
    plain = ".".join(python.split(".")[:2]) or "3.12"
    for entry in entries:
        if entry.recipe is None:
            targets.append(_target(entry.name, (), [f"broken recipe: {entry.fault}"]))
            continue
        for release in entry.recipe.toolkits:
            target = declared_target(entry.recipe, release, plain, entry.root)
            runs = _why_not_run(target, driver, host, python)
            targets.append(_target(target.name, runs, _why_not_build(target, workspace, machine)))
    return tuple(targets)


def _target(name: str, runs: Iterable[str], builds: Iterable[str]) -> DiagnosedTarget:
    reasons, obstacles = tuple(runs), tuple(builds)
    return DiagnosedTarget(name=name, fits=not reasons + obstacles, runs=reasons, builds=obstacles)


def _why_not_run(
    target: Target, driver: Driver, host: HostFacts | None, python: str
) -> Iterator[str]:
    least = target.toolkit.min_driver
    if not driver.version:
        yield "there is no NVIDIA driver"
    elif version_key(driver.version) < version_key(least):
        yield f"driver {driver.version} is older than {least}"
    code = DeviceCode(sass=target.archs, ptx=target.ptx_archs)
    for capability in driver.capabilities:
        if target.archs and not runs_on(code, capability):
            yield f"its archs are {describe_code(code)}, but the GPU is sm_{capability}"
    required = target.recipe.requires_python
    if python and not Requirement(f"x{required}").specifier.contains(python, prereleases=True):
        yield f"it needs Python {required}, the environment's is {python}"
    glibc = host.glibc if host else ""
    if target.provider == "conda" and glibc and version_key(glibc) < version_key(_CONDA_GLIBC):
        yield f"glibc {glibc} is older than {_CONDA_GLIBC}"


def _why_not_build(target: Target, workspace: Workspace, machine: Machine) -> Iterator[str]:
    apart = dataclasses.replace(workspace, work=workspace.work / target.id)
    job = Job(target=target, settings=BuildRequest(), workspace=apart, machine=machine)
    checks: tuple[Callable[[Job], Iterable[CuwheelError] | None], ...] = (
        *(check_host_compiler, check_system_packages, check_disk),
    )
    for problem in problems_of(partial(check, job) for check in checks):
        yield f"{problem.what}: {problem.why}"
