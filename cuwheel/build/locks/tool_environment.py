"""Environments of programs that few sessions need, made from a lock on first use."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from cuwheel.base.errors import LockError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.pythons import own_python
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.environments.installed import fill_environment
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.workspace import Workspace

Tool = Literal["conda-lock", "sigstore", "twine"]
_LOCKS: dict[Tool, tuple[str, str]] = {
    "conda-lock": ("lock", "conda-lock writes the conda locks"),
    "sigstore": ("sigstore", "sigstore signs and verifies without keys"),
    "twine": ("twine", "twine uploads releases"),
}


def tool_python(tool: Tool, workspace: Workspace, *, offline: bool = False) -> Path:
    """Return the Python of a tool's environment, which is made if it is missing.

    Args:
        tool: is started in it with `-m`, or imported.

    Returns:
        To be started with `-B`: another cuwheel could take bytecode in the environment for damage.

    Raises:
        LockError: its lock is missing.
        InstallError: its packages can't be downloaded.
        DiskFullError: the disk is full.
    """
    name, use = _LOCKS[tool]
    lock = ROOT / "envs" / f"{name}.lock"
    if not lock.is_file():
        raise LockError(
            f"envs/{lock.name} is missing",
            why=f"{use}, and nothing is installed without a hash",
            fix=f"git checkout envs/{lock.name}",
        )
    base = own_python()
    key = hashlib.sha256(f"{base.version}\n{base.path}\n{read_text(lock)}".encode()).hexdigest()
    folder = workspace.cache / "environments" / f"{tool}-{key[:16]}"
    log = workspace.log_of(folder)

    def make(environment: Path) -> dict[str, str]:
        fill_environment(environment, base, lock, workspace, offline=offline, log=log)
        return {}

    return obtain(folder, make, workspace).folder / "bin" / "python"
