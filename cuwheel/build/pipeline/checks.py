"""The checks of a build, all in one list: each finds why it can't work, in one or both phases.

`early`, before any download and before anything of an earlier run is removed: what this machine,
the locks and the folders show. `preflight`, before the first compile: what source, toolchain and
environment show; what isn't there yet isn't checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

from cuwheel.base.errors import CuwheelError, InterpreterNotFoundError, PreflightError
from cuwheel.base.formats.binaries.archs import sort_archs
from cuwheel.base.system.compilers import archs_of
from cuwheel.base.system.process import run
from cuwheel.build.compile.cache.compile_cache import check_compile_cache
from cuwheel.build.compile.link_flags import check_linkable
from cuwheel.build.compile.torch_extension import check_torch_extension
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.environments.requirements import (
    BuildSystem,
    read_build_system,
    unmet_requirements,
)
from cuwheel.build.inputs.identity import check_identity, stated_identity
from cuwheel.build.locks.lock_jobs import check_target_lock
from cuwheel.build.pipeline.disk_needs import check_disk, note_disk_needs
from cuwheel.build.pipeline.machine_checks import (
    check_driver,
    check_folder_names,
    check_platform,
    check_python,
    check_system_packages,
    check_system_toolkit,
    check_toolchain_lock,
    warn_of_memory,
)
from cuwheel.build.pipeline.package_build.requirements import check_stated_requirements
from cuwheel.build.recipe.link import External
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.build.toolchains.host_compiler import check_host_compiler
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.problems import problems_of, raise_problems
from cuwheel.build.workspace.records import Environment, SourceTree, Toolchain
from cuwheel.build.workspace.request_check import (
    check_release,
    check_source_override,
    check_target_archs,
)
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.components import component_by_name
from cuwheel.check.cuda.frameworks import framework_cuda

Phase = Literal["early", "preflight"]


def check(job: Job, phase: Phase) -> None:
    """Check a target in one phase of its build.

    Raises:
        PreflightError: with every problem found, each with its cause and fix.
        CuwheelError: the only problem, where it has an error of its own.
    """
    if phase == "early":  # with another toolchain, lock or environment, perhaps
        unrecorded = replace(job.workspace, shows_records=False)
        job = replace(job, workspace=unrecorded)
    checks = (partial(check, job) for check, phases in _CHECKS if phase in phases)
    raise_problems(problems_of(checks), job.target.id)
    if phase == "early":
        _warn_of_suppliers(job)
        note_disk_needs(job)


def _check_machine(job: Job) -> Iterator[CuwheelError]:
    has_wheels = not any(check_release(job))  # else installing the Python would be no help
    for fault in job.machine.faults:
        if has_wheels or not isinstance(fault, InterpreterNotFoundError):
            yield fault


def _check_smoke_script(job: Job) -> None:
    script = job.target.smoke_script
    if script and not script.is_file():
        raise PreflightError(
            f"the smoke test {script.name} is missing",
            why=f"`smoke` in {job.target.recipe.module} names it, and {script} doesn't exist",
            fix="write it, or remove `script` from the recipe",
        )


def _warn_of_suppliers(job: Job) -> None:
    """Warn where the lock of the smoke test lacks a wheel that `link` can make a requirement.

    No error: a component that the recipe declares and no library needs is not required.
    """
    target, lock = job.target, job.target.smoke_lock
    linked = (
        component_by_name(name, target.toolkit.major) for name in target.recipe.link.components
    )
    required = dict.fromkeys(
        component.distribution
        for component in linked
        if component.cuda is None or isinstance(target.mode, External)
    )
    if lacking := [name for name in required if pinned_version(lock, name) is None]:
        job.workspace.console.warn(
            "the finished wheel may fail its smoke test: the recipe's `link` can make it require "
            f"{', '.join(lacking)}, and {target.locked_smoke.path} has none of them; "
            f"{target.locked_smoke.way_to_add(*lacking)}"
        )


def _check_identity(job: Job) -> None:
    """Raise SourceError where a source that no recipe pins isn't of the recipe's release."""
    tree = _source_tree(job.workspace)
    if tree and tree.mark:
        check_identity(job.target.recipe, *stated_identity(tree.path))


def _check_archs(job: Job) -> None:
    """Check that the toolkit's own nvcc knows every arch of the target."""
    workspace = job.workspace
    if not workspace.has("toolchain"):
        return
    nvcc = workspace.load("toolchain", Toolchain).home / "bin" / "nvcc"
    known = archs_of(nvcc, workspace.folder("tmp"))
    if unknown := [arch for arch in job.target.archs if arch not in known]:
        raise PreflightError(
            f"nvcc itself doesn't support {', '.join(unknown)}",
            why=f"its --help lists sm_{', sm_'.join(sort_archs(known))}",
            fix="remove these from `archs`, and correct cuwheel/check/cuda/toolkits.py",
        )


def _check_framework(job: Job) -> None:
    target, workspace = job.target, job.workspace
    if target.framework is None or not workspace.has("environment"):
        return
    name, site = target.framework.name, workspace.load("environment", Environment).site_packages
    cuda = framework_cuda(site / name / "version.py")
    if cuda != target.toolkit.release:
        raise PreflightError(
            f"{name} {target.framework.version} was not built for CUDA {target.toolkit.release}",
            why=f"its version.py says CUDA {cuda or 'none'}; two CUDA releases in one process "
            "lead to undefined symbols",
            fix=f"use a {name} built for CUDA {target.toolkit.release} (-- --framework), or "
            "another toolkit",
        )


def _check_build_requirements(job: Job) -> None:
    tree = _source_tree(job.workspace)
    if tree is None or not job.workspace.has("environment"):
        return
    env = job.workspace.load("environment", Environment)
    system = read_build_system(tree.path)
    if unmet := unmet_requirements([*system.requires, "build"], env.site_packages):
        raise PreflightError(
            "build requirements are missing from the lock",
            why=f"pyproject.toml requires {', '.join(unmet)}",
            fix=job.target.locked_build.way_to_add(*unmet),
        )
    _check_backend_imports(job, env, system)


def _check_run_requirements(job: Job) -> Iterator[CuwheelError]:
    """Check the requirements that the source states; the stage build gets those of its backend."""
    if tree := _source_tree(job.workspace):
        yield from check_stated_requirements(job.target, tree.path)


def _source_tree(workspace: Workspace) -> SourceTree | None:
    """Return the source, patched if it is already; a finished build leaves none."""
    stage = next((name for name in ("patch", "source") if workspace.has(name)), None)
    tree = workspace.load(stage, SourceTree) if stage else None
    return tree if tree and tree.path.is_dir() else None


def _check_backend_imports(job: Job, env: Environment, system: BuildSystem) -> None:
    """Import the backend where it sees no more than a build would: it may be the source's own."""
    if not job.may_run_code:
        return
    paths = f"sys.path[:0] = {list(system.backend_path)!r}"
    code = f"import os, sys; os.chdir(sys.argv[1]); {paths}; import build, {system.module}"
    confinement = Confinement(
        sandbox=job.sandbox,
        environment=env.python.parent.parent.resolve(),
        base=env.base_python,
        folder=job.workspace.folder("imported").resolve(),
        read=(system.tree.resolve(),),
    )
    python = confinement.environment / "bin" / env.python.name
    argv = confinement.command([python, "-I", "-c", code, system.tree.resolve()])
    finished = run(argv, env={}, cwd=confinement.folder, check=False)
    confinement.empty()
    if finished.status:
        raise PreflightError(
            f"the build backend {system.module} can't be imported",
            why=(finished.output.strip().splitlines() or ["Python exits at once"])[-1],
            fix=f"remove {env.python.parent.parent} and run the same command again; if that "
            "doesn't help, the lock lacks something",
        )


_EARLY: tuple[Phase, ...] = ("early",)
_PREFLIGHT: tuple[Phase, ...] = ("preflight",)
# The toolchain and the environment bring what the checks of both phases are about.
_CHECKS: tuple[tuple[Callable[[Job], Iterable[CuwheelError] | None], tuple[Phase, ...]], ...] = (
    (_check_machine, _EARLY),
    (lambda job: check_platform(job.target), _EARLY),
    (check_python, _EARLY),
    (check_release, _EARLY),
    (check_target_archs, _EARLY),
    (_check_identity, _PREFLIGHT),
    (_check_archs, _PREFLIGHT),
    (check_host_compiler, _EARLY + _PREFLIGHT),
    (_check_framework, _PREFLIGHT),
    (check_torch_extension, _PREFLIGHT),
    (_check_build_requirements, _PREFLIGHT),
    (_check_run_requirements, _PREFLIGHT),
    (check_system_toolkit, _EARLY),
    (check_toolchain_lock, _EARLY),
    (check_driver, _EARLY),
    (check_system_packages, _EARLY),
    (check_disk, _EARLY),
    (warn_of_memory, _EARLY),
    (check_folder_names, _EARLY),
    (lambda job: check_target_lock(job.target), _EARLY),
    (check_source_override, _EARLY),
    (_check_smoke_script, _EARLY),
    (check_linkable, _EARLY + _PREFLIGHT),
    (check_compile_cache, _EARLY),
)
