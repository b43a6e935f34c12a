"""Stage toolchain: a CUDA home of the target's release, from a lock or from the machine."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.artefacts import Toolchain
from cuwheel.cudahome import (
    check_one_release,
    check_records,
    check_version,
    complete,
    find_system_home,
)
from cuwheel.errors import DamagedPackagesError, LockError, ToolchainError
from cuwheel.files import (
    lock,
    naming_full_disk,
    new_folder,
    remove_leftovers,
    remove_tree,
    sha256_of_file,
    sha256_of_tree,
    write_atomically,
)
from cuwheel.installer import forget, install_into
from cuwheel.lockfile import pinned_version, read_pins
from cuwheel.paths import find_lock, project_roots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.toolkits import Toolkit
    from cuwheel.workspace import Workspace

_LAYOUT = 1  # raise it when a toolchain made by an older cuwheel must not be reused


def toolchain(
    toolkit: Toolkit, provider: str, space: Workspace, environ: Mapping[str, str] = os.environ
) -> Toolchain:
    """Make sure that the toolchain is there, whole and of the right release.

    Args:
        toolkit: the CUDA release.
        provider: `pypi`, `conda` or `system`.
        space: its cache holds the toolchain.
        environ: where the `system` provider looks for `CUDA_HOME`; the others never look.

    Raises:
        ToolchainError: the provider can't give this release.
        LockError: the provider has no lock for it.
        InstallError: the locked packages can't be had.
    """
    if provider == "system":
        return _system_toolchain(toolkit, environ)
    if provider == "conda":
        raise LockError(
            f"there is no conda lock for CUDA {toolkit.release}",
            why=f"envs/cuda{toolkit.tag}/conda-lock.yml doesn't exist, and this version of cuwheel "
            "makes toolchains from NVIDIA's wheels only",
            fix="leave `--toolchain` out (pypi), or use `--toolchain system`",
        )
    return _pypi_toolchain(toolkit, space)


def _pypi_toolchain(toolkit: Toolkit, space: Workspace) -> Toolchain:
    source = find_lock(f"cuda{toolkit.tag}/pypi.lock", project_roots())
    if source is None:
        raise LockError(
            f"there is no PyPI lock for CUDA {toolkit.release}",
            why="NVIDIA's wheels hold a whole compiler only from CUDA 13.0 on"
            if toolkit.major < 13  # noqa: PLR2004 - see facts in `why`
            else f"envs/cuda{toolkit.tag}/pypi.lock doesn't exist",
            fix=f"nox -s lock -- toolchain:{toolkit.tag}",
        )
    key = hashlib.sha256(
        f"{_LAYOUT}\n{platform.machine()}\n{source.read_text()}".encode()
    ).hexdigest()[:16]
    folder = space.cache / "toolchains" / f"cuda{toolkit.tag}-pypi-{key}"

    def tell() -> None:
        space.console.note("another cuwheel is making this toolchain; waiting for it")

    with lock(folder.with_name(f"{folder.name}.lock"), on_wait=tell):
        remove_leftovers(folder)
        fingerprint = _verified_fingerprint(folder)
        if fingerprint is None:
            if folder.exists():
                space.console.warn(f"{folder.name} was damaged and is made again")
                remove_tree(folder)
            fingerprint = _make_soundly(folder, source, toolkit, space)
    return Toolchain(
        home=folder / toolkit.site_folder,
        version=pinned_version(source, "nvidia-cuda-nvcc") or toolkit.nvcc,
        provider="pypi",
        fingerprint=fingerprint,
        pinned=True,
    )


def _verified_fingerprint(folder: Path) -> str | None:
    """The fingerprint of a whole toolchain; None when it isn't there or isn't as it was made."""
    try:
        expected: str = json.loads((folder / "toolchain.json").read_text())["fingerprint"]
        actual = _fingerprint(folder)
    except (OSError, ValueError, KeyError):
        return None
    return expected if actual == expected else None


def _fingerprint(folder: Path) -> str:
    return sha256_of_tree(folder, skip=lambda name: str(name) == "toolchain.json")


def _make_soundly(folder: Path, source: Path, toolkit: Toolkit, space: Workspace) -> str:
    """Make it, and where the installer's cache turns out damaged, make it from new downloads.

    A toolchain's files are hard links into that cache: what damaged one may have damaged both.
    """
    try:
        return _make(folder, source, toolkit, space)
    except DamagedPackagesError:
        if space.offline:
            raise
        space.console.warn("the installer's cache is damaged too; its files are downloaded again")
        forget([pin.requirement.name for pin in read_pins(source)], cache=space.cache)
        return _make(folder, source, toolkit, space)


def _make(folder: Path, source: Path, toolkit: Toolkit, space: Workspace) -> str:
    log = space.cache / "logs" / f"{folder.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with naming_full_disk(folder.parent), new_folder(folder) as aside:
        install_into(
            aside,
            source,
            python=Path(sys.executable),
            cache=space.cache,
            offline=space.offline,
            log=log,
            console=space.console,
        )
        home = aside / toolkit.site_folder
        owner = f"the lock {source.parent.name}/{source.name}"
        check_one_release(aside, toolkit.nvcc, owner)
        check_records(aside)
        complete(home)
        check_version(home, toolkit.release, owner)
        fingerprint = _fingerprint(aside)
        write_atomically(aside / "toolchain.json", json.dumps({"fingerprint": fingerprint}))
    return fingerprint


def _system_toolchain(toolkit: Toolkit, environ: Mapping[str, str]) -> Toolchain:
    home, homes = find_system_home(toolkit.release, environ)
    if home is None:
        raise ToolchainError(
            "no CUDA toolkit was found on this machine",
            why=f"looked for bin/nvcc in {', '.join(map(str, homes))}",
            fix="set CUDA_HOME to the toolkit, or leave `--toolchain system` out",
        )
    version = check_version(home, toolkit.release, str(home))
    return Toolchain(
        home=home.resolve(),
        version=version,
        provider="system",
        fingerprint=sha256_of_file((home / "bin" / "nvcc").resolve()),
        pinned=False,
    )
