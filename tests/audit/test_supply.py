"""The audit of wheels that have no recipe here: who supplies what, and which faults are whose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.planted import (
    CU13,
    MEMBER,
    judged,
    make_library,
    supply_of,
    told,
)

if TYPE_CHECKING:
    from pathlib import Path


if TYPE_CHECKING:
    from pathlib import Path


def test_good_external_wheel_has_nothing_to_find(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))

    result = judged(tmp_path, {MEMBER: library}, requires=("nvidia-cufft>=12,<13",))

    assert told(result) == []
    assert supply_of(result, "libcufft.so.12").supplier == "nvidia-cufft (nvidia/cu13/lib)"
    assert result.majors == (13,)
    assert result.min_driver == ((13, "580.65.06"),)


def test_finds_library_that_is_needed_and_not_declared(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))

    result = judged(tmp_path, {MEMBER: library})

    fact = "libcufft.so.12 comes from nvidia-cufft, which isn't in Requires-Dist"
    assert told(result) == [f"error: {MEMBER}: needed library: {fact}"]


def test_finds_library_that_nothing_leads_to(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12")

    result = judged(tmp_path, {MEMBER: library}, requires=("nvidia-cufft",))

    fact = "libcufft.so.12 is in nvidia/cu13/lib, but no rpath entry points there"
    assert told(result) == [f"warning: {MEMBER}: needed library: {fact}"]


def test_finds_library_that_nobody_supplies(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libnowhere.so.3")

    (finding,) = told(judged(tmp_path, {MEMBER: library}))

    assert finding.startswith(f"error: {MEMBER}: needed library: libnowhere.so.3 is neither")


def test_follows_needs_of_nvidias_own_libraries(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcusolver.so.12", flags=(CU13,))

    result = judged(tmp_path, {MEMBER: library}, requires=("nvidia-cusolver",))

    needed = {supply.soname: supply.library for supply in result.supplies}
    assert needed["libcublas.so.13"] == "libcusolver.so.12 of nvidia-cusolver"
    assert needed["libnvJitLink.so.13"] in {
        "libcusolver.so.12 of nvidia-cusolver",
        "libcusparse.so.12 of nvidia-cusparse",
    }
    assert told(result) == []


def test_finds_what_nvidias_library_needs_and_nobody_requires(tmp_path: Path) -> None:
    entry = "-Wl,-rpath,$ORIGIN/../cutensor/lib"
    library = make_library(tmp_path / "made", "libcutensor.so.2", flags=(entry,))

    result = judged(tmp_path, {MEMBER: library}, name="pkg_cu13", requires=("cutensor-cu13",))

    fact = "which neither cutensor-cu13 nor this wheel requires"
    (finding,) = told(result)
    assert finding.startswith("error: libcutensor.so.2 of cutensor-cu13: needed library: ")
    assert finding.endswith(fact)


def test_takes_what_required_wheels_require_for_there(tmp_path: Path) -> None:
    """As in the cuTensorNet sample: nvidia-cusolver brings the cuBLAS that cutensornet needs."""
    entry = "-Wl,-rpath,$ORIGIN/../cuquantum/lib"
    library = make_library(tmp_path / "made", "libcutensornet.so.2", flags=(entry,))
    requires = ("cutensornet-cu13", "nvidia-cusolver")

    result = judged(tmp_path, {MEMBER: library}, name="pkg_cu13", requires=requires)

    unused = "nvidia-cusolver is required, but no library of the wheel needs anything from it"
    assert [line for line in told(result) if unused not in line] == []


@pytest.mark.parametrize(
    ("requirement", "is_lost"), [("nvidia-cusolver", True), ("nvidia-cusolver>=12.1", False)]
)
def test_finds_nvidias_library_that_does_not_find_its_own(
    tmp_path: Path, requirement: str, *, is_lost: bool
) -> None:
    library = make_library(tmp_path / "made", "libcusolverMg.so.12", flags=(CU13,))

    result = judged(tmp_path, {MEMBER: library}, requires=(requirement,))

    fact = "libnvJitLink.so.13 are not found through the rpath of nvidia-cusolver<12.0.7"
    assert any(fact in line for line in told(result)) is is_lost


def test_lets_wheel_bring_what_nvidias_library_does_not_find(tmp_path: Path) -> None:
    sonames = ("libcusolverMg.so.12", "libcublas.so.13", "libcublasLt.so.13", "libnvJitLink.so.13")
    library = make_library(tmp_path / "made", *sonames, flags=(CU13,))
    requires = ("nvidia-cusolver", "nvidia-nvjitlink", "nvidia-cublas")

    assert told(judged(tmp_path, {MEMBER: library}, requires=requires)) == []


def test_does_not_judge_other_accelerators(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libamdhip64.so.6")

    result = judged(tmp_path, {MEMBER: library})

    assert told(result) == []
    expected = "another accelerator's software"
    assert supply_of(result, "libamdhip64.so.6").supplier == expected


def test_takes_soname_of_two_majors_from_the_one_in_the_name(tmp_path: Path) -> None:
    entry = "-Wl,-rpath,$ORIGIN/../nvidia/curand/lib"
    library = make_library(tmp_path / "made", "libcurand.so.10", flags=(entry,))

    result = judged(
        tmp_path, {MEMBER: library}, name="pkg_cuda12x", requires=("nvidia-curand-cu12",)
    )

    assert told(result) == []


def test_finds_cuda_library_that_no_wheel_has(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcublas.so.9")

    fact = "libcublas.so.9 is a CUDA library that no component supplies"
    found = told(judged(tmp_path, {MEMBER: library}, requires=("torch>=2.11",)))
    assert found == [f"error: {MEMBER}: needed library: {fact}"]


def test_finds_what_wheel_of_nvidia_does_not_require(tmp_path: Path) -> None:
    """As in cutensor-cu13 2.8.1: installed alone it can't be loaded."""
    flags = ("-Wl,-soname,libcutensor.so.2", "-Wl,-rpath,$ORIGIN/../../nvidia/cu13/lib")
    library = make_library(tmp_path / "made", "libcublasLt.so.13", flags=flags)

    found = told(judged(tmp_path, {"cutensor/lib/libcutensor.so.2": library}, name="cutensor_cu13"))

    fact = "libcublasLt.so.13 comes from nvidia-cublas, which isn't in Requires-Dist"
    assert found == [f"warning: cutensor/lib/libcutensor.so.2: needed library: {fact}"]


def test_knows_who_supplies_cuda_11(tmp_path: Path) -> None:
    entries = [f"$ORIGIN/../nvidia/{part}/lib" for part in ("cuda_runtime", "cublas", "cudnn")]
    sonames = ("libcudart.so.11.0", "libcublas.so.11", "libcudnn.so.8")
    library = make_library(tmp_path / "made", *sonames, flags=(f"-Wl,-rpath,{':'.join(entries)}",))
    requires = ("nvidia-cuda-runtime-cu11", "nvidia-cublas-cu11", "nvidia-cudnn-cu11==8.*")

    result = judged(tmp_path, {MEMBER: library}, requires=requires)

    assert told(result) == []
    assert result.majors == (11,)
    assert result.min_driver == ((11, "450.80.02"),)


def test_takes_libraries_for_two_majors_as_alternatives(tmp_path: Path) -> None:
    """As in bitsandbytes 0.45.0, which loads the one that fits the torch it finds."""
    files = {
        f"pkg/libpkg_cuda{tag}.so": make_library(tmp_path / tag, soname)
        for tag, soname in (("118", "libcudart.so.11.0"), ("121", "libcudart.so.12"))
    }

    result = judged(tmp_path, dict(files), requires=("torch<2.11,>=2.1",))

    assert {finding.severity for finding in result.findings} <= {"note"}
    assert result.majors == (11, 12)


def test_takes_cuda_11_from_torch_of_its_time(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.11.0", "libcusolver.so.11", "libc10.so")

    assert told(judged(tmp_path, {MEMBER: library}, requires=("torch==2.0.1",))) == []


def test_takes_tensorrt_and_nvrtc_of_torch_as_torch_tensorrt_does(tmp_path: Path) -> None:
    sonames = ("libnvinfer.so.10", "libnvinfer_plugin.so.10", "libcaffe2_nvrtc.so")
    entry = "-Wl,-rpath,$ORIGIN/../torch/lib"
    library = make_library(tmp_path / "made", *sonames, flags=(entry,))
    requires = ("torch==2.11.*", "tensorrt>=10.14,<10.17")

    result = judged(tmp_path, {MEMBER: library}, requires=requires)

    assert told(result) == []
    found = supply_of(result, "libnvinfer.so.10")
    assert found.supplier == "tensorrt-cu13-libs (tensorrt_libs)"
    assert supply_of(result, "libcaffe2_nvrtc.so").supplier == "torch (torch/lib)"
