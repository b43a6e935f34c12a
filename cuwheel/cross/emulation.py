"""Programs of another kind of machine, run here by QEMU, where they see that machine's root alone.

QEMU's user mode translates one program's instructions and hands its system calls to this kernel
(QEMU's manual, "User Mode Emulation"). GPUs stay out: NVIDIA's driver knows no such programs. Nor
can an emulated program start another one, unless the system's binfmt_misc has QEMU registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.binaries.elf import ElfFormatError, read_elf
from cuwheel.cross.library_folders import library_folders
from cuwheel.cuda.suppliers import component_of, is_cuda_library
from cuwheel.sandbox.backends import Mount
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import run, which

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.model.platform import Platform
    from cuwheel.workspace.job import TargetRoot

PACKAGE = "qemu-user-static"  # of Debian and Ubuntu
# Inside a sandbox; below a name that no system has, as the root's own folders are for reading.
_INSIDE = Path("/.emulator")
_SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "sbin", "usr")
_BESIDE = ("opt/python", "opt/_internal")  # of the images of PyPA's manylinux project
_TOOLKITS = ("usr/local/cuda*", "opt/cuda*")  # as `smoke.hide_cuda` has them


@dataclass(frozen=True, kw_only=True)
class Emulator:
    """A QEMU that needs no library of this machine, which a foreign root doesn't have.

    Attributes:
        program: its path.
        version: `qemu-aarch64 7.2.22`.
    """

    program: Path
    version: str

    def words(self, root: TargetRoot, *, is_sandboxed: bool) -> tuple[str, ...]:
        """What comes before a program and its arguments.

        Args:
            root: of the program's machine.
            is_sandboxed: by `emulated_system`; otherwise the program's machine is looked for in
                `root` first, and then here.
        """
        if is_sandboxed:
            return (str(_INSIDE / self.program.name),)
        return (str(self.program), "-L", str(root.folder))


def find_emulator(platform: Platform) -> Emulator | None:
    """This machine's QEMU for programs of another; None: there is none, or it isn't static."""
    for name in (f"{platform.emulator}-static", platform.emulator):
        found = which(name, SYSTEM_PATH)
        if found and _is_static(Path(found)):
            # `qemu-aarch64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`
            words = run([found, "--version"], env={"PATH": SYSTEM_PATH}).output.split()
            return Emulator(program=Path(found), version=f"{platform.emulator} {words[2]}")
    return None


def emulated_system(
    root: TargetRoot, platform: Platform, emulator: Emulator, decoy: Path
) -> tuple[Mount, ...]:
    """What a sandbox holds in place of this machine's system folders.

    Args:
        root: of the other machine; its own CUDA, where it has one, can't be seen.
        platform: of the machine.
        emulator: from `find_emulator`.
        decoy: from `smoke.hide_cuda.write_decoy`; takes the place of single libraries of CUDA.
    """
    mounts = [*_folders_of(root.folder)]
    program = _INSIDE / emulator.program.name
    mounts.append(Mount(source=emulator.program.resolve(), target=program))
    for path in cuda_of_root(root, platform):
        target = Path("/") / path.relative_to(root.folder)
        is_folder = path.is_dir()
        kind = "cover" if is_folder else "read"
        mounts.append(Mount(source=path if is_folder else decoy, target=target, kind=kind))
    return tuple(mounts)


def cuda_of_root(root: TargetRoot, platform: Platform) -> tuple[Path, ...]:
    """Toolkits and single libraries of CUDA in another machine's root, the driver left out.

    Args:
        root: of the machine.
        platform: of it.

    Returns:
        Their paths on this machine.
    """
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


def _folders_of(root: Path) -> Iterator[Mount]:
    for name in (*_SYSTEM, *_BESIDE):
        path = root / name
        if path.is_symlink():
            yield Mount(source=path.readlink(), target=Path("/", name), kind="link")
        elif path.is_dir():
            yield Mount(source=path, target=Path("/", name))


def _is_of_cuda(name: str) -> bool:
    return (is_cuda_library(name) or component_of(name) is not None) and not name.startswith(
        "libcuda.so"
    )


def _is_static(program: Path) -> bool:
    try:
        with program.open("rb") as stream:
            return not read_elf(stream).needed
    except (OSError, ElfFormatError):
        return False
