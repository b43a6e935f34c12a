"""System calls that a sandbox refuses, and the seccomp filter that refuses them.

Namespaces don't separate everything: keys belong to the user, sockets to a virtual machine's host
know no network namespace, a new user namespace gives capabilities again, and calls that only root's
tools need are where the kernel's faults are found. `make_filter` makes the filter with libseccomp;
the file lies in `namespaces/`, so that a machine needs no library for it: docs/adr/0028.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
import tempfile
import termios
from pathlib import Path

from cuwheel.base.errors import UsageError

REFUSED_CALLS = (
    # Keys of the user, which every process of it has: keyrings(7)
    *("add_key", "keyctl", "request_key"),
    # Mounts, roots and namespaces: nothing is to change after the sandbox is made
    *("chroot", "mount", "pivot_root", "setns", "umount2"),
    *("fsconfig", "fsmount", "fsopen", "fspick", "mount_setattr", "move_mount", "open_tree"),
    # Files by number, past every folder
    *("name_to_handle_at", "open_by_handle_at"),
    # The kernel itself
    *("bpf", "perf_event_open", "syslog", "userfaultfd"),
    *("delete_module", "finit_module", "init_module", "kexec_file_load", "kexec_load", "reboot"),
    # The machine's clock, disks and accounts
    *("acct", "adjtimex", "clock_adjtime", "clock_settime", "settimeofday"),
    *("quotactl", "swapoff", "swapon"),
)
# Programs have a fallback for missing calls: glibc takes clone(2), with flags that a filter can
# see, and users of io_uring(7) the usual calls.
ABSENT = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup")

# <seccomp.h>
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_EQUAL, _MASKED_EQUAL = 4, 7
_ON_OTHER_ARCHS = 2  # SCMP_FLTATR_ACT_BADARCH
_OPTIMISE = 8  # SCMP_FLTATR_CTL_OPTIMIZE
_BY_TREE = 2
_ARCHS = (0xC000003E, 0xC00000B7)  # x86_64, aarch64
_CLONE_NEWUSER = 0x10000000  # <linux/sched.h>
_TIOCLINUX = 0x541C  # ioctl_console(2)


class _Compare(ctypes.Structure):
    """`struct scmp_arg_cmp`: an argument compared with a number."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("how", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


# Calls that are refused for some arguments only.
_BY_ARGUMENT = (
    ("unshare", _Compare(0, _MASKED_EQUAL, _CLONE_NEWUSER, _CLONE_NEWUSER), errno.EPERM),
    ("clone", _Compare(0, _MASKED_EQUAL, _CLONE_NEWUSER, _CLONE_NEWUSER), errno.EPERM),
    # The host of a virtual machine, and other machines on it: vsock(7)
    ("socket", _Compare(0, _EQUAL, socket.AF_VSOCK, 0), errno.EAFNOSUPPORT),
    # Words put into a terminal as if they were typed there
    ("ioctl", _Compare(1, _MASKED_EQUAL, 0xFFFFFFFF, termios.TIOCSTI), errno.EPERM),
    ("ioctl", _Compare(1, _MASKED_EQUAL, 0xFFFFFFFF, _TIOCLINUX), errno.EPERM),
)


def make_filter() -> bytes:
    """Return the filter: instructions as the kernel and bwrap(1) take them, for x86_64 and aarch64.

    Programs of other machines, 32 bits among them, find no system call at all.

    Raises:
        UsageError: this machine hasn't libseccomp, or an old one.
    """
    library = _load()
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ALLOW)))
    _check(library.seccomp_arch_remove(context, ctypes.c_uint32(0)))  # this machine's own
    for arch in _ARCHS:
        _check(library.seccomp_arch_add(context, ctypes.c_uint32(arch)))
    _check(library.seccomp_attr_set(context, _ON_OTHER_ARCHS, _ERRNO | errno.ENOSYS))
    _check(library.seccomp_attr_set(context, _OPTIMISE, _BY_TREE))
    for name in REFUSED_CALLS:
        _refuse(library, context, name, errno.EPERM)
    for name in ABSENT:
        _refuse(library, context, name, errno.ENOSYS)
    for name, compare, number in _BY_ARGUMENT:
        _refuse(library, context, name, number, compare)
    with tempfile.TemporaryFile() as file:
        _check(library.seccomp_export_bpf(context, file.fileno()))
        library.seccomp_release(context)
        file.seek(0)
        return file.read()


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as problem:
        raise UsageError(
            "the system call filter can't be set up here",
            why=str(problem),
            fix="install libseccomp (Debian: libseccomp2)",
        ) from None
    library.seccomp_init.restype = ctypes.c_void_p
    return library


def _refuse(
    library: ctypes.CDLL, context: ctypes.c_void_p, name: str, number: int, *compared: _Compare
) -> None:
    call = library.seccomp_syscall_resolve_name(name.encode())
    array = (_Compare * len(compared))(*compared)
    action = ctypes.c_uint32(_ERRNO | number)
    _check(library.seccomp_rule_add_array(context, action, call, len(compared), array), name)


def _check(result: int, name: str = "") -> None:
    if result:
        raise UsageError(
            "the system call filter can't be set up here",
            why=f"libseccomp says {os.strerror(-result)} {name}".strip(),
            fix="install libseccomp 2.5 or newer",
        )


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(make_filter())
