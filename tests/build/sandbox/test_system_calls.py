"""The filter of system calls, judged as the kernel judges by it: seccomp(2)."""

from __future__ import annotations

import ctypes
import errno
import struct

import pytest

from cuwheel.base.paths import script
from cuwheel.build.sandbox.system_calls import ABSENT, REFUSED_CALLS, make_filter
from tests.support.requirements import lack

_ARCHS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # <linux/audit.h>
_I386 = 0x40000003
_ALLOWED = 0x7FFF0000
_ERROR = 0x00050000
_SHIPPED = script("build/sandbox/namespaces/system_calls.bpf")


def judge(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """Return the filter's verdict on a call, by its classic BPF: <linux/filter.h>."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("<iIQ6Q", number, arch, 0, *padded)
    accumulator = at = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        if code == 0x20:  # load a word
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:  # and
            accumulator &= value
        elif code == 0x06:  # return
            return int(value)
        elif code == 0x05:  # jump
            at += value
        else:
            jumps = {0x15: accumulator == value, 0x25: accumulator > value}
            jumps[0x35] = accumulator >= value
            at += if_true if jumps[code] else if_false


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libseccomp.so.2")
    except OSError as problem:
        lack("seccomp", str(problem), "that the filter refuses each call that it should")


@pytest.fixture(params=["shipped", "made"])
def program(request: pytest.FixtureRequest, library: ctypes.CDLL) -> bytes:
    """The file that sandboxes take, and what this machine's libseccomp makes now."""
    assert library
    return _SHIPPED.read_bytes() if request.param == "shipped" else make_filter()


@pytest.mark.parametrize("arch", _ARCHS.values(), ids=_ARCHS)
def test_refuses_each_call(program: bytes, library: ctypes.CDLL, arch: int) -> None:
    def verdict(name: str) -> int:
        number = library.seccomp_syscall_resolve_name_arch(ctypes.c_uint32(arch), name.encode())
        return judge(program, arch, number)

    assert {name: verdict(name) for name in REFUSED_CALLS} == dict.fromkeys(
        REFUSED_CALLS, _ERROR | errno.EPERM
    )
    assert {name: verdict(name) for name in ABSENT} == dict.fromkeys(ABSENT, _ERROR | errno.ENOSYS)
    usual = ("read", "openat", "execve", "mmap", "ptrace", "clone", "socket", "ioctl", "unshare")
    assert {name: verdict(name) for name in usual} == dict.fromkeys(usual, _ALLOWED)


@pytest.mark.parametrize(
    ("name", "arguments", "number"),
    [
        ("unshare", (0x10020000,), errno.EPERM),
        ("clone", (0x10000011,), errno.EPERM),
        ("socket", (40, 1, 0), errno.EAFNOSUPPORT),
        ("ioctl", (0, 0x5412), errno.EPERM),
        ("ioctl", (0, 0xFFFF_FFFF_0000_5412), errno.EPERM),  # the kernel looks at 32 bits
    ],
)
def test_refuses_by_argument(
    program: bytes, library: ctypes.CDLL, name: str, arguments: tuple[int, ...], number: int
) -> None:
    for arch in _ARCHS.values():
        call = library.seccomp_syscall_resolve_name_arch(ctypes.c_uint32(arch), name.encode())
        assert judge(program, arch, call, *arguments) == _ERROR | number


def test_knows_no_other_machines_calls(program: bytes) -> None:
    assert judge(program, _I386, 11) == _ERROR | errno.ENOSYS
