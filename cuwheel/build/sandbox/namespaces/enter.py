"""Run a program in new namespaces, with a root that holds only its mounts: namespaces(7).

`python -I enter.py SPEC PROGRAM ARGUMENT...`. SPEC is JSON: `folder`, where the program starts,
`filter`, a file with a seccomp filter or nothing, and `mounts`, a list of `[kind, source, target]`
in the order in which they are placed: `read`, `write` and `device` bind a file or folder, `link`
makes a symbolic link to `source`, `cover` hides the `target` behind an empty file or folder.

The program sees these, a `/proc`, a `/dev` and a host name of its own, and no network but a
loopback. It has no capability, not even as root, and can get none. It dies with its starter, and
all that it started dies with it. Needs no privilege where the system grants user namespaces; ends
with status 125 where it doesn't, and the program hasn't run then. Standard library only, Python 3.9
or newer.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

REFUSED = 125  # exit status, as `env` and `timeout` have it for a failure of their own
_NAME = b"cuwheel"

# <linux/sched.h>, <linux/mount.h>, <linux/prctl.h>, <linux/if.h>, <linux/sockios.h>
_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000  # mnt uts ipc pid net
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 1
_MS_NOSUID = 2
_MS_NODEV = 4
_MS_NOEXEC = 8
_MS_REMOUNT = 32
_MS_NOATIME = 1024
_MS_NODIRATIME = 2048
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
_MS_RELATIME = 1 << 21
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522  # <linux/capability.h>, _LINUX_CAPABILITY_VERSION_3
_MOST_CAPABILITIES = 64
_FILTER_STEP = 8  # bytes of one instruction, struct sock_filter of <linux/filter.h>
_IFF_UP = 1
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914

# Flags of a mount by statvfs(3); without the right to remove one, it has to be set again.
_KEPT = {
    2: _MS_NOSUID,
    4: _MS_NODEV,
    8: _MS_NOEXEC,
    1024: _MS_NOATIME,
    2048: _MS_NODIRATIME,
    4096: _MS_RELATIME,
}

# The meaning of ENOSPC for unshare(2) and mount(2); no disk is full.
_LIMIT = "a limit is reached, of /proc/sys/user/max_*_namespaces or /proc/sys/fs/mount-max"

_OLD = "/.old"  # where the machine's own root is, until all is placed
# As bwrap(1) has it behind `--dev`: no disk, no memory, no terminal of the machine.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Of /proc, and the whole machine's: root may write there without any capability.
KERNELS_OWN = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}

_libc = ctypes.CDLL(None, use_errno=True)


def enter(user: int, group: int) -> None:
    """Move into new namespaces, as the same user."""
    try:
        _check(_libc.unshare(_NAMESPACES))
    except OSError:
        _check(_libc.unshare(_CLONE_NEWUSER | _NAMESPACES))
        # user_namespaces(7): without `deny`, an ordinary user may map no group.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:  # noqa: PTH123
                stream.write(text)


def set_up(places: list[list[str]]) -> None:
    """Make an empty root, mount everything in it, and leave the machine's.

    To be called by the first process of the namespaces.
    """
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    # Any folder does as the mount point; pivot_root(2) uncovers it again.
    _mount("none", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")  # noqa: S108
    os.mkdir(f"/tmp{_OLD}")  # noqa: S108, PTH102
    _check(_libc.pivot_root(b"/tmp", f"/tmp{_OLD}".encode()))  # noqa: S108
    os.chdir("/")
    _make_devices()
    for kind, source, target in places:
        _place(kind, source, target)
    _make_folder("/proc")
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for path in (f"/proc/{name}" for name in KERNELS_OWN):
        if os.path.exists(path):  # noqa: PTH110
            _mount(path, path, None, _MS_BIND | _MS_REC)
            _forbid_writing(path)
    _check(_libc.umount2(_OLD.encode(), _MNT_DETACH))
    os.rmdir(_OLD)  # noqa: PTH106
    _check(_libc.sethostname(_NAME, len(_NAME)))
    _raise_loopback()


def _make_devices() -> None:
    """Make a `/dev`: devices that programs need, and memory to share among themselves."""
    _make_folder("/dev")
    _mount("none", "/dev", "tmpfs", _MS_NOSUID, "mode=755")
    for name in _DEVICES:
        _bind(f"{_OLD}/dev/{name}", f"/dev/{name}", read_only=False)
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"/dev/{name}")  # noqa: PTH211
    os.mkdir("/dev/shm")  # noqa: PTH102, S108
    os.chmod("/dev/shm", 0o1777)  # noqa: PTH101, S103, S108 - as everywhere
    os.mkdir("/dev/pts")  # noqa: PTH102
    with contextlib.suppress(OSError):  # few programs need a terminal
        _mount("devpts", "/dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666")


def _place(kind: str, source: str, target: str) -> None:
    if kind == "link":
        _make_folder(os.path.dirname(target))  # noqa: PTH120
        os.symlink(source, target)  # noqa: PTH211
    elif kind != "cover":
        _bind(f"{_OLD}{source}", target, read_only=kind == "read")
    elif os.path.isdir(target):  # noqa: PTH112
        _mount("none", target, "tmpfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    elif os.path.lexists(target):  # else it has gone away meanwhile, and nothing is to hide
        _bind(f"{_OLD}/dev/null", target, read_only=True)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    if os.path.isdir(source):  # noqa: PTH112
        _make_folder(target)
    else:
        _make_folder(os.path.dirname(target))  # noqa: PTH120
        if not os.path.lexists(target):
            with open(target, "xb"):  # noqa: PTH123
                pass
    _mount(source, target, None, _MS_BIND | _MS_REC)
    if read_only:
        _forbid_writing(target)
        for below in _mounts_below(target):
            # One that can't be entered can't be written to either.
            with contextlib.suppress(PermissionError):
                _forbid_writing(below)


def _forbid_writing(target: str) -> None:
    flags = os.statvfs(target).f_flag
    kept = sum(flag for stated, flag in _KEPT.items() if flags & stated)
    _mount(None, target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)


def _mounts_below(target: str) -> list[str]:
    """Return the mounts below a folder, of other file systems (proc_pid_mountinfo(5))."""
    with open(f"{_OLD}/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123
        points = [line.split(" ")[4] for line in lines]
    for code in ("040", "011", "012", "134"):
        points = [point.replace(f"\\{code}", chr(int(code, 8))) for point in points]
    return [point for point in points if point.startswith(f"{target}/")]


def _make_folder(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.makedirs(path, 0o755)  # noqa: PTH103


def _raise_loopback() -> None:
    """Raise the loopback, which is down in a new network namespace: netdevice(7)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(probe, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even by `kill -9`."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() not in {parent, 0}:  # 0: a parent outside of this process namespace
        os._exit(REFUSED)


def _give_up_rights(filter_: bytes) -> None:
    """Drop every capability for good, so that root is a user like others: capabilities(7).

    Args:
        filter_: a program of seccomp(2) that judges every system call from now on; empty: none.
    """
    for number in range(_MOST_CAPABILITIES):
        _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails where the kernel knows no such
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, bytes(24)))  # effective, permitted, inheritable; twice 32 bits
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if filter_:
        code = ctypes.create_string_buffer(filter_, len(filter_))
        # struct sock_fprog: a count, and a pointer at its own alignment.
        program = struct.pack("@HP", len(filter_) // _FILTER_STEP, ctypes.addressof(code))
        _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0))


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    data = None if options is None else options.encode()
    _check(_libc.mount(*words, ctypes.c_ulong(flags), data), target)


def _check(result: int, path: str | None = None) -> None:
    if result:
        error = ctypes.get_errno()
        raise OSError(error, _LIMIT if error == errno.ENOSPC else os.strerror(error), path)


def _first_process(spec: dict[str, Any], command: list[str]) -> int:
    """Set the root up, start the program, and reap all orphans."""
    try:
        filter_ = b""
        if spec["filter"]:
            with open(spec["filter"], "rb") as stream:  # noqa: PTH123
                filter_ = stream.read()
        set_up(spec["mounts"])
        os.chdir(spec["folder"])
        _give_up_rights(filter_)
    except OSError as problem:
        # Flushed, since a forked process leaves without doing so.
        print(f"no sandbox available: {problem}", flush=True)
        return REFUSED
    started = os.fork()
    if not started:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
            signal.signal(number, signal.SIG_DFL)
        _execute(command)
    while True:
        ended, status = os.wait()
        if ended == started:
            return _exit_status(status)


def _execute(command: list[str]) -> NoReturn:
    """Execute a program as execvp(3) does, by PATH.

    Python's own execvp imports a module first: Python may lie outside of all that the sandbox
    holds, so all that runs after `pivot_root` has to be imported before.
    """
    words = (ctypes.c_char_p * (len(command) + 1))(*map(os.fsencode, command), None)
    _libc.execvp(words[0], words)
    print(f"{command[0]}: {os.strerror(ctypes.get_errno())}", file=sys.stderr, flush=True)
    os._exit(127)


def _exit_status(status: int) -> int:
    """Return the status as shells do: a process namespace's first process can't end by a signal."""
    number = os.waitstatus_to_exitcode(status)
    return number if number >= 0 else 128 - number


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status."""
    spec = json.loads(arguments[0])
    # Ctrl-C reaches the program by itself; Python would print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _die_with(os.getppid())
    try:
        enter(os.getuid(), os.getgid())
        own = os.getpid()
        first = os.fork()
    except OSError as problem:
        print(f"no sandbox available: {problem}")
        return REFUSED
    if not first:
        _die_with(own)
        os._exit(_first_process(spec, arguments[1:]))
    return _exit_status(os.waitpid(first, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
