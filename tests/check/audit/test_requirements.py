"""The conditions for a library from another wheel: required, by an extra, loaded before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.packages.defective_wheels import (
    CU13,
    MEMBER,
    audited_library,
    breaches,
    library_breaches,
    rpath,
    supply_of,
)

_OTHER_SYSTEM = ("nvidia-cufft; sys_platform == 'win32'",)


@pytest.mark.parametrize(
    ("sonames", "requires", "soname", "condition"),
    [
        (("libtorch.so", "libc10.so"), ("torch>=2.11",), "libtorch.so", "loaded before by torch"),
        (("libcudart.so.13", "libtorch.so"), ("torch==2.11.0",), "libcudart.so.13", "with torch"),
        (
            ("libcublas.so.13",),
            ("cuda-pathfinder", 'nvidia-cublas; extra == "ctk"'),
            "libcublas.so.13",
            "with the extra ctk, loaded before by cuda-pathfinder",
        ),
    ],
    ids=["framework loads", "framework requires", "pathfinder loads"],
)
def test_names_condition(
    tmp_path: Path, sonames: tuple[str, ...], requires: tuple[str, ...], soname: str, condition: str
) -> None:
    result = audited_library(tmp_path, *sonames, requires=requires)

    assert breaches(result) == []
    assert supply_of(result, soname).condition.startswith(condition)


def test_requirement_for_another_system_does_not_count(tmp_path: Path) -> None:
    findings = library_breaches(tmp_path, "libcufft.so.12", flags=(CU13,), requires=_OTHER_SYSTEM)

    assert ("error", "needed library", MEMBER) in findings


def test_requirement_for_another_system_may_be_unused(tmp_path: Path) -> None:
    assert library_breaches(tmp_path, requires=_OTHER_SYSTEM) == []


def test_framework_without_requirement_is_one_finding(tmp_path: Path) -> None:
    findings = library_breaches(tmp_path, "libc10.so", "libtorch.so", "libcudart.so.13")

    assert findings == [("warning", "needed library", MEMBER)]


def test_guesses_supplier_by_name(tmp_path: Path) -> None:
    requires = ("libtiny-dep-cu13==1.*",)

    result = audited_library(tmp_path, "libtiny_dep.so", "libunder.so.3", requires=requires)

    assert breaches(result) == [("note", "needed library", MEMBER)] * 2
    assert supply_of(result, "libtiny_dep.so").supplier == "libtiny-dep-cu13"
    assert supply_of(result, "libunder.so.3").supplier == ""


@pytest.mark.parametrize(
    ("entry", "required", "severity"),
    [
        ("$ORIGIN/Qt6/lib", "PyQt6-Qt6<7", "note"),
        ("$ORIGIN/Qt6/lib", "numpy", "error"),
        ("$ORIGIN/../lib", "PyQt6-Qt6<7", "error"),
    ],
)
def test_guesses_supplier_by_folder(
    tmp_path: Path, entry: str, required: str, severity: str
) -> None:
    """As in pyqt6 6.12.0: a requirement fills a folder of the package."""
    flags = (f"-Wl,-rpath,{entry}",)

    findings = library_breaches(tmp_path, "libOther.so.6", flags=flags, requires=(required,))

    assert (severity, "needed library", MEMBER) in findings


def test_known_component_is_no_guess(tmp_path: Path) -> None:
    sonames, requires = ("libcudnn.so.9", "libnowhere.so.10"), ("nvidia-cudnn-cu13",)

    findings = library_breaches(
        tmp_path, *sonames, flags=rpath("nvidia/cudnn/lib"), requires=requires
    )

    assert ("error", "needed library", MEMBER) in findings


def test_takes_library_that_framework_loads(tmp_path: Path) -> None:
    result = audited_library(tmp_path, "libgomp.so.1", requires=("torch>=2.11",))

    assert breaches(result) == [("note", "needed library", MEMBER)]
    assert supply_of(result, "libgomp.so.1").condition == "loaded before by torch"


@pytest.mark.parametrize(
    ("requires", "is_lost"),
    [
        (("cuda-toolkit[nvrtc]==13.*",), True),
        (("cuda-toolkit[nvrtc]==13.0.2",), True),
        (("cuda-toolkit[nvrtc]==13.4.3",), False),
        (("nvidia-cuda-nvrtc>=13.1",), False),
        (("cuda-toolkit[nvrtc]==13.*", "cuda-pathfinder"), False),
        (("cuda-toolkit[nvrtc]==13.*", "torch==2.11.0"), False),
    ],
)
def test_finds_required_nvrtc_without_its_builtins(
    tmp_path: Path, requires: tuple[str, ...], *, is_lost: bool
) -> None:
    result = audited_library(tmp_path, "libnvrtc.so.13", flags=(CU13,), requires=requires)

    assert any("nvidia-cuda-nvrtc<13.1" in item.fact for item in result.findings) is is_lost
