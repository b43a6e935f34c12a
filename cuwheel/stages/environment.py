"""Stage environment: a Python environment with exactly the locked build requirements."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cuwheel.cross.packages import foreign_packages
from cuwheel.errors import InstallError
from cuwheel.locks.jobs import check_target_lock
from cuwheel.model.platform import own_platform
from cuwheel.pypi.installed import install_verified
from cuwheel.pypi.uv import install, make_environment
from cuwheel.sandbox.confinement import Confinement
from cuwheel.system.files import remove_tree
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_text
from cuwheel.toolchains.store import obtain
from cuwheel.workspace.records import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.job import Job


_LAYOUT = 3  # raise it when an environment made by an older cuwheel must not be reused
# Frontend, backends and what they import: every build starts with them, and none may write there.
_BUILD_TOOLS = ("build", "packaging", "pyproject_hooks", "scikit_build_core", "setuptools", "wheel")


def environment(job: Job) -> Environment:
    """Make sure that the target's build environment is there, whole and as it was made.

    It is shared between builds and named by its lock and interpreter.

    Raises:
        LockError: the target has no lock, or it doesn't match its input.
        InstallError: the locked packages can't be fetched, or the framework doesn't import.
        DamagedPackagesError: the cache holds damaged ones, and nothing may be downloaded.
    """
    target, workspace = job.target, job.workspace
    check_target_lock(target)
    base = job.python
    identity = f"{_LAYOUT}\n{base.version}\n{base.abi}\n{base.path}\n{read_text(target.lock)}"
    key = hashlib.sha256(identity.encode()).hexdigest()
    # What runs here is the same, whichever machine the wheel is for.
    short = replace(target, platform=own_platform()).id.replace(f"-{target.toolkit.tag}-", "-")
    folder = workspace.cache / "environments" / f"{short}-{key[:16]}"
    reads_all = not job.settings.reuse
    obtain(
        folder,
        partial(_make, job=job, final=folder),
        console=workspace.console,
        reads_all=reads_all,
        checked=None if reads_all else workspace.checked,
    )
    return Environment(
        python=folder / "bin" / "python",
        site_packages=_site_packages(folder, job),
        fingerprint=key,
        base_python=base.path,
        base_version=base.version,
        foreign_packages=foreign_packages(job, target.lock) if target.platform.is_foreign else None,
    )


def _site_packages(folder: Path, job: Job) -> Path:
    return folder / "lib" / f"python{job.python.release}" / "site-packages"


def _make(aside: Path, *, job: Job, final: Path) -> dict[str, str]:
    workspace = job.workspace
    log = workspace.shared_folder("logs") / f"{final.name}.log"
    python = aside / "bin" / "python"

    def fill() -> Path:
        make_environment(aside, job.python.path, cache=workspace.cache, log=log)
        install(
            python,
            job.target.lock,
            cache=workspace.cache,
            offline=job.settings.offline,
            log=log,
            console=workspace.console,
        )
        return _site_packages(aside, job)

    install_verified(
        fill,
        aside,
        job.target.lock,
        cache=workspace.cache,
        offline=job.settings.offline,
        console=workspace.console,
    )
    _compile_build_tools(_site_packages(aside, job), job)
    _check_framework_imports(aside.resolve(), job)
    return {}


def _compile_build_tools(site: Path, job: Job) -> None:
    """Compile the modules that each build would compile for itself again: a quarter of a second."""
    folders = [site / name for name in _BUILD_TOOLS if (site / name).is_dir()]
    if folders:
        # Without site-packages: nothing of them is run. What doesn't compile no build can import.
        python = (job.python.path, "-I", "-S")
        run([*python, "-m", "compileall", "-qq", *folders], env={}, check=False)


def _check_framework_imports(folder: Path, job: Job) -> None:
    """Import the framework once, when the environment is made: that takes seconds.

    What that compiles is part of the environment, and spares each build the time. It runs where it
    sees the environment alone.

    Raises:
        InstallError: it doesn't import.
    """
    framework, python = job.target.framework, folder / "bin" / "python"
    if framework is None:
        return
    code = f"import {framework.name}"
    confinement = Confinement(
        sandbox=job.sandbox, environment=folder, base=job.python.path, folder=folder
    )
    command = confinement.command([python, "-I", "-W", "ignore", "-c", code])
    answer = run(command, env={}, check=False)
    remove_tree(folder / "tmp")  # of the sandbox
    if answer.status:
        words = answer.output.strip().splitlines() or [f"status {answer.status}"]
        raise InstallError(
            f"{framework.name} {framework.version} can't be imported in its environment",
            why=words[-1],
            fix=f"check that the lock has everything it needs; try it: {python} -c '{code}'",
        )
