"""What glibc and the compilers' libraries define, wherever the audit runs.

A name that this machine's libraries have is theirs, which only takes findings away. That they lack
one says little, as they may be older than those that a wheel is for: functions that came to glibc
with 2.28 or later (its NEWS) are known by their names, those of libstdc++ by their namespaces.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache

# Those up to librt were libraries of their own before glibc 2.34.
_SONAMES = (
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
    *("libstdc++.so.6", "libgcc_s.so.1"),
)
_LOADER = re.compile(r"ld-linux.*\.so\.\d+")
# Of libstdc++, and what compilers and their OpenMP make calls to.
_COMPILER = re.compile(
    r"_ZN?[VrK]*[RO]?S[tabsiod]|_ZT[VIS](N?S|N10__cxxabiv1)|_Z(nw|na|dl|da)|__cxa_|_ITM_|__gxx_|_Unwind_"
    r"|_ZNK?(9__gnu_cxx|11__gnu_debug|10__cxxabiv1)|_ZGTt"
    r"|GOMP_|omp_|__kmpc_|__tsan_|__asan_|__ubsan_|__gcov_|__sanitizer_"
)
_NEW_IN_GLIBC = re.compile(
    r"(__libc_|__isoc\d\d_|__rseq_|_dl_|arc4random|pidfd_|stdc_|(thrd|mtx|cnd|tss)_)\w*"
    r"|(str|wcs)l(cpy|cat)|[fl]?stat(64|at|at64)?|statx|mknod(at)?|fcntl64|renameat2|mallinfo2"
    r"|getcpu|getdents64|gettid|tgkill|twalk_r|close_range|closefrom|execveat|_Fork|process_m(advise|release)|epoll_pwait2"
    r"|timespec_getres|(sem|pthread_\w+)_clock\w+|sched_[gs]etattr|call_once"
    r"|(sig\w+|strerror\w+|pthread_\w+|posix_spawn\w+)_np|__memcmpeq|c8rtomb|mbrtoc8"
)


def is_runtime(soname: str) -> bool:
    """Whether a library is one of these."""
    return soname in _SONAMES or bool(_LOADER.fullmatch(soname))


@cache
def runtime_defines(name: str) -> bool:
    """Whether one of these has a name, on this machine or on a newer one."""
    is_known = bool(_COMPILER.match(name) or _NEW_IN_GLIBC.fullmatch(name))
    return is_known or any(hasattr(library, name) for library in _libraries())


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    found = []
    for soname in _SONAMES:
        try:
            found.append(ctypes.CDLL(soname))
        except OSError:  # noqa: PERF203 - a machine without libstdc++
            continue
    return tuple(found)
