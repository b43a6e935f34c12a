"""The CUDA home of one release, from one of the providers of toolkits.

A provider is a module: it finds its lock, fetches and unpacks what the lock names, completes the
layout of the CUDA home, and checks that it is whole and of the right release.
"""

from __future__ import annotations

from cuwheel.build.toolchains.from_pypi import pypi_toolchain
from cuwheel.build.toolchains.from_system import system_toolchain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import Toolkit


def provide_toolchain(  # noqa: PLR0913 - release, provider and how thorough
    toolkit: Toolkit,
    provider: str,
    workspace: Workspace,
    *,
    offline: bool = False,
    reads_all: bool = False,
    machine: str = "",
) -> Toolchain:
    """Return a toolchain that is whole and of the right release; install it if it is missing.

    Args:
        provider: `pypi`, `conda` or `system`.
        reads_all: as for `store.obtain`.
        machine: of its libraries and headers, `aarch64`; empty: this one's kind.

    Raises:
        ToolchainError: the provider doesn't have this release.
        LockError: the provider has no lock for it.
        InstallError: the locked packages can't be installed.
        DownloadError: a conda package can't be downloaded.
    """
    if provider == "system":
        return system_toolchain(toolkit, workspace.environ)
    if provider == "conda":
        # It loads slowly, and no other provider needs it.
        from cuwheel.build.toolchains.from_conda import conda_toolchain  # noqa: PLC0415

        return conda_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all)
    return pypi_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all, machine=machine)
