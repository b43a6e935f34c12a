"""Which Python a wheel is built for: one of this machine, or one of a conda lock."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from cuwheel.errors import DownloadError, InstallError, InterpreterNotFoundError
from cuwheel.toolchains.conda import conda_python
from cuwheel.toolchains.pythons import find_python, own_python

if TYPE_CHECKING:
    from cuwheel.workspace.workspace import Workspace


def choose_python(
    asked: str, workspace: Workspace, *, needs_own_headers: bool, may_install: bool
) -> str:
    """What was asked for where the machine has one that will do, else one from a conda lock.

    Args:
        asked: a release, a version, or nothing for the Python that runs nox.
        workspace: its cache holds what is installed.
        needs_own_headers: the system's Python won't do, as the toolchain has another C library.
        may_install: whether one may be installed.

    Returns:
        What was asked for, or the path of the one that takes its place. Where there is none, what
        was asked for: preflight says what is wrong.

    Raises:
        InterpreterNotFoundError: the machine has none, and the one of the lock can't be installed.
        DownloadError: one that has to take the system's place can't be had.
    """
    try:
        found = find_python(asked, os.environ) if asked else own_python()
    except InterpreterNotFoundError as missing:
        is_release = re.fullmatch(r"\d+\.\d+", asked)  # what a lock stands for
        return _instead_of(missing, asked, workspace) if is_release and may_install else asked
    if needs_own_headers and found.is_of_system and may_install:
        path = found.path
        workspace.console.note(
            f"the headers of {path} don't go with this toolchain: taking another"
        )
        return _install(found.release, workspace) or str(path)
    return asked or str(found.path)


def _instead_of(missing: InterpreterNotFoundError, release: str, workspace: Workspace) -> str:
    try:
        return _install(release, workspace) or release
    except (DownloadError, InstallError) as problem:
        raise InterpreterNotFoundError(
            missing.what,
            why=f"{missing.why}\n{problem.what}: {problem.why}",
            fix=f"{missing.fix}; or {problem.fix}",
        ) from problem


def _install(release: str, workspace: Workspace) -> str:
    """The path of the lock's Python; empty where there is no lock."""
    with workspace.console.stage("python"):
        made = conda_python(release, workspace)
    return str(made) if made else ""
