"""Toolchains from NVIDIA's wheels: from CUDA 13.0 on they hold a whole compiler."""

from __future__ import annotations

import hashlib
import platform
import sys
from pathlib import Path

from cuwheel.base.errors import LockError
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.environments.installed import fill_folder
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.toolchains.cuda_home import check_one_release, finish_home, provider_lock
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import Toolkit

_LAYOUT = 3  # raise it when a toolchain made by an older cuwheel must not be reused


def pypi_toolchain(
    toolkit: Toolkit,
    workspace: Workspace,
    *,
    offline: bool = False,
    reads_all: bool = False,
    machine: str = "",
) -> Toolchain:
    """Return the toolchain of `envs/cuda<tag>/pypi.lock`, which is made if missing.

    Args:
        reads_all: as for `store.obtain`.
        machine: another kind than this one, `aarch64`: headers and libraries are for that, the
            compilers are this machine's. Empty: all is for this machine.

    Raises:
        LockError: there is no lock.
        InstallError: the locked packages can't be downloaded.
        ToolchainError: they are no whole toolkit of this release.
    """
    check_has_compiler(toolkit)
    source = provider_lock(toolkit, "pypi", workspace)
    compilers = None
    if machine:
        compilers = pypi_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all).home
    folder = pypi_folder(toolkit, workspace, machine)

    def make(aside: Path) -> dict[str, str]:
        log = workspace.log_of(folder)
        python = Path(sys.executable)
        fill_folder(aside, python, source, workspace, offline=offline, log=log, machine=machine)
        owner = f"the lock {source.parent.name}/{source.name}"
        check_one_release(aside, toolkit.nvcc, owner)
        home = aside / toolkit.site_folder
        relock = f"correct pypi.in, then `nox -s lock -- toolchain:{toolkit.tag}:pypi`"
        finish_home(home, toolkit.release, owner, fix=relock, compilers=compilers)
        return {}

    stored = obtain(folder, make, workspace, reads_all=reads_all)
    return Toolchain(
        home=folder / toolkit.site_folder,
        version=pinned_version(source, "nvidia-cuda-nvcc") or toolkit.nvcc,
        provider="pypi",
        fingerprint=stored.tree,
        pinned=True,
    )


def pypi_folder(toolkit: Toolkit, workspace: Workspace, machine: str = "") -> Path:
    """Return the folder of `pypi_toolchain`, which needn't be there.

    Raises:
        LockError: there is no lock.
    """
    text = read_text(provider_lock(toolkit, "pypi", workspace))
    identity = [str(_LAYOUT), platform.machine(), text, *filter(None, [machine])]
    key = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
    kind = "-".join(filter(None, ("pypi", machine, key)))
    return workspace.cache / "toolchains" / f"cuda{toolkit.tag}-{kind}"


def check_has_compiler(toolkit: Toolkit) -> None:
    """Check that NVIDIA's wheels of a release hold a whole compiler.

    Raises:
        LockError: they don't.
    """
    if toolkit.provider != "pypi":
        raise LockError(
            f"there is no CUDA {toolkit.release} toolchain from NVIDIA's wheels",
            why="they contain a complete compiler only from CUDA 13.0 on",
            fix=f"run without `--toolchain pypi`: the default is {toolkit.provider}",
        )
