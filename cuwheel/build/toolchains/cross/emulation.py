"""Programs of another kind of machine, run by QEMU with that machine's root as their system.

QEMU's user mode translates one program's instructions and hands its system calls to this kernel
(QEMU's manual, "User Mode Emulation"). GPUs can't be used: NVIDIA's driver doesn't support such
programs. An emulated program can only start another one if the system's binfmt_misc has QEMU
registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.formats.binaries.elf import ElfFormatError, read_elf
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.process import run, which
from cuwheel.base.system.regular_files import open_file
from cuwheel.build.recipe.platform import Platform
from cuwheel.build.sandbox.mounts import Mount
from cuwheel.build.toolchains.cross.root_libraries import library_folders
from cuwheel.build.workspace.job import TargetRoot
from cuwheel.check.cuda.suppliers import component_of, is_cuda_library

PACKAGE = "qemu-user-static"  # of Debian and Ubuntu
# Inside a sandbox; below a name that no system has, as the root's own folders are read-only.
_INSIDE = Path("/.emulator")
_SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "sbin", "usr")
_MANYLINUX = ("opt/python", "opt/_internal")  # of the images of PyPA's manylinux project
_TOOLKITS = ("usr/local/cuda*", "opt/cuda*")  # as `smoke.hide_cuda` has them


@dataclass(frozen=True, kw_only=True)
class Emulator:
    """A QEMU that needs no library of this machine, which a foreign root doesn't have.

    Attributes:
        version: `qemu-aarch64 7.2.22`.
    """

    program: Path
    version: str

    def command(self, root: TargetRoot, *, is_sandboxed: bool) -> tuple[str, ...]:
        """Return the command to put before a program and its arguments.

        Args:
            is_sandboxed: by `emulated_system`; otherwise libraries are searched in `root` first,
                and then on this machine.
        """
        if is_sandboxed:
            return (str(_INSIDE / self.program.name),)
        return (str(self.program), "-L", str(root.folder))


def find_emulator(platform: Platform) -> Emulator | None:
    """Return this machine's QEMU for programs of another; None without a static one."""
    for name in (f"{platform.emulator}-static", platform.emulator):
        program = which(name, SYSTEM_PATH)
        if program and _is_static(Path(program)):
            # `qemu-aarch64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`
            version = run([program, "--version"], env={"PATH": SYSTEM_PATH}).output.split()[2]
            return Emulator(program=Path(program), version=f"{platform.emulator} {version}")
    return None


def emulated_system(
    root: TargetRoot, platform: Platform, emulator: Emulator, decoy: Path
) -> tuple[Mount, ...]:
    """Return the mounts of a sandbox that replace this machine's system folders; CUDA is hidden.

    Args:
        decoy: from `smoke.hide_cuda.write_decoy`; replaces single libraries of CUDA.
    """
    mounts = []
    for name in (*_SYSTEM, *_MANYLINUX):
        path, target = root.folder / name, Path("/", name)
        if path.is_symlink():
            mounts.append(Mount(source=path.readlink(), target=target, kind="link"))
        elif path.is_dir():
            mounts.append(Mount(source=path, target=target))
    program = _INSIDE / emulator.program.name
    mounts.append(Mount(source=emulator.program.resolve(), target=program))
    for path in cuda_of_root(root, platform):
        target = Path("/") / path.relative_to(root.folder)
        source, kind = (path, "cover") if path.is_dir() else (decoy, "read")
        mounts.append(Mount(source=source, target=target, kind=kind))
    return tuple(mounts)


def cuda_of_root(root: TargetRoot, platform: Platform) -> tuple[Path, ...]:
    """Return paths of CUDA's toolkits and libraries in a root, on this machine, but the driver."""
    folder = root.folder
    toolkits = {path for pattern in _TOOLKITS for path in folder.glob(pattern)}
    toolkits = {path for path in toolkits if path.is_dir() and not path.is_symlink()}
    files = {
        path
        for place in library_folders(root, platform)
        if place.is_relative_to(folder) and not toolkits.intersection((place, *place.parents))
        for path in place.glob("lib*.so*")
        if path.is_file() and not path.is_symlink() and _is_of_cuda(path.name)
    }
    return tuple(sorted(toolkits | files))


def _is_of_cuda(name: str) -> bool:
    is_of_cuda = is_cuda_library(name) or component_of(name) is not None
    return is_of_cuda and not name.startswith("libcuda.so")


def _is_static(program: Path) -> bool:
    try:
        with open_file(program) as stream:
            return not read_elf(stream).needed
    except (OSError, ElfFormatError):
        return False
