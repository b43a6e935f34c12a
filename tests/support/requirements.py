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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from bench.cgroup import limited
from cuwheel.base.errors import CuwheelError
from cuwheel.base.system.machine import has_network
from cuwheel.base.system.process import run
from cuwheel.build.sandbox.backends import choose_sandbox, working_kinds
from cuwheel.build.toolchains.debian.archives import configured_archives

VARIABLE = "CUWHEEL_REQUIRE"  # names of parts, separated by commas

# As the tests use them: root of a user namespace, with mounts, a network and processes of its own.
_NAMESPACES = "unshare --user --map-root-user --mount --net --pid --fork --mount-proc"
_MOUNTS = f"{_NAMESPACES} mount -t tmpfs none /mnt"
_LIMIT = 1 << 30  # bytes; of a cgroup that nothing is run in
_SLURM = {  # program: Debian's package
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
}


class Part(NamedTuple):
    """What a test can need of a machine."""

    missing: Callable[[], str]
    """Returns what the machine lacks; nothing where the part is there."""
    packages: tuple[str, ...] = ()
    """Debian's packages that bring it."""


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
    pytest.skip(f"{part}: {missing}; unproved here: {proves}")  # noqa: TID251 - the only place


def summarize_skips(reasons: Iterable[str]) -> str:
    """Return one line: how many tests lack which part, and what installs the parts.

    Args:
        reasons: why tests were skipped, as `lack` writes it.

    Returns:
        The line; empty where no test was skipped.
    """
    parts = Counter(reason.removeprefix("Skipped: ").partition(":")[0] for reason in reasons)
    if not parts:
        return ""
    packages = sorted({name for part in parts.keys() & PARTS for name in PARTS[part].packages})
    by_part = ", ".join(f"{part} {count}" for part, count in parts.most_common())
    line = f"not proved here: {parts.total()} tests, which need {by_part}"
    return f"{line}; to run them: apt-get install {' '.join(packages)}" if packages else line


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
    return PARTS[part].missing()


def sandbox_here() -> str:
    """What `--sandbox` says in tests of other things: a machine may allow none."""
    return "auto" if working_kinds() else "none"


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


def _program(name: str, package: str) -> Part:
    packages = tuple(package.split())
    missing = f"{name} isn't installed (Debian: {package})"
    return Part(lambda: "" if shutil.which(name) else missing, packages)


def _missing_slurm() -> str:
    lacking = [name for program, name in _SLURM.items() if not shutil.which(program)]
    return f"parts of Slurm aren't installed (Debian: {' '.join(lacking)})" if lacking else ""


def _missing_apt() -> str:
    lacking = [name for name in ("apt-get", "gpg") if not shutil.which(name)]
    return f"{' and '.join(lacking)} isn't installed (Debian: apt gnupg)" if lacking else ""


def _missing_archive() -> str:
    if not configured_archives(os.environ):
        return "no Debian archive is known (CUWHEEL_DEBIAN_MIRROR)"
    return "" if has_network() else "this machine has no network"


def _file(path: str, missing: str, *packages: str) -> Part:
    return Part(lambda: "" if Path(path).exists() else missing, packages)


def _missing_bindfs() -> str:
    if missing := _program("bindfs", "bindfs").missing() or _refused_namespaces():
        return missing
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


PARTS: Mapping[str, Part] = {
    "sandbox": Part(lambda: _refusal("unshare")),
    "bwrap": Part(lambda: _refusal("bubblewrap"), ("bubblewrap",)),
    "namespaces": Part(_refused_namespaces),
    "cgroup": Part(_refused_cgroup),
    "root": Part(lambda: "" if os.geteuid() == 0 else "this user isn't root"),
    "seccomp": Part(_found_by_test),
    "slurm": Part(_missing_slurm, tuple(_SLURM.values())),
    "bindfs": Part(_missing_bindfs, ("bindfs",)),
    "bash": _program("bash", "bash"),
    "fish": _program("fish", "fish"),
    "zsh": _program("zsh", "zsh"),
    "redis": _program("redis-server", "redis-server"),
    "cmake": _program("cmake", "cmake"),
    "gold": _program("ld.gold", "binutils"),
    "cross-gcc": _program("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
    "qemu": _program("qemu-aarch64-static", "qemu-user-static"),
    "apt": Part(_missing_apt, ("gnupg",)),
    "debian-archive": Part(_missing_archive),
    "arm64-root": _program("debootstrap", "debootstrap"),
    "podman": _program("podman", "podman runc debootstrap"),
    "nginx": _program("nginx", "nginx-light"),
    "chromium": _program("chromium", "chromium"),
    "openssl": _program("openssl", "openssl"),
    "systemd": _program("systemd-analyze", "systemd"),
    "atheris": Part(_missing_atheris),
    "torch": Part(_missing_torch),
    "boot": Part(_found_by_test),
    "ccache": Part(_found_by_test),
    "disks": Part(_second_disk),
    "driverless": Part(_driver),
    "fftw": _file("/usr/include/fftw3.h", "FFTW isn't installed", "libfftw3-dev"),
    "glibc-package": Part(_found_by_test),
    "old-python": Part(_found_by_test),
    "python-3.11": Part(lambda: "" if sys.version_info >= (3, 11) else "this Python is 3.10"),
    "ranges": Part(_found_by_test),
    "system-python": Part(_found_by_test, ("python3",)),
    "toolkit": _file("/usr/local/cuda/bin/nvcc", "there is no toolkit in /usr/local/cuda"),
}
"""Parts by name."""
