"""Stage preflight: find every reason why the build can't work before it costs anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cuwheel.build.checks import (
    check_disk,
    check_dist,
    check_driver,
    check_folder_names,
    check_python,
    check_system_packages,
)
from cuwheel.build.compile_cache.choice import check_compile_cache
from cuwheel.build.link_flags import check_linkable
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.cuda.components import component_by_name
from cuwheel.cuda.toolkits import check_archs
from cuwheel.errors import CuwheelError, PreflightError, SourceError
from cuwheel.locks.jobs import check_target_lock
from cuwheel.model.recipe import External
from cuwheel.pypi.build_requirements import (
    BuildSystem,
    framework_cuda,
    read_build_system,
    unmet_requirements,
)
from cuwheel.pypi.lock_file import pinned_version
from cuwheel.system import machine
from cuwheel.system.process import run
from cuwheel.toolchains.host_compiler import (
    check_host_compiler,
    host_compiler,
    is_pinned,
    unused_settings,
)
from cuwheel.workspace.problems import Problem, problem_of
from cuwheel.workspace.records import Environment, Preflight, SourceTree, Toolchain

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuwheel.model.target import Target
    from cuwheel.workspace.workspace import Workspace


def preflight(target: Target, workspace: Workspace) -> Preflight:
    """Check the machine, and what the earlier stages left, against the target.

    It can run at any time: what isn't there yet isn't checked. So a build asks it twice, before
    the first download and before the first compile.

    Raises:
        PreflightError: with every problem found, each with its cause and fix.
        CuwheelError: the one problem, where an error of its own says it.
    """
    checks: list[Callable[[Target, Workspace], list[Problem]]] = [
        check_python,
        _check_archs,
        check_host_compiler,
        check_driver,
        check_system_packages,
        check_disk,
        check_folder_names,
        check_dist,
        _check_lock,
        _check_given_source,
        _check_framework,
        _check_build_requirements,
        check_linkable,
        _check_sandbox,
        check_compile_cache,
    ]
    problems = [problem for check in checks for problem in check(target, workspace)]
    if len(problems) == 1 and problems[0].error:
        raise problems[0].error
    if problems:
        raise PreflightError(
            f"{target.id}: {len(problems)} thing{'s'[: len(problems) > 1]} to put right first",
            why="\n".join(f"{n}. {p.what}: {p.why}" for n, p in enumerate(problems, 1)),
            fix="\n".join(f"{n}. {p.fix}" for n, p in enumerate(problems, 1)),
        )
    _warn_of_suppliers(target, workspace)
    compiler = host_compiler(target, workspace)
    if choose_sandbox(workspace.sandbox) == "none" and workspace.sandbox != "none":
        workspace.console.warn(_NO_SANDBOX)
    if unused := unused_settings(workspace, os.environ):
        workspace.console.note(f"{', '.join(unused)} of your environment: {_UNUSED}")
    return Preflight(
        host_compiler=compiler.cxx if compiler else None,
        c_compiler=compiler.cc if compiler else None,
        host_compiler_version=compiler.banner if compiler else "",
        jobs=workspace.jobs or machine.usable_cores(),
        host_compiler_pinned=is_pinned(workspace),
    )


_NO_SANDBOX = (
    "this system gives no sandbox, so the build could reach the network and other files; the "
    "provenance says so; bubblewrap, where it can be installed, may be granted what others aren't"
)
_UNUSED = "not used, as the toolchain brings its own compilers"


def _check_archs(target: Target, workspace: Workspace) -> list[Problem]:
    problems = []
    try:
        check_archs(target.id, target.toolkit, target.archs)
    except CuwheelError as error:
        problems.append(problem_of(error))
    if not problems and workspace.has("toolchain"):
        nvcc = workspace.load("toolchain", Toolchain).home / "bin" / "nvcc"
        # It writes a temporary file, only to tell what it knows.
        env = {"PATH": os.defpath, "TMPDIR": str(workspace.folder("tmp"))}
        said = run([nvcc, "--list-gpu-arch"], env=env).output
        unknown = [arch for arch in target.archs if f"compute_{arch}" not in said.split()]
        if unknown:
            problems.append(
                Problem(
                    what=f"nvcc itself doesn't know {', '.join(unknown)}",
                    why=f"it lists {' '.join(said.split())}",
                    fix="take these out of `archs`, and correct cuwheel/cuda/toolkits.py",
                )
            )
    return problems


def _check_sandbox(_: Target, workspace: Workspace) -> list[Problem]:
    try:
        choose_sandbox(workspace.sandbox)
    except CuwheelError as error:
        return [problem_of(error)]
    return []


def _check_lock(target: Target, _: Workspace) -> list[Problem]:
    try:
        check_target_lock(target)
    except CuwheelError as error:
        return [problem_of(error)]
    return []


def _warn_of_suppliers(target: Target, workspace: Workspace) -> None:
    """What the wheel will require should be in the lock that it is tried with at the end.

    A warning, as what the recipe declares and no library needs is not required.
    """
    lock = target.smoke_lock
    linked = [
        component_by_name(name, target.toolkit.major) for name in target.recipe.link.components
    ]
    required = [
        component.distribution
        for component in linked
        if component.cuda is None or isinstance(target.mode, External)
    ]
    lacking = [name for name in dict.fromkeys(required) if pinned_version(lock, name) is None]
    if lacking:
        kind = lock.parent.name
        workspace.console.warn(
            f"the finished wheel may fail its smoke test: the recipe's `link` can make it require "
            f"{', '.join(lacking)}, and {kind}/{lock.name} holds none; add it to "
            f"envs/{kind}/{lock.stem}.in, then `nox -s lock -- {kind}:{target.recipe.name}`"
        )


def _check_given_source(target: Target, _: Workspace) -> list[Problem]:
    given = target.source_override
    if given is None or given.is_dir() or given.is_file():
        return []
    error = SourceError(
        f"{given} is neither a folder nor a file",
        why="--source names it, as seen from the folder in which nox was started",
        fix="name a folder with pyproject.toml or setup.py, or an archive of one",
    )
    return [problem_of(error)]


def _check_framework(target: Target, workspace: Workspace) -> list[Problem]:
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
            why=f"its version.py says CUDA {cuda or 'none'}; mixing two CUDA releases in one "
            "process ends in undefined symbols",
            fix=f"take the {name} that was built for CUDA {target.toolkit.release} "
            "(-- --framework), or another toolkit",
        )
    ]


def _check_build_requirements(target: Target, workspace: Workspace) -> list[Problem]:
    stage = next((name for name in ("patch", "source") if workspace.has(name)), None)
    if stage is None or not workspace.has("environment"):
        return []
    env = workspace.load("environment", Environment)
    system = read_build_system(workspace.load(stage, SourceTree).path)
    lacking = unmet_requirements([*system.requires, "build"], env.site_packages)
    if not lacking:
        return _check_backend_imports(env, system)
    return [
        Problem(
            what="build requirements are missing from the lock",
            why=f"pyproject.toml asks for {', '.join(lacking)}",
            fix=f"add them to envs/build/{target.lock_input.name}, then "
            f"`nox -s lock -- build:{target.recipe.name}`",
        )
    ]


def _check_backend_imports(env: Environment, system: BuildSystem) -> list[Problem]:
    paths = f"sys.path[:0] = {list(system.backend_path)!r}"
    code = f"import sys; {paths}; import build, {system.module}"
    answer = run([env.python, "-I", "-c", code], env={}, cwd=system.tree, check=False)
    if answer.status == 0:
        return []
    return [
        Problem(
            what=f"the build backend {system.module} can't be imported",
            why=(answer.output.strip().splitlines() or ["python ends at once"])[-1],
            fix=f"remove {env.python.parent.parent} and run the same command again; if that "
            "doesn't help, the lock misses something",
        )
    ]
