"""The rules for what libraries need, each with the defect planted that it is there for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel
from tests.support.factories import write_wheel
from tests.support.planted import CU13, MEMBER, TAG, judged, make_library, told

if TYPE_CHECKING:
    from pathlib import Path


def test_finds_framework_that_may_bring_other_cuda(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.12", "libtorch.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch>=2.10",))

    (finding,) = told(result)
    assert finding.startswith(f"warning: {MEMBER}: mixed CUDA majors: it is for CUDA 12, ")


def test_finds_framework_that_brings_other_cuda_only(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.12", "libtorch.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch==2.11.0",))

    fact = "it is for CUDA 12, but the torch that the wheel requires installs CUDA 13"
    assert f"error: {MEMBER}: mixed CUDA majors: {fact}" in told(result)


def test_finds_two_majors_behind_one_library(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.12", "libcublas.so.13")

    result = judged(
        tmp_path, {MEMBER: library}, requires=("nvidia-cuda-runtime-cu12", "nvidia-cublas")
    )

    fact = "it needs libraries of CUDA 12 and CUDA 13"
    assert f"error: {MEMBER}: mixed CUDA majors: {fact}" in told(result)


def test_judges_alternatives_mildly(tmp_path: Path) -> None:
    files = {
        f"pkg/libtiny_cuda{major}.so": make_library(tmp_path / major, f"libcudart.so.{major}")
        for major in ("12", "13")
    }

    result = judged(tmp_path, dict(files))

    assert {finding.severity for finding in result.findings} == {"note"}
    assert result.majors == (12, 13)


def test_finds_requirement_that_nothing_uses(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))
    requires = ("nvidia-cufft", "nvidia-curand")

    result = judged(tmp_path, {MEMBER: library}, requires=requires)

    fact = "nvidia-curand is required, but no library of the wheel needs anything from it"
    assert told(result) == [f"note: METADATA: unused requirement: {fact}"]


@pytest.mark.parametrize(
    ("pattern", "is_dead"), [("libcufft.so", True), ("libcufft.so.*", False), ("libcufft*", False)]
)
def test_finds_exclude_that_matches_nothing(tmp_path: Path, pattern: str, *, is_dead: bool) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))
    wheel = write_wheel(
        tmp_path / "dist", {MEMBER: library}, name="pkg", tag=TAG, requires=("nvidia-cufft",)
    )

    found = told(audit_wheel(wheel, excludes=(pattern,)))

    assert any("it needs libcufft.so.12" in line for line in found) is is_dead
    assert any("dead exclude" in line for line in found) is is_dead


def test_finds_other_cuda_than_name_says(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.13", flags=(CU13,))
    wheel = {"name": "pkg_cu12", "requires": ("nvidia-cuda-runtime",)}

    fact = "it needs CUDA 13, but the wheel's name says CUDA 12"
    found = told(judged(tmp_path, {MEMBER: library}, **wheel))
    assert found == [f"error: {MEMBER}: mixed CUDA majors: {fact}"]


def test_finds_two_majors_behind_extension_and_its_helper(tmp_path: Path) -> None:
    helper = make_library(
        tmp_path / "helper", "libcudart.so.13", flags=(CU13, "-Wl,-soname,libhelper.so")
    )
    extension = make_library(
        tmp_path / "extension",
        *("libcudart.so.12", "libhelper.so"),
        flags=("-Wl,-rpath,$ORIGIN:$ORIGIN/../nvidia/cuda_runtime/lib",),
    )
    requires = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")

    result = judged(tmp_path, {MEMBER: extension, "pkg/libhelper.so": helper}, requires=requires)

    fact = (
        "it and the libraries of the wheel that it needs are for different CUDA releases: CUDA "
        "12 (libtiny.so) and CUDA 13 (libhelper.so)"
    )
    assert told(result) == [f"error: {MEMBER}: mixed CUDA majors: {fact}"]


@pytest.mark.parametrize(
    ("soname", "supplier", "requirement"),
    [
        ("libcudart.so.13", "nvidia-cuda-runtime>=13,<14", "nvidia-cuda-runtime>=14"),
        ("libcudnn.so.9", "nvidia-cudnn-cu12>=9,<10", "nvidia-cudnn-cu12==8.9.*"),
        ("libcudnn.so.8", "nvidia-cudnn-cu12>=8,<9", "nvidia-cudnn-cu12==9.1.0.70"),
        ("libcufft.so.11", "nvidia-cufft-cu12>=11,<12", "nvidia-cufft-cu12>=12"),
    ],
)
def test_finds_requirement_on_releases_with_other_sonames(
    tmp_path: Path, soname: str, supplier: str, requirement: str
) -> None:
    folders = ("cu13", "cudnn", "cufft")
    entries = ":".join(f"$ORIGIN/../nvidia/{folder}/lib" for folder in folders)
    library = make_library(tmp_path / "made", soname, flags=(f"-Wl,-rpath,{entries}",))

    found = told(judged(tmp_path, {MEMBER: library}, requires=(requirement,)))

    fact = f"{soname} comes from {supplier}, but the wheel requires {requirement}"
    assert found == [f"error: {MEMBER}: needed library: {fact}"]


@pytest.mark.parametrize(
    "requires",
    [
        ("nvidia-cufft-cu12==11.*",),
        ("nvidia-cufft-cu12",),
        ("nvidia-cufft-cu12>=12; sys_platform == 'win32'", "nvidia-cufft-cu12==11.3.3.83"),
        ("nvidia-cufft-cu12>=12; extra == 'new'", "nvidia-cufft-cu12<12"),
    ],
)
def test_lets_requirement_on_releases_with_the_soname_pass(
    tmp_path: Path, requires: tuple[str, ...]
) -> None:
    entry = "-Wl,-rpath,$ORIGIN/../nvidia/cufft/lib"
    library = make_library(tmp_path / "made", "libcufft.so.11", flags=(entry,))

    assert told(judged(tmp_path, {MEMBER: library}, requires=requires)) == []


def test_finds_requirement_on_same_library_of_other_cuda(tmp_path: Path) -> None:
    entry = "-Wl,-rpath,$ORIGIN/../nvidia/cublas/lib"
    library = make_library(tmp_path / "made", "libcublas.so.11", flags=(entry,))

    found = told(judged(tmp_path, {MEMBER: library}, requires=("nvidia-cublas-cu12",)))

    fact = (
        "libcublas.so.11 comes from nvidia-cublas-cu11, which isn't in Requires-Dist: "
        "nvidia-cublas-cu12, which is, has the library for another CUDA"
    )
    assert f"error: {MEMBER}: needed library: {fact}" in found
