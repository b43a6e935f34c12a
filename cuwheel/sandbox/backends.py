"""Sandboxes: a build at the same paths on every machine, without network, with nothing beside it.

bubblewrap (bwrap(1)) where it is installed, since some systems grant namespaces to it alone (Ubuntu
24.04's AppArmor profiles); else our own system calls. Many containers refuse both.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError, SandboxError
from cuwheel.standalone import script
from cuwheel.standalone.namespaces.enter import KERNELS_OWN
from cuwheel.system.process import run, which

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


KINDS = ("bubblewrap", "unshare", "none")

_ENTER = script("namespaces/enter.py")
_FILTER = script("namespaces/system_calls.bpf")  # made by `system_calls.make_filter`
_HOSTS = script("namespaces/hosts")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

# What programs of the system need; people's files and other disks are none of it. Folders named
# `lib…` come along. Nix and Guix keep theirs in a folder of their own.
_SYSTEM = {"bin", "etc", "gnu", "nix", "opt", "sbin", "sys", "usr"}
_BUBBLEWRAP_OPTIONS = {
    "read": "--ro-bind",
    "write": "--bind",
    "device": "--dev-bind",
    "link": "--symlink",
}
# NVIDIA's, and Windows' for Linux in it.
_GPU_DEVICES = ("nvidia*", "dxg")


@dataclass(frozen=True, kw_only=True)
class Mount:
    """Something that a sandbox holds.

    Attributes:
        source: the file or folder on this machine; what a link says.
        target: its absolute path inside.
        kind: `read`, `write` and `device` show the machine's own, `link` is a symbolic link,
            `cover` hides a file or folder that is there behind an empty one.
    """

    source: Path
    target: Path
    kind: str = "read"


def choose_sandbox(asked: str = "auto") -> str:
    """The kind of sandbox that this machine has: one of `KINDS`.

    Args:
        asked: one of `KINDS`, which has to work then; or `auto`: the first that does.

    Raises:
        SandboxError: the one that was asked for doesn't work here.
    """
    if asked == "none":
        return "none"
    kinds = KINDS[:2] if asked == "auto" else (asked,)
    for kind in kinds:
        if not _refusal(kind):
            return kind
    if asked == "auto":
        return "none"
    raise SandboxError(
        f"this machine doesn't allow a sandbox with {asked}",
        why=_refusal(asked),
        fix="run without `--sandbox`, which uses what is available, or enable user namespaces on "
        "the system",
    )


def sandboxed(
    kind: str,
    mounts: Iterable[Mount],
    folder: Path,
    system: Iterable[Mount] | None = None,
) -> tuple[str, ...]:
    """The command prefix that runs a program in a sandbox.

    Args:
        kind: from `choose_sandbox`.
        mounts: what it holds beside the machine's system folders, which can be read only.
        folder: the working folder, as a path inside.
        system: takes the place of the machine's system folders; None: these.

    Returns:
        Nothing for `none`.

    Raises:
        SandboxError: something that it is to hold isn't there.
    """
    if kind == "none":
        return ()
    # A folder inside another one has to come after it.
    own = sorted(mounts, key=lambda mount: len(mount.target.parts))
    lost = [mount for mount in own if mount.kind != "link" and not mount.source.exists()]
    if lost:
        raise SandboxError(
            f"the sandbox can't mount {', '.join(str(mount.target) for mount in lost)}",
            why=f"missing: {', '.join(str(mount.source) for mount in lost)}",
            fix="build again; another process has removed folders of this build",
        )
    every = [*(_system_mounts() if system is None else system), *own]
    return _bubblewrap(every, folder) if kind == "bubblewrap" else _own_calls(every, folder)


def gpu_mounts() -> tuple[Mount, ...]:
    """The devices of this machine's GPUs; none where it has none."""
    found = [path for name in _GPU_DEVICES for path in sorted(Path("/dev").glob(name))]
    return tuple(Mount(source=path, target=path, kind="device") for path in found)


def is_of_system(path: Path) -> bool:
    """Whether every sandbox holds an absolute path of the machine, without being asked to."""
    top = path.parts[1:2]
    return not top or top[0] in _SYSTEM or top[0].startswith("lib")


def _system_mounts() -> list[Mount]:
    """The system's folders in the machine's root; links (`/bin` to `usr/bin`) as links."""
    found = []
    for path in sorted(Path("/").iterdir()):
        if not is_of_system(path):
            continue
        if path.is_symlink():
            found.append(Mount(source=path.readlink(), target=path, kind="link"))
        elif path.is_dir():
            found.append(Mount(source=path, target=path))
    return [*found, *_own_hosts(), *(_roots_secrets() if os.geteuid() == 0 else ())]


def _own_hosts() -> Iterator[Mount]:
    """An `/etc/hosts` that has the sandbox's host name: there is no network that could resolve it.

    JAX with several processes looks it up (Gloo, gloo/transport/tcp/device.cc).
    """
    path = Path("/etc/hosts")
    if path.is_file() and not path.is_symlink():  # a link's target may not be there to mount on
        yield Mount(source=_HOSTS, target=path)


def _roots_secrets() -> Iterator[Mount]:
    """Covers for what only root may read of the system's settings: passwords and keys.

    Looked for each time: locks and copies of them (`/etc/shadow.lock`) come and go.
    """
    for path in closed_to_others("/etc"):
        yield Mount(source=path, target=path, kind="cover")


def closed_to_others(folder: str) -> Iterator[Path]:
    """Files that others can't read and folders that they can't enter; of a thousand, in 30 ms.

    What goes away meanwhile is left out.
    """
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                mode = entry.stat(follow_symlinks=False).st_mode
                asked = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
                if stat.S_ISLNK(mode):
                    continue
                if mode & asked != asked:
                    yield Path(entry.path)
                elif stat.S_ISDIR(mode):
                    yield from closed_to_others(entry.path)


def _own_calls(mounts: list[Mount], folder: Path) -> tuple[str, ...]:
    listed = []
    for mount in mounts:
        # Links are followed where they are known.
        source = mount.source if mount.kind == "link" else mount.source.resolve()
        listed.append([mount.kind, str(source), str(mount.target)])
    spec = json.dumps({"folder": str(folder), "filter": str(_FILTER), "mounts": listed})
    return (sys.executable, "-I", str(_ENTER), spec)


def _bubblewrap(mounts: list[Mount], folder: Path) -> tuple[str, ...]:
    # bwrap takes the filter as an open file. Each of these becomes the next, so that bwrap is a
    # child of who started it; the shell would complain of a folder that isn't there any more.
    opened = ("/usr/bin/env", "-C", "/", "/bin/sh", "-c", 'exec "$@" 9<"$0"', str(_FILTER))
    # By its path: what the build has for PATH is of the sandbox.
    words = [which("bwrap", _SYSTEM_PATH) or "bwrap", "--die-with-parent", "--hostname", "cuwheel"]
    words += [f"--unshare-{namespace}" for namespace in ("net", "pid", "ipc", "uts")]
    words += ["--cap-drop", "ALL", "--seccomp", "9", "--dev", "/dev"]
    for mount in mounts:
        words += _bubblewrap_option(mount)
    return (*opened, *words, "--proc", "/proc", *_kernels_own(), "--chdir", str(folder))


def _kernels_own() -> Iterator[str]:
    """What of `/proc` is the whole machine's: root may write there without any capability."""
    for name in KERNELS_OWN if os.geteuid() == 0 else ():
        if (path := Path("/proc", name)).exists():
            yield from ("--ro-bind", str(path), str(path))


def _bubblewrap_option(mount: Mount) -> tuple[str, ...]:
    if mount.kind != "cover":
        return (_BUBBLEWRAP_OPTIONS[mount.kind], str(mount.source), str(mount.target))
    if mount.source.is_dir():
        return ("--tmpfs", str(mount.target), "--remount-ro", str(mount.target))
    return ("--ro-bind", os.devnull, str(mount.target))


@functools.cache
def _refusal(kind: str) -> str:
    """Why a kind of sandbox doesn't work here; empty where it does. Tried, not guessed."""
    if kind == "bubblewrap" and which("bwrap", _SYSTEM_PATH) is None:
        return "bwrap isn't installed"
    try:
        run([*sandboxed(kind, (), Path("/usr")), "/bin/sh", "-c", ":"], env={"PATH": _SYSTEM_PATH})
    except CommandFailedError as problem:
        return " ".join(problem.tail) or problem.why
    return ""
