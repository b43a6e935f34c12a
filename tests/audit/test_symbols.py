"""Which symbols are judged, and who may define them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.case import Case
from cuwheel.audit.scan import scan_wheel
from cuwheel.audit.symbols import SymbolNeeds
from tests.support.factories import write_wheel
from tests.support.planted import MEMBER, TAG, make_library

if TYPE_CHECKING:
    from pathlib import Path

_LOST = "int lost_one(void); int f(void) { return lost_one(); }\n"


def unsupplied(
    folder: Path, *sonames: str, code: str = _LOST, requires: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """What nobody defines of what a library needs."""
    library = make_library(folder / "made", *sonames, code=code)
    wheel = write_wheel(folder / "dist", {MEMBER: library}, tag=TAG, requires=requires)
    case = Case(scan=scan_wheel(wheel, private_paths=()), contract=None)
    needs = SymbolNeeds(case=case)
    return tuple(name for one, _ in case.host_libraries for name in needs.unsupplied(one))


@pytest.mark.parametrize(
    "soname", ["libm.so.6", "libpthread.so.0", "libtorch_cpu.so", "libcudart.so.13", "libcuda.so.1"]
)
def test_names_what_nobody_has(tmp_path: Path, soname: str) -> None:
    assert unsupplied(tmp_path, soname) == ("lost_one",)


@pytest.mark.parametrize("soname", ["libother.so.1", "libz.so.1", "libnvinfer.so.10"])
def test_says_nothing_where_somebody_may_have_it(tmp_path: Path, soname: str) -> None:
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
def test_knows_who_may_define_a_name(tmp_path: Path, name: str, soname: str) -> None:
    code = f"int {name}(void); int f(void) {{ return {name}(); }}\n"

    assert unsupplied(tmp_path, soname, code=code) == ()


def test_finds_cuda_where_nothing_brings_it(tmp_path: Path) -> None:
    code = "int cudaMalloc(void); int f(void) { return cudaMalloc(); }\n"

    assert unsupplied(tmp_path, "libm.so.6", code=code) == ("cudaMalloc",)
    assert unsupplied(tmp_path, "libm.so.6", code=code, requires=("torch",)) == ()


def test_takes_name_of_any_library_of_the_wheel(tmp_path: Path) -> None:
    user = make_library(tmp_path / "a", code=_LOST)
    owner = make_library(tmp_path / "b", code="int lost_one(void) { return 1; }\n")
    wheel = write_wheel(tmp_path, {MEMBER: user, "pkg/libother.so": owner}, tag=TAG)
    case = Case(scan=scan_wheel(wheel, private_paths=()), contract=None)

    needs = SymbolNeeds(case=case)

    assert [needs.unsupplied(one) for one, _ in case.host_libraries] == [(), ()]
