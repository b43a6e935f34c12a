"""The CUDA home: its lock, its completion where wheels lack parts, and its check."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from cuwheel.base.errors import CommandFailedError, LockError, ToolchainError
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import open_file
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import Toolkit

# Folders of programs and of their files. Of these only libdevice gets into compiled code, and it is
# the same for every machine.
_PROGRAMS = ("bin", "nvvm")
_INPUTS = {"pypi": "pypi.in", "debian": "debian.yml", "redist": "redist.in"}  # of providers' locks
_VERSION = re.compile(r"V(\d+\.\d+\.\d+)")

# These have to be of one release: nvcc writes PTX that ptxas must read, and calls nvvm's cicc
# with crt's headers. Their wheels don't pin each other.
_ONE_RELEASE = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm")

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


def finish_home(
    home: Path, release: str, owner: str, *, fix: str, compilers: Path | None = None
) -> str:
    """Make a home of a lock's files whole, check it, and return nvcc's version.

    Args:
        compilers: this machine's home, where the files are for another kind of machine.

    Raises:
        ToolchainError: as `check_version`.
    """
    if compilers:
        replace_programs(home, compilers)
    complete(home)
    return check_version(home, release, owner, fix=fix)


def complete(home: Path) -> None:
    """Add `lib64`, library names without version and a quiet `nvlink` to the files of wheels."""
    # RECORD has no modes, so a lost one wouldn't show as damage.
    for program in (*(home / "bin").glob("*"), *(home / "nvvm" / "bin").glob("*")):
        if program.is_file():
            with open_file(program) as stream:
                if stream.read(4).startswith((b"\x7fELF", b"#!")):
                    program.chmod(0o755)
    (home / "lib64").symlink_to("lib")
    for library in sorted((home / "lib").glob("lib*.so.*")):
        plain = library.with_name(library.name.split(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)
    wrap_nvlink(home)


def replace_programs(home: Path, compilers: Path) -> None:
    """Replace another machine's nvcc and its parts by those of this machine's home."""
    for name in _PROGRAMS:
        remove_tree(home / name)
        shutil.copytree(compilers / name, home / name, symlinks=True)
    wrapped = home / "bin" / "nvlink-real"
    if wrapped.exists():  # `complete` wraps it again
        wrapped.replace(home / "bin" / "nvlink")


def wrap_nvlink(home: Path) -> None:
    """Replace `nvlink` with a script that keeps the toolkit's path out of what it links."""
    nvlink = home / "bin" / "nvlink"
    if nvlink.exists():
        nvlink.rename(home / "bin" / "nvlink-real")
        nvlink.write_text(_NVLINK)
        nvlink.chmod(0o755)


def check_one_release(folder: Path, version: str, owner: str) -> None:
    """Refuse a compiler with parts of several releases.

    Args:
        folder: of the installed wheels, with their `.dist-info` folders.
        version: of each part, `13.0.88`.

    Raises:
        ToolchainError: with the version of each part.
    """
    versions = {}
    for name in _ONE_RELEASE:
        metadata = next(folder.glob(f"{name.replace('-', '_')}-*.dist-info"), None)
        versions[name] = metadata.stem.split("-")[1] if metadata else "missing"
    if set(versions.values()) == {version}:
        return
    listed = ", ".join(f"{name} {versions[name]}" for name in versions)
    raise ToolchainError(
        f"{owner} mixes CUDA releases",
        why=f"all parts of its compiler have to be {version}, but it has {listed}",
        fix="list the extras nvcc, crt and nvvm of the same cuda-toolkit in pypi.in, then write "
        "the lock again: `nox -s lock -- toolchain:…`",
    )


def check_version(home: Path, release: str, owner: str, *, fix: str) -> str:
    """Run nvcc and ptxas, compare their versions with the release, `13.0`, and return nvcc's.

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


def _version_of(program: Path, owner: str, fix: str) -> str:
    try:
        output = run([program, "--version"], env={"PATH": os.defpath}).output
    except CommandFailedError as error:
        raise ToolchainError(
            f"{program.name} of {owner} doesn't run",
            why=error.why,
            fix=fix,
        ) from error
    version = _VERSION.search(output)
    return version[1] if version else "unknown"


def provider_lock(toolkit: Toolkit, provider: str, workspace: Workspace, kind: str = "") -> Path:
    """Return the path of a lock, `envs/cuda124/debian.lock`.

    Args:
        provider: `pypi`, `debian` or `redist`.
        kind: of another lock that this provider needs, `pypi`.

    Raises:
        LockError: there is none.
    """
    kind = kind or provider
    folder, relock = f"cuda{toolkit.tag}", f"nox -s lock -- toolchain:{toolkit.tag}:{kind}"
    for root in workspace.caller.roots:
        lock = root / "envs" / folder / f"{kind}.lock"
        if lock.is_file():
            return lock
        if lock.with_name(_INPUTS[kind]).is_file():  # no other project's lock is meant
            raise LockError(
                f"{folder}/{lock.name} is missing",
                why=f"{lock.parent} has only its input, {_INPUTS[kind]}",
                fix=relock,
            )
    raise LockError(
        f"there is no lock of the provider {provider} for CUDA {toolkit.release}",
        why=f"no project folder has envs/{folder}/{kind}.lock",
        fix=f"run without `--toolchain {provider}`; or write {_INPUTS[kind]} there "
        f"(docs/how-to/toolchains.md), then `{relock}`",
    )
