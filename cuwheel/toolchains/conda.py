"""Toolchains from conda locks: a CUDA release with a GCC and a C library of its own."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import partial
from typing import TYPE_CHECKING, Any

from cuwheel.conda.environment_file import PLATFORM
from cuwheel.conda.install import install_packages
from cuwheel.conda.lock_file import has_changed_input, read_conda_lock, stated_content
from cuwheel.conda.mirrors import Mirrors
from cuwheel.conda.records import NOT_FETCHED
from cuwheel.errors import LockError, ToolchainError
from cuwheel.paths import find_python_lock, project_roots
from cuwheel.system.files import sha256_of_file
from cuwheel.toolchains.conda_layout import (
    check_own_compiler,
    compilers_of,
    complete_prefix,
    programs_of,
)
from cuwheel.toolchains.cuda_home import check_version
from cuwheel.toolchains.store import obtain
from cuwheel.workspace.records import Toolchain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.cuda.toolkits import Toolkit
    from cuwheel.workspace.workspace import Workspace


_LAYOUT = 1  # raise it when what an older cuwheel installed must not be reused
_MACHINE = "x86_64"  # of conda's linux-64


def conda_toolchain(
    toolkit: Toolkit, workspace: Workspace, *, offline: bool = False, reads_all: bool = False
) -> Toolchain:
    """Give the toolchain of `envs/cuda<tag>/conda-lock.yml`; install it where it isn't there.

    Raises:
        LockError: there is no lock, or it was edited by hand.
        DownloadError: a package can't be fetched.
        HashMismatchError: what came for one isn't the file that the lock names.
        InstallError: the packages can't be installed.
        ToolchainError: they are no whole toolkit of this release, or not for this machine.
    """
    source = _find_source(toolkit)
    owner = f"the lock {source.parent.name}/{source.name}"
    _check_machine(owner, toolkit)
    if has_changed_input(source):
        raise LockError(
            f"{owner} can't be used",
            why="environment.yml or virtual-packages.yml has changed since it was written",
            fix=f"nox -s lock -- toolchain:{toolkit.tag}:conda",
        )
    read_conda_lock(source)  # one that was edited shows though its toolchain is installed
    folder = workspace.cache / "toolchains" / f"cuda{toolkit.tag}-conda-{key_of_lock(source)}"
    fill = partial(_install, source, workspace=workspace, final=folder, offline=offline)
    make = partial(_make, fill=fill, owner=owner, toolkit=toolkit)
    stored = obtain(
        folder,
        make,
        console=workspace.console,
        reads_all=reads_all,
        checked=None if reads_all else workspace.checked,
    )
    cc, cxx = compilers_of(folder)
    return Toolchain(
        home=folder,
        version=stored.facts["nvcc"],
        provider="conda",
        fingerprint=stored.facts["content"],
        pinned=True,
        cc=cc,
        cxx=cxx,
        programs=programs_of(folder),
        packages=tuple(tuple(package) for package in stored.facts["packages"]),
    )


def conda_python(release: str, workspace: Workspace, *, offline: bool = False) -> Path | None:
    """Give the Python of `envs/python<tag>/conda-lock.yml`; install it where it isn't there.

    Args:
        release: `3.12`.
        workspace: its cache holds the Python.
        offline: nothing may be downloaded.

    Returns:
        Its executable; None where there is no lock for that release, or none for this machine.

    Raises:
        DownloadError: a package can't be fetched.
        HashMismatchError: what came for one isn't the file that the lock names.
        InstallError: the packages can't be installed.
    """
    tag = release.replace(".", "")
    source = find_python_lock(release)
    if source is None or platform.machine() != _MACHINE:
        return None
    folder = workspace.cache / "pythons" / f"python{tag}-conda-{key_of_lock(source)}"
    fill = partial(_install, source, workspace=workspace, final=folder, offline=offline)
    obtain(folder, fill, console=workspace.console)
    return folder / "bin" / f"python{release}"


def _find_source(toolkit: Toolkit) -> Path:
    """The lock of the first project folder that declares such a toolchain.

    Raises:
        LockError: it has no lock, or none declares one.
    """
    relock = f"nox -s lock -- toolchain:{toolkit.tag}:conda"
    for root in project_roots():
        folder = root / "envs" / f"cuda{toolkit.tag}"
        if (folder / "conda-lock.yml").is_file():
            return folder / "conda-lock.yml"
        if (folder / "environment.yml").is_file():
            raise LockError(
                f"there is no conda lock for CUDA {toolkit.release}",
                why=f"{folder} has an environment.yml but no conda-lock.yml",
                fix=relock,
            )
    raise LockError(
        f"there is no conda lock for CUDA {toolkit.release}",
        why=f"no project folder has envs/cuda{toolkit.tag}/conda-lock.yml",
        fix="write environment.yml and virtual-packages.yml there (envs/cuda122 shows them), "
        f"then `{relock}`",
    )


def key_of_lock(source: Path) -> str:
    """What names the folder that is installed from a lock: 16 hexadecimal digits."""
    content = stated_content(source) or sha256_of_file(source)
    return hashlib.sha256(f"{_LAYOUT} {content}".encode()).hexdigest()[:16]


def _check_machine(owner: str, toolkit: Toolkit) -> None:
    if platform.machine() != _MACHINE:
        raise ToolchainError(
            f"{owner} is not for this machine",
            why=f"it has programs for {PLATFORM}, and this machine is {platform.machine()}",
            fix="use `--toolchain system`"
            if toolkit.provider == "conda"
            else "run without `--toolchain conda`, or use `--toolchain system`",
        )


def _make(
    aside: Path, *, fill: Callable[[Path], dict[str, Any]], owner: str, toolkit: Toolkit
) -> dict[str, Any]:
    facts = fill(aside)
    complete_prefix(aside)
    relock = f"correct its environment.yml, then `nox -s lock -- toolchain:{toolkit.tag}:conda`"
    version = check_version(aside, toolkit.release, owner, fix=relock)
    check_own_compiler(aside, owner)
    return {**facts, "nvcc": version}


def _install(
    source: Path, aside: Path, *, workspace: Workspace, final: Path, offline: bool
) -> dict[str, Any]:
    """Fill a folder from a lock; gives back what the provenance states of it."""
    lock = read_conda_lock(source)
    if lock.files == NOT_FETCHED:
        workspace.console.note(
            f"{source.parent.name}/{source.name} was solved without downloading the files: the "
            "hashes are those of the channel's index"
        )
    install_packages(
        lock.packages,
        aside,
        final,
        Mirrors.of(os.environ),
        cache=workspace.cache,
        console=workspace.console,
        offline=offline,
        title=f"the packages of {source.parent.name}/{source.name}",
        retry_policy=workspace.retry_policy,
    )
    packages = [[one.name, one.version, one.url, one.sha256] for one in lock.packages]
    return {"content": lock.content, "packages": packages}
