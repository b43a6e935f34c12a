"""Which Python a wheel is built for: one of this machine, or one of a conda lock."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from cuwheel.errors import DownloadError, InstallError, InterpreterNotFoundError
from cuwheel.system.pythons import find_python, own_python

if TYPE_CHECKING:
    from cuwheel.system.pythons import Interpreter
    from cuwheel.workspace.workspace import Workspace


def choose_python(
    asked: str,
    workspace: Workspace,
    *,
    needs_own_headers: bool = False,
    may_install: bool = False,
    offline: bool = False,
) -> Interpreter:
    """The requested one where the machine has one that will do, else one from a conda lock.

    Args:
        asked: a release, a version, a path, or nothing for the Python that runs nox.
        workspace: its cache holds what is installed.
        needs_own_headers: the system's Python won't do, as the toolchain has another C library.
        may_install: whether one may be installed.
        offline: nothing may be downloaded.

    Raises:
        InterpreterNotFoundError: the machine has none, and no lock's can be installed.
        DownloadError: one that has to replace the system's can't be fetched.
    """
    try:
        found = find_python(asked, os.environ) if asked else own_python()
    except InterpreterNotFoundError as missing:
        is_release = re.fullmatch(r"\d+\.\d+", asked)  # what a lock stands for
        if not (is_release and may_install):
            raise
        return _install_missing(missing, asked, workspace, offline=offline)
    is_named = os.sep in asked  # whoever names a path gets that one, or an error
    if needs_own_headers and found.is_of_system and may_install and not is_named:
        workspace.console.note(
            f"the headers of {found.path} don't match this toolchain: using another Python"
        )
        return _install(found.release, workspace, offline=offline) or found
    return found


def _install_missing(
    missing: InterpreterNotFoundError, release: str, workspace: Workspace, *, offline: bool
) -> Interpreter:
    try:
        found = _install(release, workspace, offline=offline)
    except (DownloadError, InstallError) as problem:
        raise InterpreterNotFoundError(
            missing.what,
            why=f"{missing.why}\n{problem.what}: {problem.why}",
            fix=f"{missing.fix}; or {problem.fix}",
        ) from problem
    if found is None:
        raise missing
    return found


def _install(release: str, workspace: Workspace, *, offline: bool) -> Interpreter | None:
    """The lock's Python; None where there is no lock."""
    # Most builds take a Python of the machine: they needn't load what installs conda packages.
    from cuwheel.toolchains.conda import conda_python  # noqa: PLC0415

    with workspace.console.stage("python"):
        made = conda_python(release, workspace, offline=offline)
    return find_python(str(made), os.environ) if made else None
