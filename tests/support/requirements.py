"""What tests need of a machine that not every machine has.

A test asks for such a part by name. Where the part is missing the test is skipped, and the reason
says what stays unproved; where the variable `CUWHEEL_REQUIRE` names the part, the test fails.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from bench.cgroup import limited
from cuwheel.errors import CuwheelError
from cuwheel.sandbox.backends import choose_sandbox
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLE = "CUWHEEL_REQUIRE"  # names of parts, separated by commas

# As the tests use them: root of a user namespace, with mounts, a network and processes of its own.
_NAMESPACES = "unshare --user --map-root-user --mount --net --pid --fork --mount-proc"
_MOUNTS = f"{_NAMESPACES} mount -t tmpfs none /mnt"
_LIMIT = 1 << 30  # bytes; of a cgroup that nothing is run in


def require(part: str, proves: str) -> None:
    """Skip or fail this test where the machine lacks a part.

    Args:
        part: its name in `PARTS`.
        proves: what is left unproved without it; the end of "unproved here: ".
    """
    if missing := _missing(part):
        lack(part, missing, proves)


def lack(part: str, missing: str, proves: str) -> NoReturn:
    """Skip or fail this test, which found out by itself that a part is missing.

    Args:
        part: its name in `PARTS`.
        missing: what is missing.
        proves: as for `require`.
    """
    if part in required(os.environ):
        pytest.fail(f"{VARIABLE} names {part}, but {missing}", pytrace=False)
    pytest.skip(f"{missing}; unproved here: {proves}")  # noqa: TID251 - the only place


def required(environ: Mapping[str, str]) -> frozenset[str]:
    """The parts that have to be there.

    Raises:
        UsageError: the variable names what is no part.
    """
    asked = {word.strip() for word in environ.get(VARIABLE, "").split(",")} - {""}
    if unknown := sorted(asked - PARTS.keys()):
        raise pytest.UsageError(
            f"{VARIABLE} names {', '.join(unknown)}; parts are {', '.join(PARTS)}"
        )
    return frozenset(asked)


@functools.cache
def _missing(part: str) -> str:
    """What the machine lacks for a part; nothing where the part is there."""
    return PARTS[part]()


def _refusal(kind: str) -> str:
    try:
        choose_sandbox(kind)
    except CuwheelError as refusal:
        return f"{refusal.what}: {refusal.why}"
    return ""


def _refused_namespaces() -> str:
    done = run(_MOUNTS.split(), env={"PATH": os.environ["PATH"]}, check=False)
    return f"`{_MOUNTS}` fails: {done.output.strip()}" if done.status else ""


def _refused_cgroup() -> str:
    try:
        with limited(_LIMIT):
            return ""
    except CuwheelError as refusal:
        return f"{refusal.what}: {refusal.why}"


def _program(name: str, package: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"{name} isn't installed (Debian: {package})"


def _missing_slurm() -> str:
    package = {
        "munged": "munge",
        "slurmctld": "slurmctld",
        "slurmd": "slurmd",
        "sbatch": "slurm-client",
    }
    lacking = [name for program, name in package.items() if not shutil.which(program)]
    return f"parts of Slurm aren't installed (Debian: {' '.join(lacking)})" if lacking else ""


def _file(path: str, missing: str) -> Callable[[], str]:
    return lambda: "" if Path(path).exists() else missing


def _missing_fuse() -> str:
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse can't be opened: {error.strerror}"
    return ""


def _missing_atheris() -> str:
    is_there = importlib.util.find_spec("atheris") is not None
    return "" if is_there else f"atheris has no wheel for {platform.machine()}"


def _missing_torch() -> str:
    is_there = importlib.util.find_spec("torch") is not None
    return "" if is_there else "PyTorch isn't installed beside the tests (pip install torch)"


def _driver() -> str:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    return "this machine has NVIDIA's driver, and nothing can stand in for it"


def _second_disk() -> str:
    apart = Path("/dev/shm").stat().st_dev != Path.cwd().stat().st_dev
    return "" if apart else "this machine has one disk"


def _found_by_test() -> str:
    raise AssertionError("a test that needs this part finds out by itself: call lack()")


PARTS: Mapping[str, Callable[[], str]] = {
    "sandbox": lambda: _refusal("unshare"),
    "bwrap": lambda: _refusal("bubblewrap"),
    "namespaces": _refused_namespaces,
    "cgroup": _refused_cgroup,
    "root": lambda: "" if os.geteuid() == 0 else "this user isn't root",
    "seccomp": _found_by_test,
    "slurm": _missing_slurm,
    "bindfs": lambda: _program("bindfs", "bindfs")() or _refused_namespaces() or _missing_fuse(),
    "bash": _program("bash", "bash"),
    "fish": _program("fish", "fish"),
    "zsh": _program("zsh", "zsh"),
    "redis": _program("redis-server", "redis-server"),
    "cmake": _program("cmake", "cmake"),
    "gold": _program("ld.gold", "binutils"),
    "llvm-dis": _program("llvm-dis-14", "llvm-14"),
    "cross-gcc": _program("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
    "qemu": _program("qemu-aarch64-static", "qemu-user-static"),
    "arm64-root": _program("debootstrap", "debootstrap"),
    "podman": _program("podman", "podman runc debootstrap"),
    "nginx": _program("nginx", "nginx-light"),
    "chromium": _program("chromium", "chromium"),
    "openssl": _program("openssl", "openssl"),
    "systemd": _program("systemd-analyze", "systemd"),
    "atheris": _missing_atheris,
    "torch": _missing_torch,
    "boot": _found_by_test,
    "ccache": _found_by_test,
    "disks": _second_disk,
    "driverless": _driver,
    "fftw": _file("/usr/include/fftw3.h", "FFTW isn't installed (Debian: libfftw3-dev)"),
    "glibc-package": _found_by_test,
    "old-python": _found_by_test,
    "python-3.11": lambda: "" if sys.version_info >= (3, 11) else "this Python is 3.10",
    "ranges": _found_by_test,
    "system-python": _found_by_test,
    "toolkit": _file("/usr/local/cuda/bin/nvcc", "there is no toolkit in /usr/local/cuda"),
}
"""Names of parts, each with what tells whether it is missing, and why."""
