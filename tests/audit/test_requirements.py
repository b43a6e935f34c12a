"""When a wheel gets what its libraries need: required, by an extra, loaded before by another."""

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


def test_takes_framework_for_a_loader(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libtorch.so", "libc10.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch>=2.11",))

    assert told(result) == []
    assert supply_of(result, "libtorch.so").condition == "loaded before by torch"


def test_takes_cuda_of_framework_for_brought(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.13", "libtorch.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch==2.11.0",))

    assert told(result) == []
    assert "torch" in supply_of(result, "libcudart.so.13").condition


def test_leaves_finding_to_pathfinder(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcublas.so.13")
    requires = ("cuda-pathfinder", 'nvidia-cublas; extra == "ctk"')

    result = judged(tmp_path, {MEMBER: library}, requires=requires)

    assert told(result) == []
    found = supply_of(result, "libcublas.so.13").condition
    assert found == "with the extra ctk, loaded before by cuda-pathfinder"


def test_does_not_count_requirement_for_another_system(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))
    requires = ("nvidia-cufft; sys_platform == 'win32'",)

    (finding, *_) = told(judged(tmp_path, {MEMBER: library}, requires=requires))

    fact = "libcufft.so.12 comes from nvidia-cufft, which isn't in Requires-Dist"
    assert finding.endswith(fact)


def test_does_not_miss_use_of_requirement_for_another_system(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made")
    requires = ("nvidia-cufft; sys_platform == 'win32'",)

    assert told(judged(tmp_path, {MEMBER: library}, requires=requires)) == []


def test_tells_framework_that_is_not_required_once(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libc10.so", "libtorch.so", "libcudart.so.13")

    fact = "libc10.so, libtorch.so come from torch, which isn't in Requires-Dist"
    found = told(judged(tmp_path, {MEMBER: library}))
    assert found == [f"error: {MEMBER}: needed library: {fact}"]


def test_takes_library_for_its_namesakes(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libtiny_dep.so", "libunder.so.3")

    found = told(judged(tmp_path, {MEMBER: library}, requires=("libtiny-dep-cu13==1.*",)))

    seems = "libtiny_dep.so seems to come from libtiny-dep-cu13, whose wheel isn't known"
    is_not = "libunder.so.3 isn't in the wheel; what libtiny-dep-cu13 requires isn't known here"
    assert found == [
        f"note: {MEMBER}: needed library: {seems} here",
        f"note: {MEMBER}: needed library: {is_not}",
    ]


@pytest.mark.parametrize(
    ("entry", "required", "severity"),
    [
        ("$ORIGIN/Qt6/lib", "PyQt6-Qt6<7", "note"),
        ("$ORIGIN/Qt6/lib", "numpy", "error"),
        ("$ORIGIN/../lib", "PyQt6-Qt6<7", "error"),
    ],
)
def test_takes_library_from_folder_of_requirement(
    tmp_path: Path, entry: str, required: str, severity: str
) -> None:
    """As in pyqt6 6.12.0, whose requirement fills a folder of the package."""
    library = make_library(tmp_path / "made", "libOther.so.6", flags=(f"-Wl,-rpath,{entry}",))

    found = told(judged(tmp_path, {MEMBER: library}, requires=(required,)))

    assert any(line.startswith(severity) and "libOther.so.6" in line for line in found)


def test_does_not_take_known_component_for_namesake(tmp_path: Path) -> None:
    entry = "-Wl,-rpath,$ORIGIN/../nvidia/cudnn/lib"
    library = make_library(tmp_path / "made", "libcudnn.so.9", "libnowhere.so.10", flags=(entry,))

    found = told(judged(tmp_path, {MEMBER: library}, requires=("nvidia-cudnn-cu13",)))

    assert any("error" in line and "libnowhere.so.10 is neither" in line for line in found)


def test_takes_library_that_framework_loads(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libgomp.so.1")

    (finding,) = told(judged(tmp_path, {MEMBER: library}, requires=("torch>=2.11",)))

    assert finding.startswith(f"note: {MEMBER}: needed library: libgomp.so.1 is neither")
    assert finding.endswith("loaded before by torch")


@pytest.mark.parametrize(
    ("requirement", "is_lost"),
    [
        ("cuda-toolkit[nvrtc]==13.*", True),
        ("cuda-toolkit[nvrtc]==13.0.2", True),
        ("cuda-toolkit[nvrtc]==13.4.3", False),
        ("nvidia-cuda-nvrtc>=13.1", False),
    ],
)
def test_asks_whether_required_nvrtc_finds_its_builtins(
    tmp_path: Path, requirement: str, *, is_lost: bool
) -> None:
    library = make_library(tmp_path / "made", "libnvrtc.so.13", flags=(CU13,))

    found = told(judged(tmp_path, {MEMBER: library}, requires=(requirement,)))

    assert any("nvidia-cuda-nvrtc<13.1" in line for line in found) is is_lost


@pytest.mark.parametrize("loader", ["cuda-pathfinder", "torch==2.11.0"])
def test_lets_loader_bring_builtins(tmp_path: Path, loader: str) -> None:
    library = make_library(tmp_path / "made", "libnvrtc.so.13", flags=(CU13,))
    requires = ("cuda-toolkit[nvrtc]==13.*", loader)

    assert told(judged(tmp_path, {MEMBER: library}, requires=requires)) == []
