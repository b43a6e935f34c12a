"""A judgement as a whole; each rule has its own tests in tests/audit/rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel, unreadable
from cuwheel.errors import UnsafeArchiveError
from tests.support.factories import compile_cuda
from tests.support.planted import CU13, MEMBER, judged, make_library, told

if TYPE_CHECKING:
    from pathlib import Path


def make_static(folder: Path, home: Path) -> Path:
    """A library into which the runtime was linked."""
    source = folder / "twice.cu"
    source.write_text("__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n")
    return compile_cuda(folder / "lib.so", home, source, "-arch=sm_90", f"-L{home}/lib")


def test_finds_nothing_in_wheel_without_fault(tmp_path: Path) -> None:
    result = judged(tmp_path, {MEMBER: make_library(tmp_path / "made")})

    assert (result.verdict, result.majors, result.min_driver) == (None, (), ())


def test_puts_the_worst_first(tmp_path: Path) -> None:
    flags = ("-Wl,-z,norelro", "-Wl,-z,execstack", "-Wl,-rpath,$ORIGIN/../nowhere/lib")

    result = judged(tmp_path, {MEMBER: make_library(tmp_path / "made", flags=flags)})

    assert [one.severity for one in result.findings] == ["error", "warning", "note"]
    assert result.verdict == "error"


@pytest.mark.parametrize(
    ("soname", "driver"), [("libcudart.so.12", "525.60.13"), ("libcudart.so.13", "580.65.06")]
)
def test_tells_oldest_driver_of_each_cuda(tmp_path: Path, soname: str, driver: str) -> None:
    major = int(soname.rpartition(".")[2])

    result = judged(tmp_path, {MEMBER: make_library(tmp_path / "made", soname)})

    assert (result.majors, result.min_driver) == ((major,), ((major, driver),))


def test_tells_cuda_of_wheel_for_arm(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.13")

    result = judged(tmp_path, {MEMBER: library}, tag="py3-none-manylinux_2_39_aarch64")

    assert (result.majors, result.min_driver) == ((13,), ((13, "580.65.06"),))


def test_tells_cuda_and_driver_of_linked_runtime(tmp_path: Path, cuda_home: Path) -> None:
    library = make_static(tmp_path, cuda_home)

    result = judged(tmp_path, {MEMBER: library})

    assert result.case.runtimes == ("13.0",)
    assert (result.majors, result.min_driver) == ((13,), ((13, "580.65.06"),))


def test_finds_linked_runtime_of_other_cuda_than_name(tmp_path: Path, cuda_home: Path) -> None:
    library = make_static(tmp_path, cuda_home)

    found = told(judged(tmp_path, {MEMBER: library}, name="pkg_cu12"))

    fact = "the runtime of CUDA 13.0 is linked into it, but the wheel's name says CUDA 12"
    assert f"error: {MEMBER}: mixed CUDA majors: {fact}" in found


def test_takes_cuda_of_the_name_where_no_library_says(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", flags=(CU13,))

    assert judged(tmp_path, {MEMBER: library}, name="pkg_cu12").majors == (12,)


def test_file_that_is_no_wheel_has_one_error(tmp_path: Path) -> None:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    path.write_bytes(b"PK")

    with pytest.raises(UnsafeArchiveError):
        audit_wheel(path)

    result = unreadable(path, "why")
    assert [str(one) for one in result.findings] == [
        f"{path.name}: archive: it can't be read as a wheel: why"
    ]
    assert (result.verdict, result.case.scan.size) == ("error", 2)
