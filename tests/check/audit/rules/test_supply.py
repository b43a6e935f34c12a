"""The rules for needed libraries, each with its defect."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.check.audit.verdict import audit_wheel
from tests.support.factories import write_wheel
from tests.support.packages.defective_wheels import (
    CU13,
    MEMBER,
    TAG,
    audited,
    audited_library,
    breaches,
    files_breaches,
    library_breaches,
    make_library,
    rpath,
)


@pytest.mark.parametrize(
    ("sonames", "wheel", "severity"),
    [
        (("libcudart.so.12", "libtorch.so"), {"requires": ("torch>=2.10",)}, "warning"),
        (("libcudart.so.12", "libtorch.so"), {"requires": ("torch==2.11.0",)}, "error"),
        (
            ("libcudart.so.12", "libcublas.so.13"),
            {"requires": ("nvidia-cuda-runtime-cu12", "nvidia-cublas")},
            "error",
        ),
        (("libcudart.so.13",), {"name": "pkg_cu12", "requires": ("nvidia-cuda-runtime",)}, "error"),
    ],
    ids=["some releases of torch", "all releases of torch", "two needs", "name"],
)
def test_finds_two_majors(
    tmp_path: Path, sonames: tuple[str, ...], wheel: dict[str, object], severity: str
) -> None:
    findings = library_breaches(tmp_path, *sonames, flags=(CU13,), **wheel)

    assert (severity, "mixed CUDA majors", MEMBER) in findings


def test_alternatives_are_notes(tmp_path: Path) -> None:
    files = {
        f"pkg/libtiny_cuda{major}.so": make_library(tmp_path / major, f"libcudart.so.{major}")
        for major in ("12", "13")
    }

    result = audited(tmp_path, dict(files))

    assert {finding.severity for finding in result.findings} == {"note"}
    assert result.majors == (12, 13)


def test_finds_unused_requirement(tmp_path: Path) -> None:
    requires = ("nvidia-cufft", "nvidia-curand")

    findings = library_breaches(tmp_path, "libcufft.so.12", flags=(CU13,), requires=requires)

    assert findings == [("note", "unused requirement", "METADATA")]


@pytest.mark.parametrize(
    ("pattern", "is_dead"), [("libcufft.so", True), ("libcufft.so.*", False), ("libcufft*", False)]
)
def test_finds_exclude_that_matches_nothing(tmp_path: Path, pattern: str, *, is_dead: bool) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))
    wheel = write_wheel(
        tmp_path / "dist", {MEMBER: library}, name="pkg", tag=TAG, requires=("nvidia-cufft",)
    )

    findings = breaches(audit_wheel(wheel, excludes=(pattern,)))

    assert findings == [("warning", "dead exclude", wheel.name)] * is_dead


def test_finds_two_majors_of_extension_and_its_helper(tmp_path: Path) -> None:
    helper = make_library(
        tmp_path / "helper", "libcudart.so.13", flags=(CU13, "-Wl,-soname,libhelper.so")
    )
    extension = make_library(
        tmp_path / "extension",
        *("libcudart.so.12", "libhelper.so"),
        flags=("-Wl,-rpath,$ORIGIN:$ORIGIN/../nvidia/cuda_runtime/lib",),
    )
    requires = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")
    files: dict[str, Path | bytes] = {MEMBER: extension, "pkg/libhelper.so": helper}

    findings = files_breaches(tmp_path, files, requires=requires)

    assert findings == [("error", "mixed CUDA majors", MEMBER)]


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
    flags = rpath("nvidia/cu13/lib", "nvidia/cudnn/lib", "nvidia/cufft/lib")

    result = audited_library(tmp_path, soname, flags=flags, requires=(requirement,))

    assert breaches(result) == [("error", "needed library", MEMBER)]
    assert f"{supplier}, but" in result.findings[0].fact
    assert result.findings[0].fact.endswith(requirement)


@pytest.mark.parametrize(
    "requires",
    [
        ("nvidia-cufft-cu12==11.*",),
        ("nvidia-cufft-cu12",),
        ("nvidia-cufft-cu12>=12; sys_platform == 'win32'", "nvidia-cufft-cu12==11.3.3.83"),
        ('nvidia-cufft-cu12>=12; extra == "new"', "nvidia-cufft-cu12<12"),
    ],
)
def test_requirement_on_releases_with_the_soname_passes(
    tmp_path: Path, requires: tuple[str, ...]
) -> None:
    flags = rpath("nvidia/cufft/lib")

    assert library_breaches(tmp_path, "libcufft.so.11", flags=flags, requires=requires) == []


def test_finds_requirement_on_same_library_of_other_cuda(tmp_path: Path) -> None:
    flags, requires = rpath("nvidia/cublas/lib"), ("nvidia-cublas-cu12",)

    result = audited_library(tmp_path, "libcublas.so.11", flags=flags, requires=requires)

    [finding] = [item for item in result.findings if item.rule == "needed library"]
    assert finding.severity == "error"
    assert "for another CUDA" in finding.fact
