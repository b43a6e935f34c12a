"""Toolchains from conda locks: a CUDA release with a GCC and a C library of its own."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Any

from cuwheel.base.errors import LockError, ToolchainError
from cuwheel.base.paths import find_python_lock
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.toolchains.conda.environment_file import PLATFORM, digest_of_input
from cuwheel.build.toolchains.conda.install import install_packages
from cuwheel.build.toolchains.conda.lock_file import (
    NOT_FETCHED,
    CondaLock,
    read_conda_lock,
    stated_content,
)
from cuwheel.build.toolchains.conda.mirrors import Mirrors
from cuwheel.build.toolchains.conda_layout import (
    check_own_compiler,
    compilers_of,
    complete_prefix,
    programs_of,
    sysroot_of,
)
from cuwheel.build.toolchains.cuda_home import check_version
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import Toolkit

_LAYOUT = 2  # raise it when a toolchain of an older cuwheel must not be reused
_MACHINE = "x86_64"  # of conda's linux-64


def conda_toolchain(
    toolkit: Toolkit, workspace: Workspace, *, offline: bool = False, reads_all: bool = False
) -> Toolchain:
    """Return the toolchain of `envs/cuda<tag>/conda-lock.yml`, which is installed if missing.

    Raises:
        LockError: there is no lock, or it was edited by hand.
        DownloadError: a package can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: the packages can't be installed.
        ToolchainError: they are no whole toolkit of this release, or not for this machine.
    """
    source = _find_source(toolkit, workspace.caller.roots)
    owner = f"the lock {source.parent.name}/{source.name}"
    if platform.machine() != _MACHINE:
        raise ToolchainError(
            f"{owner} is not for this machine",
            why=f"it has programs for {PLATFORM}, and this machine is {platform.machine()}",
            fix="use `--toolchain redist` or `--toolchain system`"
            if toolkit.provider == "conda"
            else "run without `--toolchain conda`, or use `--toolchain system`",
        )
    lock = read_conda_lock(source)
    environment = source.with_name("environment.yml")
    if environment.is_file() and lock.input_digest != digest_of_input(environment):
        raise LockError(
            f"{owner} can't be used",
            why="environment.yml or virtual-packages.yml has changed since it was written",
            fix=f"nox -s lock -- toolchain:{toolkit.tag}:conda",
        )
    folder = workspace.cache / "toolchains" / f"cuda{toolkit.tag}-conda-{key_of_lock(source)}"

    def make(prefix: Path) -> dict[str, Any]:
        facts = _install(lock, source, prefix, folder, workspace, offline=offline)
        complete_prefix(prefix)
        relock = f"correct its environment.yml, then `nox -s lock -- toolchain:{toolkit.tag}:conda`"
        version = check_version(prefix, toolkit.release, owner, fix=relock)
        check_own_compiler(prefix, owner)
        return {**facts, "nvcc": version}

    stored = obtain(folder, make, workspace, reads_all=reads_all)
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
        libraries=sysroot_of(folder) / "usr" / "lib64",
        packages=tuple(tuple(package) for package in stored.facts["packages"]),
    )


def conda_python(release: str, workspace: Workspace, *, offline: bool = False) -> Path | None:
    """Return the Python of `envs/python<tag>/conda-lock.yml`, which is installed if missing.

    Args:
        release: `3.12`.

    Returns:
        Its executable; None without a lock for that release and this machine.

    Raises:
        DownloadError: a package can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: the packages can't be installed.
    """
    tag = release.replace(".", "")
    source = find_python_lock(release, workspace.caller.roots)
    if source is None or platform.machine() != _MACHINE:
        return None
    folder = workspace.cache / "pythons" / f"python{tag}-conda-{key_of_lock(source)}"

    def make(prefix: Path) -> dict[str, Any]:
        lock = read_conda_lock(source)
        return _install(lock, source, prefix, folder, workspace, offline=offline)

    obtain(folder, make, workspace)
    return folder / "bin" / f"python{release}"


def _find_source(toolkit: Toolkit, roots: tuple[Path, ...]) -> Path:
    """Return the lock of the first project folder that declares such a toolchain."""
    why = f"no project folder has envs/cuda{toolkit.tag}/conda-lock.yml"
    fix = f"nox -s lock -- toolchain:{toolkit.tag}:conda"
    for root in roots:
        lock = root / "envs" / f"cuda{toolkit.tag}" / "conda-lock.yml"
        if lock.is_file():
            return lock
        if lock.with_name("environment.yml").is_file():
            why = f"{lock.parent} has an environment.yml but no conda-lock.yml"
            break
    else:
        fix = (
            "write environment.yml and virtual-packages.yml there (envs/cuda122 shows them), then "
            f"`{fix}`"
        )
    raise LockError(f"there is no conda lock for CUDA {toolkit.release}", why=why, fix=fix)


def key_of_lock(source: Path) -> str:
    """Return the name of a lock's installation: 16 hexadecimal digits."""
    content = stated_content(source) or sha256_of_file(source)
    return hashlib.sha256(f"{_LAYOUT} {content}".encode()).hexdigest()[:16]


def _install(  # noqa: PLR0913 - source, destination and report
    lock: CondaLock, source: Path, prefix: Path, final: Path, workspace: Workspace, *, offline: bool
) -> dict[str, Any]:
    """Fill a folder from a lock, and return its facts for the provenance."""
    if lock.files == NOT_FETCHED:
        workspace.console.note(
            f"{source.parent.name}/{source.name} was solved without downloading the files: the "
            "hashes are those of the channel's index"
        )
    install_packages(
        lock.packages,
        prefix,
        final,
        Mirrors.of(workspace.environ),
        workspace,
        offline=offline,
        title=f"the packages of {source.parent.name}/{source.name}",
    )
    packages = [
        [f"conda {package.name}", package.version, package.url, package.sha256]
        for package in lock.packages
    ]
    return {"content": lock.content, "packages": packages}
