"""Which names are of glibc and the compilers' libraries, on this machine or a newer one."""

from __future__ import annotations

import pytest

from cuwheel.audit.runtimes import is_runtime, runtime_defines


@pytest.mark.parametrize(
    "soname",
    [
        *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
        *("libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
    ],
)
def test_knows_each_runtime(soname: str) -> None:
    assert is_runtime(soname)


@pytest.mark.parametrize("soname", ["libz.so.1", "libcrypt.so.1", "libpthread.so", "libmc.so.6"])
def test_takes_no_other_for_a_runtime(soname: str) -> None:
    assert not is_runtime(soname)


@pytest.mark.parametrize("name", ["qsort_r", "cosf", "pthread_create", "dlopen", "shm_open"])
def test_asks_this_machine(name: str) -> None:
    assert runtime_defines(name)


@pytest.mark.parametrize(
    "name",
    [
        *("strlcpy", "wcslcat", "__isoc23_strtol", "stat", "fstatat64", "stdc_bit_width_ui"),
        *("pthread_cond_clockwait", "sched_setattr", "pidfd_spawn", "_dl_find_object"),
        *("_ZNSt6vectorIiSaIiEE9push_backERKi", "_ZN9__gnu_cxx4lostEv", "__cxa_call_terminate"),
    ],
)
def test_knows_names_that_older_machines_lack(name: str) -> None:
    assert runtime_defines(name)


@pytest.mark.parametrize(
    "name",
    ["lost_one", "statistics", "process_messages", "pthread_mine", "_ZN6helper3addEi", "MPI_Init"],
)
def test_leaves_names_of_others(name: str) -> None:
    assert not runtime_defines(name)
