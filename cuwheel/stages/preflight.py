"""Stage preflight: find every reason why the build can't work before it costs anything."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from cuwheel.binaries.archs import sort_archs
from cuwheel.build.link_flags import check_linkable
from cuwheel.build.requirements import check_stated_requirements
from cuwheel.build.torch_extension import check_torch_extension
from cuwheel.pypi.build_requirements import (
    BuildSystem,
    framework_cuda,
    read_build_system,
    unmet_requirements,
)
from cuwheel.sandbox.confinement import Confinement
from cuwheel.system.compilers import archs_of
from cuwheel.system.files import write_atomically
from cuwheel.system.process import run
from cuwheel.toolchains.host_compiler import (
    check_host_compiler,
    host_compiler,
    is_pinned,
    unused_settings,
)
from cuwheel.workspace.problems import Problem, raise_problems
from cuwheel.workspace.records import Environment, Preflight, SourceTree, Toolchain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


def preflight(job: Job) -> Preflight:
    """Check what the earlier stages left against the target, and choose the host compiler.

    It can run at any time: what isn't there yet isn't checked. What is missing on the machine
    itself was found before, by the early check.

    Raises:
        PreflightError: with every problem found, each with its cause and fix.
        CuwheelError: the one problem, where an error of its own says it.
    """
    checks: tuple[Callable[[Job], list[Problem]], ...] = (
        _check_archs,
        check_host_compiler,
        _check_framework,
        check_torch_extension,
        _check_build_requirements,
        _check_run_requirements,
        check_linkable,
    )
    workspace = job.workspace
    raise_problems((problem for check in checks for problem in check(job)), job.target.id)
    compiler = host_compiler(job)
    # A container that cuwheel started has no network while the package's own build runs.
    is_shut_off = job.sandbox != "none" or job.machine.image is not None
    if not is_shut_off and job.settings.sandbox != "none":
        workspace.console.warn(_NO_SANDBOX)
    if unused := unused_settings(workspace, os.environ):
        workspace.console.note(f"{', '.join(unused)} of your environment: {_UNUSED}")
    return Preflight(
        host_compiler=compiler.cxx if compiler else None,
        c_compiler=compiler.cc if compiler else None,
        host_compiler_version=compiler.banner if compiler else "",
        jobs=job.settings.jobs or job.machine.cores,
        host_compiler_pinned=is_pinned(workspace),
    )


_NO_SANDBOX = (
    "this system allows no sandbox, so the build can access the network and other files, which the "
    "provenance records; bubblewrap may work, if it can be installed"
)
_UNUSED = "not used, because the toolchain has its own compilers"


def _check_archs(job: Job) -> list[Problem]:
    """The toolkit's own nvcc knows every arch of the target."""
    workspace = job.workspace
    if not workspace.has("toolchain"):
        return []
    nvcc = workspace.load("toolchain", Toolchain).home / "bin" / "nvcc"
    known = archs_of(nvcc, workspace.folder("tmp"))
    unknown = [arch for arch in job.target.archs if arch not in known]
    if not unknown:
        return []
    return [
        Problem(
            what=f"nvcc itself doesn't support {', '.join(unknown)}",
            why=f"its --help lists sm_{', sm_'.join(sort_archs(known))}",
            fix="remove these from `archs`, and correct cuwheel/cuda/toolkits.py",
        )
    ]


def _check_framework(job: Job) -> list[Problem]:
    target, workspace = job.target, job.workspace
    if target.framework is None or not workspace.has("environment"):
        return []
    name, site = target.framework.name, workspace.load("environment", Environment).site_packages
    cuda = framework_cuda(site / name / "version.py")
    if cuda == target.toolkit.release:
        return []
    return [
        Problem(
            what=f"{name} {target.framework.version} was not built for CUDA "
            f"{target.toolkit.release}",
            why=f"its version.py says CUDA {cuda or 'none'}; two CUDA releases in one process "
            "lead to undefined symbols",
            fix=f"use a {name} built for CUDA {target.toolkit.release} (-- --framework), or "
            "another toolkit",
        )
    ]


def _check_build_requirements(job: Job) -> list[Problem]:
    target, workspace = job.target, job.workspace
    tree = _source_tree(workspace)
    if tree is None or not workspace.has("environment"):
        return []
    env = workspace.load("environment", Environment)
    system = read_build_system(tree)
    unmet = unmet_requirements([*system.requires, "build"], env.site_packages)
    if not unmet:
        return _check_backend_imports(job, env, system)
    return [
        Problem(
            what="build requirements are missing from the lock",
            why=f"pyproject.toml requires {', '.join(unmet)}",
            fix=target.locked_build.way_to_add(*unmet),
        )
    ]


def _check_run_requirements(job: Job) -> list[Problem]:
    """What only the backend can tell, the stage build asks it first of all."""
    tree = _source_tree(job.workspace)
    return [] if tree is None else check_stated_requirements(job.target, tree)


def _source_tree(workspace: Workspace) -> Path | None:
    """The source as far as it is; a finished build leaves none."""
    stage = next((name for name in ("patch", "source") if workspace.has(name)), None)
    tree = workspace.load(stage, SourceTree).path if stage else None
    return tree if tree and tree.is_dir() else None


def _check_backend_imports(job: Job, env: Environment, system: BuildSystem) -> list[Problem]:
    """Import it where it sees no more than a build would: it may be the source's own.

    That one of the environment's can be imported holds for as long as the environment does.
    """
    imported = _record_of_import(job, env, system)
    if imported and imported.is_file():
        return []
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
    words = confinement.command([python, "-I", "-c", code, system.tree.resolve()])
    answer = run(words, env={}, cwd=confinement.folder, check=False)
    confinement.empty()
    if answer.status == 0:
        if imported:
            write_atomically(imported, "")
        return []
    return [
        Problem(
            what=f"the build backend {system.module} can't be imported",
            why=(answer.output.strip().splitlines() or ["Python exits at once"])[-1],
            fix=f"remove {env.python.parent.parent} and run the same command again; if that "
            "doesn't help, the lock lacks something",
        )
    ]


def _record_of_import(job: Job, env: Environment, system: BuildSystem) -> Path | None:
    """The file that is there once a backend was imported; None: it may be the source's own."""
    if system.backend_path or not job.settings.reuse:
        return None
    name = hashlib.sha256(f"{env.fingerprint}\n{system.module}".encode()).hexdigest()
    return job.workspace.cache / "backends" / f"{name}.imported"
