"""Toolchains from NVIDIA's redistributable archives: any release, for x86-64 and arm64 servers."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

from cuwheel.base.errors import LockError, ToolchainError
from cuwheel.build.toolchains.cuda_home import finish_home, provider_lock
from cuwheel.build.toolchains.redist.install import install_archives
from cuwheel.build.toolchains.redist.lock_file import (
    NOT_FETCHED,
    RedistArchive,
    RedistLock,
    content_of,
    digest_of_redist_input,
    read_redist_lock,
)
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import Toolkit

# What a home can't compile without, in four components of CUDA 13 and in two of CUDA 12.
_NEEDED = (
    *("bin/nvcc", "bin/ptxas", "nvvm/bin/cicc"),
    *("include/crt/host_config.h", "include/cuda_runtime.h", "lib/libcudart.so"),
)
_LAYOUT = 1  # raise it when a toolchain made by an older cuwheel must not be reused


def redist_toolchain(
    toolkit: Toolkit,
    workspace: Workspace,
    *,
    offline: bool = False,
    reads_all: bool = False,
    machine: str = "",
) -> Toolchain:
    """Return the toolchain of `envs/cuda<tag>/redist.lock`, which is made if missing.

    Args:
        reads_all: as for `store.obtain`.
        machine: another kind than this one, `aarch64`: headers and libraries are for that, the
            compilers are this machine's. Empty: all is for this machine.

    Raises:
        LockError: there is no lock, or it was edited by hand.
        DownloadError: an archive can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: the archives can't be made into one folder.
        ToolchainError: they are no whole toolkit of this release, or not for this machine.
    """
    source = provider_lock(toolkit, "redist", workspace)
    owner = f"the lock {source.parent.name}/{source.name}"
    relock = f"nox -s lock -- toolchain:{toolkit.tag}:redist"
    lock = _read_lock(source, owner, relock)
    archives = lock.for_machine(machine or platform.machine())
    if not archives:
        raise ToolchainError(
            f"{owner} is not for this machine",
            why=f"it has no archive for {machine or platform.machine()}",
            fix="use `--toolchain system`",
        )
    compilers = None
    if machine:
        own = redist_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all)
        compilers = own.home
    kind = "-".join(filter(None, ("redist", machine, key_of_archives(archives, compilers))))
    folder = workspace.cache / "toolchains" / f"cuda{toolkit.tag}-{kind}"

    def make(home: Path) -> dict[str, str]:
        if lock.files == NOT_FETCHED:
            workspace.console.note(
                f"{source.parent.name}/{source.name} was written without downloading the files: "
                "the hashes are those of NVIDIA's manifest"
            )
        install_archives(archives, home, workspace, offline=offline, owner=owner)
        _check_whole(home, owner, relock)
        fix = f"correct redist.in, then `{relock}`"
        return {"nvcc": finish_home(home, toolkit.release, owner, fix=fix, compilers=compilers)}

    stored = obtain(folder, make, workspace, reads_all=reads_all)
    return Toolchain(
        home=folder,
        version=stored.facts["nvcc"],
        provider="redist",
        fingerprint=stored.tree,
        pinned=True,
        packages=tuple(
            (f"redist {item.name}", item.version, item.url, item.sha256) for item in archives
        ),
    )


def _read_lock(source: Path, owner: str, relock: str) -> RedistLock:
    lock = read_redist_lock(source)
    declared = source.with_name("redist.in")
    if declared.is_file() and lock.input_digest != digest_of_redist_input(declared):
        raise LockError(
            f"{owner} can't be used",
            why="redist.in has changed since it was written",
            fix=relock,
        )
    return lock


def _check_whole(home: Path, owner: str, relock: str) -> None:
    if missing := [name for name in _NEEDED if not (home / name).exists()]:
        raise ToolchainError(
            f"{owner} is no whole toolkit",
            why=f"its archives have no {', '.join(missing)}",
            fix="add the component to redist.in: cuda_nvcc and cuda_cudart, from CUDA 13 on "
            f"cuda_crt and libnvvm too; then `{relock}`",
        )


def key_of_archives(archives: tuple[RedistArchive, ...], compilers: Path | None = None) -> str:
    """Return the name of an installation: 16 hexadecimal digits.

    Args:
        compilers: the home with the programs, where they are for another machine.
    """
    identity = (str(_LAYOUT), content_of(archives), compilers.name if compilers else "")
    return hashlib.sha256(" ".join(identity).encode()).hexdigest()[:16]
