"""A CUDA home on disk: what NVIDIA's wheels miss of one, and whether it is of one release."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError, ToolchainError
from cuwheel.system.files import sha256_of_file
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping


_VERSION = re.compile(r"V(\d+\.\d+\.\d+)")

# These have to be of one release: nvcc writes PTX that ptxas must read, and calls nvvm's cicc
# with crt's headers. Their wheels don't pin each other.
_ONE_RELEASE = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm")

# What decides on the code that a home compiles, and that no dependency file names: nvcc's programs
# (`nvcc --dryrun`), its settings, and NVIDIA's bitcode. Distributions pack them one by one.
_COMPILING = (
    *("bin/nvcc", "bin/nvcc.profile", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "bin/nvlink"),
    *("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"),
)

# nvlink writes its own options into everything it links (section .note.nv.tkinfo), and nvcc gives
# it `-L` with the toolkit's absolute path. A file descriptor of that folder is a path that is the
# same on every machine.
_NVLINK = """\
#!/bin/sh
home=$(cd "$(dirname "$0")/.." && pwd)
exec 9<"$home"
for argument do
    shift
    case $argument in
    "-L$home"*) set -- "$@" "-L/proc/self/fd/9${argument#"-L$home"}" ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec "$home/bin/nvlink-real" "$@"
"""


def find_system_home(release: str, environ: Mapping[str, str]) -> tuple[Path | None, list[Path]]:
    """The toolkit on the machine, and the folders that were searched.

    Args:
        release: `13.0`.
        environ: `CUDA_HOME`, else `CUDA_PATH`, names the folder; nothing else is tried then.
    """
    named = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    paths = [named] if named else [f"/usr/local/cuda-{release}", "/usr/local/cuda"]
    homes = [Path(path) for path in paths]
    return next((home for home in homes if (home / "bin" / "nvcc").exists()), None), homes


def identify_home(home: Path) -> str:
    """SHA-256 over all in a CUDA home that decides on what it compiles, but for the headers.

    Args:
        home: the CUDA home; a missing file makes a difference too.
    """
    files = [home / name for name in _COMPILING]
    digests = [sha256_of_file(file) if file.is_file() else "missing" for file in files]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def complete(home: Path) -> None:
    """Add what wheels can't hold: `lib64`, library names without version, and a quiet `nvlink`.

    Args:
        home: the folder with `bin`, `include` and `lib` of NVIDIA's wheels.
    """
    _make_programs_executable(home)
    (home / "lib64").symlink_to("lib")
    for library in sorted((home / "lib").glob("lib*.so.*")):
        plain = library.with_name(library.name.split(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)
    wrap_nvlink(home)


def wrap_nvlink(home: Path) -> None:
    """Replace `nvlink` with a script that keeps the toolkit's path out of what it links."""
    nvlink = home / "bin" / "nvlink"
    if nvlink.exists():
        nvlink.rename(home / "bin" / "nvlink-real")
        nvlink.write_text(_NVLINK)
        nvlink.chmod(0o755)


def _make_programs_executable(home: Path) -> None:
    """RECORD knows no modes, so a lost one would not show as damage."""
    for program in (*(home / "bin").glob("*"), *(home / "nvvm" / "bin").glob("*")):
        if not program.is_file():
            continue
        with program.open("rb") as stream:
            if stream.read(4).startswith((b"\x7fELF", b"#!")):
                program.chmod(0o755)


def check_one_release(folder: Path, version: str, owner: str) -> None:
    """Refuse a compiler whose parts are of several releases.

    Args:
        folder: where the wheels were installed, with their `.dist-info` folders.
        version: what each part has to be, `13.0.88`.
        owner: what the message calls it.

    Raises:
        ToolchainError: with the version of each part.
    """
    found = {name: _installed_version(folder, name) for name in _ONE_RELEASE}
    if set(found.values()) == {version}:
        return
    listed = ", ".join(f"{name} {is_}" for name, is_ in found.items())
    raise ToolchainError(
        f"{owner} mixes CUDA releases",
        why=f"all parts of its compiler have to be {version}, but it has {listed}",
        fix="list the extras nvcc, crt and nvvm of the same cuda-toolkit in pypi.in, then write "
        "the lock again: `nox -s lock -- toolchain:…`",
    )


def check_version(home: Path, release: str, owner: str, *, fix: str) -> str:
    """Run nvcc and ptxas and compare what they say with the release.

    Args:
        home: the CUDA home.
        release: `13.0`.
        owner: what the message calls it.
        fix: what to do when it is another release.

    Returns:
        nvcc's full version.

    Raises:
        ToolchainError: one doesn't run, or is of another release.
    """
    versions = {name: _version_of(home / "bin" / name, owner, fix) for name in ("nvcc", "ptxas")}
    if all(version.startswith(f"{release}.") for version in versions.values()):
        return versions["nvcc"]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    raise ToolchainError(
        f"{owner} is not CUDA {release}",
        why=f"it has {listed}",
        fix=fix,
    )


def _installed_version(folder: Path, name: str) -> str:
    pattern = f"{name.replace('-', '_')}-*.dist-info"
    found = next(folder.glob(pattern), None)
    return found.name.removesuffix(".dist-info").split("-")[1] if found else "missing"


def _version_of(program: Path, owner: str, fix: str) -> str:
    try:
        said = run([program, "--version"], env={"PATH": os.defpath}).output
    except CommandFailedError as error:
        raise ToolchainError(
            f"{program.name} of {owner} doesn't run",
            why=error.why,
            fix=fix,
        ) from error
    found = _VERSION.search(said)
    return found[1] if found else "unknown"
