"""The Python that a wheel is built for: one of this machine, or one of a conda lock."""

from __future__ import annotations

import os
import re

from cuwheel.base.errors import DownloadError, InstallError, InterpreterNotFoundError
from cuwheel.base.system.pythons import Interpreter, find_python, own_python
from cuwheel.build.workspace.workspace import Workspace


def choose_python(
    requested: str,
    workspace: Workspace,
    *,
    needs_own_headers: bool = False,
    may_install: bool = False,
    offline: bool = False,
) -> Interpreter:
    """Return the requested Python of the machine if it is suitable, else one from a conda lock.

    Args:
        requested: a release, a version, a path, or empty for the Python that runs nox.

    Raises:
        InterpreterNotFoundError: the machine has none, and no lock's can be installed.
        DownloadError: one that has to replace the system's can't be downloaded.
    """
    try:
        python = find_python(requested, workspace.environ) if requested else own_python()
    except InterpreterNotFoundError as missing:
        is_release = re.fullmatch(r"\d+\.\d+", requested)  # as a lock is for
        if not (is_release and may_install):
            raise
        return _install_missing(missing, requested, workspace, offline=offline)
    is_path = os.sep in requested  # which is used, or an error
    if needs_own_headers and python.is_of_system and may_install and not is_path:
        workspace.console.note(
            f"the headers of {python.path} don't match this toolchain: using another Python"
        )
        return _install(python.release, workspace, offline=offline) or python
    return python


def _install_missing(
    missing: InterpreterNotFoundError, release: str, workspace: Workspace, *, offline: bool
) -> Interpreter:
    try:
        python = _install(release, workspace, offline=offline)
    except (DownloadError, InstallError) as problem:
        raise InterpreterNotFoundError(
            missing.what,
            why=f"{missing.why}\n{problem.what}: {problem.why}",
            fix=f"{missing.fix}; or {problem.fix}",
        ) from problem
    if python is None:
        raise missing
    return python


def _install(release: str, workspace: Workspace, *, offline: bool) -> Interpreter | None:
    """Return the lock's Python; None without a lock."""
    # Most builds use a Python of the machine: they needn't load the installer of conda packages.
    from cuwheel.build.toolchains.from_conda import conda_python  # noqa: PLC0415

    with workspace.console.stage("python"):
        path = conda_python(release, workspace, offline=offline)
    return find_python(str(path), workspace.environ) if path else None
