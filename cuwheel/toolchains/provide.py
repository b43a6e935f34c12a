"""A CUDA home of one release, from the provider that was chosen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cuwheel.errors import ToolchainError
from cuwheel.toolchains.cuda_home import check_version, find_system_home, identify_home
from cuwheel.toolchains.pypi import pypi_toolchain
from cuwheel.workspace.records import Toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.cuda.toolkits import Toolkit
    from cuwheel.workspace.workspace import Workspace


def provide_toolchain(  # noqa: PLR0913 - what, from where, and how careful
    toolkit: Toolkit,
    provider: str,
    workspace: Workspace,
    *,
    offline: bool = False,
    reads_all: bool = False,
    machine: str = "",
    environ: Mapping[str, str] = os.environ,
) -> Toolchain:
    """Make sure that the toolchain is there, whole and of the right release.

    Args:
        toolkit: the CUDA release.
        provider: `pypi`, `conda` or `system`.
        workspace: its cache holds the toolchain.
        offline: nothing may be downloaded.
        reads_all: as for `store.obtain`.
        machine: what its libraries and headers are for, `aarch64`; empty: this one's kind.
        environ: where the `system` provider reads `CUDA_HOME`; the others never do.

    Raises:
        ToolchainError: the provider can't give this release.
        LockError: the provider has no lock for it.
        InstallError: the locked packages can't be installed.
        DownloadError: a conda package can't be fetched.
    """
    if provider == "system":
        return _system_toolchain(toolkit, environ)
    if provider == "conda":
        # What installs conda packages is large, and no other provider needs it.
        from cuwheel.toolchains.conda import conda_toolchain  # noqa: PLC0415

        return conda_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all)
    return pypi_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all, machine=machine)


def _system_toolchain(toolkit: Toolkit, environ: Mapping[str, str]) -> Toolchain:
    home, homes = find_system_home(toolkit.release, environ)
    if home is None:
        raise ToolchainError(
            "no CUDA toolkit was found on this machine",
            why=f"searched for bin/nvcc in {', '.join(map(str, homes))}",
            fix="set CUDA_HOME to the toolkit, or run without `--toolchain system`",
        )
    fix = (
        f"point CUDA_HOME at a complete CUDA {toolkit.release}, or run without `--toolchain system`"
    )
    version = check_version(home, toolkit.release, str(home), fix=fix)
    return Toolchain(
        home=home.resolve(),
        version=version,
        provider="system",
        fingerprint=identify_home(home),
        pinned=False,
    )
