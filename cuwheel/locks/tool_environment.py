"""Environments of programs that few sessions need: made from a lock when one is started."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

from cuwheel.errors import LockError
from cuwheel.paths import ROOT
from cuwheel.pypi.installed import install_verified
from cuwheel.pypi.uv import install, make_environment
from cuwheel.system.pythons import own_python
from cuwheel.system.whole_files import read_text
from cuwheel.toolchains.store import obtain

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.workspace import Workspace


Tool = Literal["conda-lock", "sigstore", "twine"]
_LOCKS: dict[Tool, tuple[str, str]] = {
    "conda-lock": ("lock", "conda-lock writes the conda locks"),
    "sigstore": ("sigstore", "sigstore signs and verifies without keys"),
    "twine": ("twine", "twine uploads releases"),
}


def tool_python(tool: Tool, workspace: Workspace, *, offline: bool = False) -> Path:
    """Give the Python of a tool's environment; make it where it isn't there.

    Args:
        tool: that is started in it, by `-m`, or imported.
        workspace: its cache holds the environment.
        offline: take everything from the cache.

    Returns:
        To be started with `-B`: what it wrote into the environment, another cuwheel that looks at
        it meanwhile could take for damage.

    Raises:
        LockError: its lock is missing.
        InstallError: its packages can't be fetched.
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
    log = workspace.shared_folder("logs") / f"{folder.name}.log"

    def make(aside: Path) -> dict[str, str]:
        python = aside / "bin" / "python"

        def fill() -> Path:
            make_environment(aside, base.path, cache=workspace.cache, log=log)
            install(
                python,
                lock,
                cache=workspace.cache,
                offline=offline,
                log=log,
                console=workspace.console,
            )
            return aside / "lib" / f"python{base.release}" / "site-packages"

        install_verified(
            fill, aside, lock, cache=workspace.cache, offline=offline, console=workspace.console
        )
        return {}

    return obtain(folder, make, console=workspace.console).folder / "bin" / "python"
