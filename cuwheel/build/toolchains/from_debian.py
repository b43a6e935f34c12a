"""Toolchains of CUDA 11 and 12: compilers from Debian's packages, libraries from NVIDIA's wheels.

NVIDIA's wheels hold a whole compiler only from CUDA 13.0 on. Debian's nvidia-cuda-toolkit has it,
in the folders of a system; nvidia-cuda-dev has the archives that the wheels lack.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from pathlib import Path
from typing import Any

from cuwheel.base.errors import InstallError
from cuwheel.base.system.files import describe_file, remove_tree
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.environments.installed import fill_folder
from cuwheel.build.toolchains.cuda_home import finish_home, provider_lock
from cuwheel.build.toolchains.debian.install import unpack_packages
from cuwheel.build.toolchains.debian.lock_file import DebianLock, read_debian_lock
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import Toolkit

_LAYOUT = 1  # raise it when a toolchain made by an older cuwheel must not be reused
_OWN = "usr/lib/nvidia-cuda-toolkit"
_PROGRAMS = (
    *("bin2c", "cu++filt", "cudafe++", "cuobjdump", "fatbinary"),
    *("nvdisasm", "nvlink", "nvprune", "ptxas"),
)
# Archives that nvcc itself names when it links (`nvcc --dryrun`), and their part of the system.
_ARCHIVES = ("libcudadevrt.a", "libcudart_static.a", "libculibos.a")
# Debian's own names the folders of its system. The variables: NVIDIA's "CUDA Compiler Driver
# NVCC", chapter "nvcc.profile".
_PROFILE = """\
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
CUDAFE_FLAGS +=
PTXAS_FLAGS +=
"""


def debian_toolchain(
    toolkit: Toolkit, workspace: Workspace, *, offline: bool = False, reads_all: bool = False
) -> Toolchain:
    """Return the toolchain of `envs/cuda<tag>/debian.lock` and its `pypi.lock`, made if missing.

    Args:
        reads_all: as for `store.obtain`.

    Raises:
        LockError: one of them is missing, or has nothing for this kind of machine.
        DownloadError: a package can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: the packages can't be installed.
        ToolchainError: they are no whole toolkit of this release.
    """
    packages = provider_lock(toolkit, "debian", workspace)
    wheels = provider_lock(toolkit, "debian", workspace, "pypi")
    lock, machine = read_debian_lock(packages), platform.machine()
    folder = _folder(toolkit, lock, wheels, workspace)

    def make(home: Path) -> dict[str, Any]:
        title = f"the packages of {packages.parent.name}/{packages.name}"
        root, site = home / "packages", home / "wheels"
        unpack_packages(
            *(lock, root, workspace),
            machine=machine,
            offline=offline,
            title=title,
            only=_is_needed,
            unpacked=1,  # most of nvidia-cuda-dev are archives that the wheels replace
        )
        _check_compilers(root, title)
        log = workspace.log_of(folder)
        fill_folder(site, Path(sys.executable), wheels, workspace, offline=offline, log=log)
        _place_wheels(home, site)
        _place_compilers(home, root)
        remove_tree(root)
        remove_tree(site)
        owner = f"the lock {packages.parent.name}/{packages.name}"
        relock = f"correct its debian.yml, then `nox -s lock -- toolchain:{toolkit.tag}:debian`"
        return {"nvcc": finish_home(home, toolkit.release, owner, fix=relock)}

    stored = obtain(folder, make, workspace, reads_all=reads_all)
    return Toolchain(
        home=folder,
        version=stored.facts["nvcc"],
        provider="debian",
        fingerprint=stored.tree,
        pinned=True,
        packages=lock.stated_packages(machine),
    )


def debian_folder(toolkit: Toolkit, workspace: Workspace) -> Path:
    """Return the folder of `debian_toolchain`, which needn't be there.

    Raises:
        LockError: a lock is missing.
    """
    lock = read_debian_lock(provider_lock(toolkit, "debian", workspace))
    return _folder(toolkit, lock, provider_lock(toolkit, "debian", workspace, "pypi"), workspace)


def _folder(toolkit: Toolkit, lock: DebianLock, wheels: Path, workspace: Workspace) -> Path:
    machine = platform.machine()
    identity = f"{_LAYOUT} {machine} {lock.digest_for(machine)} {read_text(wheels)}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return workspace.cache / "toolchains" / f"cuda{toolkit.tag}-debian-{key}"


def _is_needed(member: str) -> bool:
    folder, _, name = member.rpartition("/")
    return (
        member.startswith((f"{_OWN}/bin/", f"{_OWN}/libdevice/"))
        or (folder == "usr/bin" and name in _PROGRAMS)
        or (folder.startswith("usr/lib/") and name in _ARCHIVES)
        or (folder.endswith("/stubs") and name == "libcuda.so")
        or (folder.startswith("usr/share/doc/") and name == "copyright")
    )


def _place_wheels(home: Path, site: Path) -> None:
    """Merge the headers and libraries of all components: each wheel has folders of its own.

    Raises:
        InstallError: two wheels have different files of one name.
    """
    for component in sorted((site / "nvidia").iterdir()):
        for name in ("include", "lib"):
            _merge(component / name, home / name)
        _merge(component / "nvvm" / "include", home / "nvvm" / "include")


def _merge(source: Path, target: Path) -> None:
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        place = target / path.relative_to(source)
        if path.is_dir() or path.name == "__init__.py":
            continue
        if place.exists() and describe_file(place) != describe_file(path):
            raise InstallError(
                f"{place.name} differs in two of NVIDIA's wheels",
                why=f"{path.relative_to(source)} of {source.parent.name} is another file",
                fix="write the lock again with wheels of one CUDA release: `nox -s lock`",
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)


def _check_compilers(root: Path, title: str) -> None:
    """Raise an InstallError if packages lack what is moved from them."""
    needed = [f"{_OWN}/bin/cicc", f"{_OWN}/libdevice", *(f"usr/bin/{name}" for name in _PROGRAMS)]
    if missing := [name for name in needed if not (root / name).exists()]:
        raise InstallError(
            f"{title} are no whole compiler",
            why=f"they have no {', '.join(missing)}",
            fix="write the lock again from a suite whose nvidia-cuda-toolkit has them: "
            "`nox -s lock`",
        )


def _place_compilers(home: Path, root: Path) -> None:
    own, programs = root / _OWN, home / "bin"
    (own / "bin").replace(programs)
    for wrapper in ("gcc", "g++", "nvcc.profile"):  # for Debian's own GCC, in its folders
        (programs / wrapper).unlink(missing_ok=True)
    for name in _PROGRAMS:
        (root / "usr" / "bin" / name).replace(programs / name)
    (programs / "nvcc.profile").write_text(_PROFILE)
    (home / "nvvm" / "bin").mkdir(parents=True)
    (programs / "cicc").replace(home / "nvvm" / "bin" / "cicc")
    (own / "libdevice").replace(home / "nvvm" / "libdevice")
    library = root / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    for name in _ARCHIVES:
        if (library / name).is_file():
            (library / name).replace(home / "lib" / name)
    if (stub := library / "stubs" / "libcuda.so").is_file():
        (home / "lib" / "stubs").mkdir(exist_ok=True)
        stub.replace(home / "lib" / "stubs" / stub.name)
    for licence in (root / "usr" / "share" / "doc").glob("*/copyright"):
        (home / "licences").mkdir(exist_ok=True)
        licence.replace(home / "licences" / licence.parent.name)
