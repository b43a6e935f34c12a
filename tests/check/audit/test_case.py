"""The facts in a wheel's names and requirements."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.verdict import audit_wheel
from tests.support.factories import write_wheel
from tests.support.packages.defective_wheels import MEMBER, TAG, make_library


def case_of(
    folder: Path, *sonames: str, name: str = "pkg", version: str = "1.0", requires: str = ""
) -> AuditCase:
    files: dict[str, Path | bytes] = {}
    if sonames:
        files[MEMBER] = make_library(folder / "made", *sonames)
    lines = tuple(filter(None, [requires]))
    wheel = write_wheel(folder, files, name=name, version=version, tag=TAG, requires=lines)
    return audit_wheel(wheel).case


@pytest.mark.parametrize(
    ("name", "version", "cuda"),
    [
        ("cupy_cuda13x", "1.0", 13),
        ("nvidia_cublas_cu12", "1.0", 12),
        ("pkg", "1.0+cu130", 13),
        ("pkg", "1.0+cu130torch2.11", 13),
        ("pkg", "1.0+cu128.bundled", 12),
        ("document12", "1.0", None),
        ("pkg", "1.0+acu130", None),
        ("pkg", "12.8", None),
    ],
)
def test_reads_cuda_from_the_name(
    tmp_path: Path, name: str, version: str, cuda: int | None
) -> None:
    case = case_of(tmp_path, name=name, version=version)

    assert case.name_cuda == case.named_cuda == cuda


@pytest.mark.parametrize(
    ("requires", "cuda"),
    [
        ("nvidia-cuda-runtime-cu12", 12),
        ("nvidia-cuda-runtime-cu12; extra == 'cuda'", None),
        ("numpy", None),
    ],
)
def test_reads_cuda_from_requirements(tmp_path: Path, requires: str, cuda: int | None) -> None:
    assert case_of(tmp_path, requires=requires).named_cuda == cuda


@pytest.mark.parametrize(
    ("soname", "majors"),
    [("libcudart.so.12", {12}), ("libcudart.so.13", {13}), ("libcurand.so.10", set())],
)
def test_reads_cuda_from_needed_libraries(tmp_path: Path, soname: str, majors: set[int]) -> None:
    assert case_of(tmp_path, soname).majors[MEMBER] == majors


def test_assumes_framework_that_no_requirement_brings(tmp_path: Path) -> None:
    assert case_of(tmp_path, "libtorch.so").assumed == ("torch",)


def test_assumes_no_framework_that_is_required(tmp_path: Path) -> None:
    assert case_of(tmp_path, "libtorch.so", requires="torch>=2.11").assumed == ()


def test_counts_no_requirement_for_an_extra_as_required(tmp_path: Path) -> None:
    case = case_of(tmp_path, requires="nvidia-cufft; extra == 'cuda'")

    assert case.required == frozenset()
    assert {dependency.extra for dependency in case.declared} == {"cuda"}


@pytest.mark.parametrize(("name", "is_supplier"), [("nvidia_cublas", True), ("pkg", False)])
def test_knows_nvidias_own_wheels(tmp_path: Path, name: str, *, is_supplier: bool) -> None:
    assert case_of(tmp_path, name=name).is_supplier is is_supplier


@pytest.mark.parametrize(
    ("tag", "marker", "is_required"),
    [
        ("cp312-cp312-manylinux_2_28_aarch64", "platform_machine == 'aarch64'", True),
        ("cp312-cp312-manylinux_2_28_aarch64", "platform_machine == 'x86_64'", False),
        ("cp312-cp312-manylinux_2_28_x86_64", "platform_machine == 'x86_64'", True),
        ("py3-none-any", "platform_machine == 'x86_64'", True),
        ("cp310-cp310-manylinux_2_28_x86_64", "python_version < '3.11'", True),
        ("cp313-cp313-manylinux_2_28_x86_64", "python_version >= '3.13'", True),
        ("cp310-abi3-manylinux_2_28_x86_64", "python_version < '3.11'", False),
        ("cp310-none-manylinux_2_28_x86_64", "python_version < '3.11'", True),
    ],
)
def test_tags_decide_markers(tmp_path: Path, tag: str, marker: str, *, is_required: bool) -> None:
    lines = (f"nvidia-cuda-runtime-cu12; {marker}",)
    case = audit_wheel(write_wheel(tmp_path, {}, name="pkg", tag=tag, requires=lines)).case

    assert ("nvidia-cuda-runtime-cu12" in case.required) is is_required
    assert (case.named_cuda == 12) is is_required
