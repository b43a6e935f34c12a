"""The suppliers of needed libraries, in wheels without a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.packages.defective_wheels import (
    CU13,
    MEMBER,
    audited,
    audited_library,
    breaches,
    library_breaches,
    make_library,
    rpath,
    supply_of,
)


def test_good_external_wheel_has_no_findings(tmp_path: Path) -> None:
    requires = ("nvidia-cufft>=12,<13",)

    result = audited_library(tmp_path, "libcufft.so.12", flags=(CU13,), requires=requires)

    assert breaches(result) == []
    assert supply_of(result, "libcufft.so.12").supplier == "nvidia-cufft (nvidia/cu13/lib)"
    assert result.majors == (13,)
    assert result.min_driver == ((13, "580.65.06"),)


@pytest.mark.parametrize(
    ("soname", "flags", "requires", "severity"),
    [
        ("libcufft.so.12", (CU13,), (), "error"),
        ("libcufft.so.12", (), ("nvidia-cufft",), "warning"),
        ("libnowhere.so.3", (), (), "error"),
        ("libcublas.so.9", (), ("torch>=2.11",), "error"),
    ],
    ids=["not required", "not found", "without supplier", "of a CUDA without wheels"],
)
def test_finds_missing_library(
    tmp_path: Path, soname: str, flags: tuple[str, ...], requires: tuple[str, ...], severity: str
) -> None:
    findings = library_breaches(tmp_path, soname, flags=flags, requires=requires)

    assert findings == [(severity, "needed library", MEMBER)]


def test_follows_needs_of_nvidias_own_libraries(tmp_path: Path) -> None:
    requires = ("nvidia-cusolver",)

    result = audited_library(tmp_path, "libcusolver.so.12", flags=(CU13,), requires=requires)

    needed = {supply.soname: supply.library for supply in result.supplies}
    assert needed["libcublas.so.13"] == "libcusolver.so.12 of nvidia-cusolver"
    assert needed["libnvJitLink.so.13"] in {
        "libcusolver.so.12 of nvidia-cusolver",
        "libcusparse.so.12 of nvidia-cusparse",
    }
    assert breaches(result) == []


def test_finds_need_of_nvidias_library_without_requirement(tmp_path: Path) -> None:
    wheel = {"name": "pkg_cu13", "requires": ("cutensor-cu13",)}

    findings = library_breaches(tmp_path, "libcutensor.so.2", flags=rpath("cutensor/lib"), **wheel)

    assert findings == [("error", "needed library", "libcutensor.so.2 of cutensor-cu13")]


def test_requirements_of_required_wheels_count(tmp_path: Path) -> None:
    """As in the cuTensorNet sample: nvidia-cusolver brings the cuBLAS that cutensornet needs."""
    wheel = {"name": "pkg_cu13", "requires": ("cutensornet-cu13", "nvidia-cusolver")}

    findings = library_breaches(
        tmp_path, "libcutensornet.so.2", flags=rpath("cuquantum/lib"), **wheel
    )

    assert {rule for _, rule, _ in findings} <= {"unused requirement"}


@pytest.mark.parametrize(
    ("requirement", "is_lost"), [("nvidia-cusolver", True), ("nvidia-cusolver>=12.1", False)]
)
def test_finds_nvidias_library_that_does_not_find_its_own(
    tmp_path: Path, requirement: str, *, is_lost: bool
) -> None:
    requires = (requirement,)

    result = audited_library(tmp_path, "libcusolverMg.so.12", flags=(CU13,), requires=requires)

    assert any("nvidia-cusolver<12.0.7" in item.fact for item in result.findings) is is_lost


def test_wheel_may_load_what_nvidias_library_does_not_find(tmp_path: Path) -> None:
    sonames = ("libcusolverMg.so.12", "libcublas.so.13", "libcublasLt.so.13", "libnvJitLink.so.13")
    requires = ("nvidia-cusolver", "nvidia-nvjitlink", "nvidia-cublas")

    assert library_breaches(tmp_path, *sonames, flags=(CU13,), requires=requires) == []


def test_other_accelerators_are_not_checked(tmp_path: Path) -> None:
    result = audited_library(tmp_path, "libamdhip64.so.6")

    assert breaches(result) == []
    assert supply_of(result, "libamdhip64.so.6").supplier == "another accelerator's software"


def test_takes_soname_of_two_majors_from_the_one_in_the_name(tmp_path: Path) -> None:
    wheel = {"name": "pkg_cuda12x", "requires": ("nvidia-curand-cu12",)}
    flags = rpath("nvidia/curand/lib")

    assert library_breaches(tmp_path, "libcurand.so.10", flags=flags, **wheel) == []


def test_missing_requirement_of_nvidias_wheel_is_a_warning(tmp_path: Path) -> None:
    """As in cutensor-cu13 2.8.1: installed alone it can't be loaded."""
    flags = ("-Wl,-soname,libcutensor.so.2", "-Wl,-rpath,$ORIGIN/../../nvidia/cu13/lib")
    wheel = {"name": "cutensor_cu13", "member": "cutensor/lib/libcutensor.so.2"}

    findings = library_breaches(tmp_path, "libcublasLt.so.13", flags=flags, **wheel)

    assert findings == [("warning", "needed library", "cutensor/lib/libcutensor.so.2")]


def test_knows_suppliers_of_cuda_11(tmp_path: Path) -> None:
    flags = rpath(*(f"nvidia/{part}/lib" for part in ("cuda_runtime", "cublas", "cudnn")))
    sonames = ("libcudart.so.11.0", "libcublas.so.11", "libcudnn.so.8")
    requires = ("nvidia-cuda-runtime-cu11", "nvidia-cublas-cu11", "nvidia-cudnn-cu11==8.*")

    result = audited_library(tmp_path, *sonames, flags=flags, requires=requires)

    assert breaches(result) == []
    assert result.majors == (11,)
    assert result.min_driver == ((11, "450.80.02"),)


def test_libraries_for_two_majors_are_alternatives(tmp_path: Path) -> None:
    """As in bitsandbytes 0.45.0, which loads the one for the installed torch."""
    files = {
        f"pkg/libpkg_cuda{tag}.so": make_library(tmp_path / tag, soname)
        for tag, soname in (("118", "libcudart.so.11.0"), ("121", "libcudart.so.12"))
    }

    result = audited(tmp_path, dict(files), requires=("torch<2.11,>=2.1",))

    assert {finding.severity for finding in result.findings} <= {"note"}
    assert result.majors == (11, 12)


def test_takes_cuda_11_from_torch_of_its_time(tmp_path: Path) -> None:
    sonames = ("libcudart.so.11.0", "libcusolver.so.11", "libc10.so")

    assert library_breaches(tmp_path, *sonames, requires=("torch==2.0.1",)) == []


def test_takes_tensorrt_and_nvrtc_of_torch_as_torch_tensorrt_does(tmp_path: Path) -> None:
    sonames = ("libnvinfer.so.10", "libnvinfer_plugin.so.10", "libcaffe2_nvrtc.so")
    requires = ("torch==2.11.*", "tensorrt>=10.14,<10.17")

    result = audited_library(tmp_path, *sonames, flags=rpath("torch/lib"), requires=requires)

    assert breaches(result) == []
    nvinfer = supply_of(result, "libnvinfer.so.10")
    assert nvinfer.supplier == "tensorrt-cu13-libs (tensorrt_libs)"
    assert supply_of(result, "libcaffe2_nvrtc.so").supplier == "torch (torch/lib)"
