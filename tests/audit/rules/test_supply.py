"""The rules for what libraries need, each with the defect planted that it is there for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel
from tests.support.factories import write_wheel
from tests.support.planted import CU13, MEMBER, TAG, judged, make_library, told

if TYPE_CHECKING:
    from pathlib import Path


if TYPE_CHECKING:
    from pathlib import Path


def test_finds_framework_that_may_bring_other_cuda(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.12", "libtorch.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch>=2.10",))

    (finding,) = told(result)
    assert finding.startswith(f"warning: {MEMBER}: mixed CUDA majors: it works with CUDA 12, ")


def test_finds_framework_that_brings_other_cuda_only(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.12", "libtorch.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch==2.11.0",))

    fact = "it works with CUDA 12, and the torch that the wheel requires brings CUDA 13"
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

    fact = "nvidia-curand is required, and no library of the wheel needs anything of it"
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

    fact = "it needs CUDA 13, and the wheel's name says CUDA 12"
    found = told(judged(tmp_path, {MEMBER: library}, **wheel))
    assert found == [f"error: {MEMBER}: mixed CUDA majors: {fact}"]
