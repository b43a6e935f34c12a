"""Toolchains from NVIDIA's wheels: from CUDA 13.0 on they hold a whole compiler."""

from __future__ import annotations

import hashlib
import platform
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import LockError
from cuwheel.paths import find_lock, project_roots
from cuwheel.pypi.installed import install_verified
from cuwheel.pypi.lock_file import pinned_version
from cuwheel.pypi.uv import install_into
from cuwheel.system.files import remove_tree
from cuwheel.system.whole_files import read_text
from cuwheel.toolchains.cuda_home import check_one_release, check_version, complete
from cuwheel.toolchains.store import obtain
from cuwheel.workspace.records import Toolchain

if TYPE_CHECKING:
    from cuwheel.cuda.toolkits import Toolkit
    from cuwheel.workspace.workspace import Workspace


# Folders of programs, and of what these load. Nothing of them gets into what is compiled but
# libdevice, which is the same for every machine.
_PROGRAMS = ("bin", "nvvm")
_LAYOUT = 3  # raise it when a toolchain made by an older cuwheel must not be reused


def pypi_toolchain(
    toolkit: Toolkit,
    workspace: Workspace,
    *,
    offline: bool = False,
    reads_all: bool = False,
    machine: str = "",
) -> Toolchain:
    """Give the toolchain of `envs/cuda<tag>/pypi.lock`; make it where it isn't there.

    Args:
        toolkit: the CUDA release.
        workspace: its cache holds the toolchain.
        offline: nothing may be downloaded.
        reads_all: as for `store.obtain`.
        machine: another kind than this one, `aarch64`: headers and libraries are for that, the
            compilers are this machine's. Empty: all is for this machine.

    Raises:
        LockError: there is no lock.
        InstallError: the locked packages can't be fetched.
        ToolchainError: they are no whole toolkit of this release.
    """
    source = find_lock(f"cuda{toolkit.tag}/pypi.lock", project_roots())
    if source is None:
        check_has_compiler(toolkit)
        raise LockError(
            f"there is no PyPI lock for CUDA {toolkit.release}",
            why=f"envs/cuda{toolkit.tag}/pypi.lock doesn't exist",
            fix=f"nox -s lock -- toolchain:{toolkit.tag}",
        )
    identity = f"{_LAYOUT}\n{platform.machine()}\n{read_text(source)}"
    own = (
        pypi_toolchain(toolkit, workspace, offline=offline, reads_all=reads_all)
        if machine
        else None
    )
    identity += f"\n{machine}" if machine else ""
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    kind = "-".join(part for part in ("pypi", machine, key) if part)
    folder = workspace.cache / "toolchains" / f"cuda{toolkit.tag}-{kind}"
    make = partial(
        _make,
        source=source,
        toolkit=toolkit,
        workspace=workspace,
        offline=offline,
        final=folder,
        machine=machine,
        compilers=own.home if own else None,
    )
    stored = obtain(
        folder,
        make,
        console=workspace.console,
        reads_all=reads_all,
        checked=None if reads_all else workspace.checked,
    )
    return Toolchain(
        home=folder / toolkit.site_folder,
        version=pinned_version(source, "nvidia-cuda-nvcc") or toolkit.nvcc,
        provider="pypi",
        fingerprint=stored.tree,
        pinned=True,
    )


def _take_compilers(home: Path, own: Path) -> None:
    """Put this machine's nvcc and its parts in the place of those that only the other runs."""
    for name in _PROGRAMS:
        remove_tree(home / name)
        shutil.copytree(own / name, home / name, symlinks=True)
    wrapped = home / "bin" / "nvlink-real"
    if wrapped.exists():  # `complete` wraps it again
        wrapped.replace(home / "bin" / "nvlink")


def check_has_compiler(toolkit: Toolkit) -> None:
    """See that NVIDIA's wheels of a release hold a whole compiler.

    Raises:
        LockError: they don't.
    """
    if toolkit.provider != "pypi":
        raise LockError(
            f"there is no CUDA {toolkit.release} toolchain from NVIDIA's wheels",
            why="they contain a complete compiler only from CUDA 13.0 on",
            fix="run without `--toolchain pypi`: the default for this release is conda",
        )


def _make(  # noqa: PLR0913 - what, from what, and where
    aside: Path,
    *,
    source: Path,
    toolkit: Toolkit,
    workspace: Workspace,
    offline: bool,
    final: Path,
    machine: str,
    compilers: Path | None,
) -> dict[str, str]:
    log = workspace.cache / "logs" / f"{final.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    owner = f"the lock {source.parent.name}/{source.name}"

    def fill() -> Path:
        install_into(
            aside,
            source,
            python=Path(sys.executable),
            cache=workspace.cache,
            offline=offline,
            log=log,
            console=workspace.console,
            machine=machine,
        )
        check_one_release(aside, toolkit.nvcc, owner)
        return aside

    install_verified(
        fill, aside, source, cache=workspace.cache, offline=offline, console=workspace.console
    )
    if compilers:
        _take_compilers(aside / toolkit.site_folder, compilers)
    complete(aside / toolkit.site_folder)
    relock = f"correct pypi.in, then `nox -s lock -- toolchain:{toolkit.tag}:pypi`"
    check_version(aside / toolkit.site_folder, toolkit.release, owner, fix=relock)
    return {}
