"""The suppliers of undefined symbols."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.scan import scan_wheel
from cuwheel.check.audit.symbols import SymbolNeeds, runtime_defines
from cuwheel.check.audit.verdict import audit_wheel
from cuwheel.check.cuda.torch_exports import is_judged, torch_exports
from tests.support.factories import write_wheel
from tests.support.packages.defective_wheels import MEMBER, TAG, make_library

_LOST = "int lost_one(void); int f(void) { return lost_one(); }\n"


def unsupplied(
    folder: Path, *sonames: str, code: str = _LOST, requires: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the symbols of a library without a supplier."""
    library = make_library(folder / "made", *sonames, code=code)
    wheel = write_wheel(folder / "dist", {MEMBER: library}, tag=TAG, requires=requires)
    case = AuditCase(scan=scan_wheel(wheel, private_paths=()), contract=None)
    needs = SymbolNeeds(case=case)
    return tuple(name for library, _ in case.host_libraries for name in needs.unsupplied(library))


@pytest.mark.parametrize(
    "soname",
    [
        *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
        *("libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"),
        *("libtorch_cpu.so", "libcudart.so.13", "libcuda.so.1"),
    ],
)
def test_names_undefined_symbol(tmp_path: Path, soname: str) -> None:
    assert unsupplied(tmp_path, soname) == ("lost_one",)


@pytest.mark.parametrize(
    "soname", ["libother.so.1", "libz.so.1", "libpthread.so", "libmc.so.6", "libnvinfer.so.10"]
)
def test_library_that_is_not_known_may_define_it(tmp_path: Path, soname: str) -> None:
    assert unsupplied(tmp_path, soname) == ()


@pytest.mark.parametrize(
    ("name", "soname"),
    [
        ("cudaMalloc", "libcudart.so.13"),
        ("PyList_New", "libm.so.6"),
        ("memcpy_s_or_qsort_r", "libother.so"),
        ("qsort_r", "libm.so.6"),
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "libm.so.6"),
        ("_ZN2at6native3fooEv", "libtorch_cpu.so"),
        ("mkl_free_buffers", "libtorch_cpu.so"),
    ],
)
def test_knows_possible_suppliers(tmp_path: Path, name: str, soname: str) -> None:
    code = f"int {name}(void); int f(void) {{ return {name}(); }}\n"

    assert unsupplied(tmp_path, soname, code=code) == ()


def test_finds_cuda_without_supplier(tmp_path: Path) -> None:
    code = "int cudaMalloc(void); int f(void) { return cudaMalloc(); }\n"

    assert unsupplied(tmp_path, "libm.so.6", code=code) == ("cudaMalloc",)
    assert unsupplied(tmp_path, "libm.so.6", code=code, requires=("torch",)) == ()


def test_takes_name_of_any_library_of_the_wheel(tmp_path: Path) -> None:
    user = make_library(tmp_path / "a", code=_LOST)
    owner = make_library(tmp_path / "b", code="int lost_one(void) { return 1; }\n")
    wheel = write_wheel(tmp_path, {MEMBER: user, "pkg/libother.so": owner}, tag=TAG)
    case = AuditCase(scan=scan_wheel(wheel, private_paths=()), contract=None)

    needs = SymbolNeeds(case=case)

    assert [needs.unsupplied(library) for library, _ in case.host_libraries] == [(), ()]


@pytest.mark.parametrize(
    "name",
    [
        *("qsort_r", "cosf", "pthread_create", "dlopen", "shm_open"),
        *("strlcpy", "wcslcat", "__isoc23_strtol", "stat", "fstatat64", "stdc_bit_width_ui"),
        *("pthread_cond_clockwait", "sched_setattr", "pidfd_spawn", "_dl_find_object"),
        *("_ZNSt6vectorIiSaIiEE9push_backERKi", "_ZN9__gnu_cxx4lostEv", "__cxa_call_terminate"),
    ],
)
def test_knows_symbols_of_this_machine_or_a_newer_one(name: str) -> None:
    assert runtime_defines(name)


@pytest.mark.parametrize(
    "name",
    ["lost_one", "statistics", "process_messages", "pthread_mine", "_ZN6helper3addEi", "MPI_Init"],
)
def test_does_not_know_other_names(name: str) -> None:
    assert not runtime_defines(name)


def test_knows_releases_of_torch_with_all_symbols(tmp_path: Path) -> None:
    releases = torch_exports().releases
    name = next(
        name
        for name in torch_exports().names
        if is_judged(name) and torch_exports().releases_with(name) == releases[-4:]
    )
    code = f"int {name}(void); int f(void) {{ return {name}(); }}\n"
    library = make_library(tmp_path / "made", "libc10.so", code=code)
    plain = make_library(tmp_path / "plain", "libc.so.6", code="int f(void) { return 1; }\n")
    wheel = write_wheel(tmp_path / "a", {MEMBER: library}, tag=TAG, requires=("torch",))
    other = write_wheel(tmp_path / "b", {MEMBER: plain}, tag=TAG, requires=("torch",))

    assert audit_wheel(wheel).torch == releases[-4:]
    assert audit_wheel(other).torch is None
