"""Stage environment: a Python environment with exactly the locked build requirements."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from cuwheel.base.errors import InstallError
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import is_regular
from cuwheel.build.environments.build_environment import EnvironmentPlace, shared_environments
from cuwheel.build.environments.installed import fill_environment
from cuwheel.build.locks.lock_jobs import check_target_lock
from cuwheel.build.pipeline.environment_place import environment_of
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.build.toolchains.cross.packages import foreign_packages
from cuwheel.build.toolchains.store import find_equal_files, obtain
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Environment

_SCRATCH = "scratch"  # folder of an environment while it is made; empty afterwards and removed


def environment(job: Job) -> Environment:
    """Make the target's build environment, or check that it is still as it was made.

    It is shared by all builds of an interpreter whose locks pin the same.

    Raises:
        LockError: the target has no lock, or it doesn't match its input.
        InstallError: the locked packages can't be fetched, or the framework doesn't import.
        ToolchainError: the cache holds damaged ones, and nothing may be downloaded.
    """
    target, base = job.target, job.python
    check_target_lock(target)
    place = environment_of(job, base)
    obtain(
        place.folder,
        partial(_make, job=job, place=place),
        job.workspace,
        reads_all=not job.settings.reuse,
    )
    foreign = foreign_packages(job, target.lock) if target.platform.is_foreign else None
    key = hashlib.sha256(f"{place.key} {foreign.name}".encode()).hexdigest() if foreign else ""
    return Environment(
        python=place.folder / "bin" / "python",
        site_packages=place.folder / "lib" / f"python{base.release}" / "site-packages",
        fingerprint=key or place.key,
        base_python=base.path,
        base_version=base.version,
        foreign_packages=foreign,
    )


def _make(aside: Path, *, job: Job, place: EnvironmentPlace) -> dict[str, str]:
    workspace = job.workspace
    log = workspace.log_of(place.folder)

    def find_twins(listed: Mapping[str, str]) -> Mapping[str, Path]:
        shared = shared_environments(workspace.cache)
        return find_equal_files(listed, shared, below="site-packages")

    fill_environment(
        aside,
        job.python,
        job.target.lock,
        workspace,
        offline=job.settings.offline,
        log=log,
        find_twins=find_twins if place.is_shared else None,
    )
    _check_framework_imports(aside.resolve(), job)
    return {}


def _check_framework_imports(folder: Path, job: Job) -> None:
    """Import the framework in a sandbox, once, when the environment is made: that takes seconds.

    Its compiled modules become part of the environment, so each build starts faster.
    """
    framework, python = job.target.framework, folder / "bin" / "python"
    if framework is None or not job.may_run_code:
        return
    code = f"import {framework.name}"
    scratch = folder / _SCRATCH
    confinement = Confinement(
        sandbox=job.sandbox, environment=folder, base=job.python.path, folder=scratch
    )
    # Its files may be those of other environments: what runs there can't write into it.
    compiled = f"pycache_prefix={scratch / 'compiled'}"
    command = confinement.command([python, "-I", "-W", "ignore", "-X", compiled, "-c", code])
    finished = run(command, env={}, check=False)
    _keep_compiled(scratch / "compiled", folder)
    remove_tree(scratch)
    if finished.status:
        lines = finished.output.strip().splitlines() or [f"status {finished.status}"]
        raise InstallError(
            f"{framework.name} {framework.version} can't be imported in its environment",
            why=lines[-1],
            fix=f"check that the lock has everything it needs; try it: {python} -c '{code}'",
        )


def _keep_compiled(compiled: Path, folder: Path) -> None:
    """Move the modules of an environment that Python has compiled to where it looks for them."""
    below = compiled / folder.relative_to(folder.anchor)
    for path in list(below.rglob("*.pyc")):
        source = folder / path.parent.relative_to(below)
        if source.is_dir() and is_regular(path):
            (source / "__pycache__").mkdir(exist_ok=True)
            path.rename(source / "__pycache__" / path.name)
