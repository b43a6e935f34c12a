"""The CUDA home of one release, from one of the providers of toolkits.

A provider is a module: it finds its lock, fetches and unpacks what the lock names, completes the
layout of the CUDA home, and checks that it is whole and of the right release.
"""

from __future__ import annotations

from cuwheel.build.toolchains.from_pypi import pypi_toolchain
from cuwheel.build.toolchains.from_redist import redist_toolchain
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
    host_compiler: str = "system",
) -> Toolchain:
    """Return a toolchain that is whole and of the right release; install it if it is missing.

    Args:
        provider: `pypi`, `debian`, `conda`, `redist` or `system`.
        reads_all: as for `store.obtain`.
        machine: of its libraries and headers, `aarch64`; empty: this one's kind.
        host_compiler: `system`, or the name of a pinned one, `gcc10`.

    Raises:
        ToolchainError: the provider doesn't have this release.
        LockError: the provider has no lock for it.
        InstallError: the locked packages can't be installed.
        DownloadError: a package or an archive can't be downloaded.
    """
    if provider == "system":
        toolchain = system_toolchain(toolkit, workspace, workspace.environ)
    elif provider == "conda":
        # It loads slowly, and no other provider needs it.
        from cuwheel.build.toolchains.from_conda import conda_toolchain  # noqa: PLC0415

        toolchain = conda_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all)
    elif provider == "debian":
        from cuwheel.build.toolchains.from_debian import debian_toolchain  # noqa: PLC0415

        toolchain = debian_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all)
    else:
        make = redist_toolchain if provider == "redist" else pypi_toolchain
        toolchain = make(toolkit, workspace, offline=offline, reads_all=reads_all, machine=machine)
    if host_compiler == "system":
        return toolchain
    # Most builds use the machine's compiler: they needn't load what unpacks Debian packages.
    from cuwheel.build.toolchains.pinned_compiler import add_compiler  # noqa: PLC0415

    return add_compiler(toolchain, host_compiler, workspace, offline=offline, reads_all=reads_all)
