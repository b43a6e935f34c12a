from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

import pytest

from cuwheel.compilers import newest_gcc_for
from cuwheel.errors import UnsupportedArchError, UsageError
from cuwheel.process import run
from cuwheel.toolkits import (
    COMPONENTS,
    TOOLKITS,
    check_archs,
    component_by_name,
    toolkit_by_release,
)

if TYPE_CHECKING:
    from pathlib import Path

_TOOLKIT = toolkit_by_release("13.0")
_IN_TOOLCHAIN = [found for found in COMPONENTS if found.site_folder.startswith("nvidia/cu13")]


@pytest.mark.parametrize("name", ["13.0", "130"])
def test_finds_toolkit_by_release_and_tag(name: str) -> None:
    assert toolkit_by_release(name).nvcc == "13.0.88"


def test_names_nearest_toolkit() -> None:
    with pytest.raises(UsageError) as caught:
        toolkit_by_release("13.1")

    assert caught.value.why == 'did you mean "13.0"?'


def test_names_nearest_component() -> None:
    with pytest.raises(UsageError) as caught:
        component_by_name("cublaslt")

    assert caught.value.why == 'did you mean "cublasLt"?'


def test_refuses_all_unknown_archs_together() -> None:
    with pytest.raises(UnsupportedArchError) as caught:
        check_archs("x-130", _TOOLKIT, ("70", "90", "999"))

    assert caught.value.what == "x-130: CUDA 13.0 cannot compile for sm_70, sm_999"
    assert caught.value.fix.startswith('remove "70", "999"')


@pytest.mark.parametrize("written", ["sm_90", "compute_90", "9.0"])
def test_says_how_an_arch_is_written(written: str) -> None:
    with pytest.raises(UnsupportedArchError) as caught:
        check_archs("x-130", _TOOLKIT, (written,))

    assert caught.value.what == f"x-130: CUDA 13.0 cannot compile for {written}"
    assert caught.value.fix == f'write {written} as "90"'


@pytest.mark.parametrize("toolkit", TOOLKITS, ids=lambda toolkit: toolkit.tag)
def test_toolkit_starts_with_its_release(toolkit: type) -> None:
    assert str(toolkit.nvcc).startswith(f"{toolkit.release}.")  # type: ignore[attr-defined]


def test_table_holds_archs_of_real_nvcc(cuda_home: Path) -> None:
    told = run([cuda_home / "bin" / "nvcc", "--list-gpu-arch"], env={"PATH": "/usr/bin:/bin"})

    assert set(told.output.replace("compute_", "").split()) == set(_TOOLKIT.archs)


def test_table_holds_limit_of_real_nvcc(cuda_home: Path) -> None:
    assert newest_gcc_for(cuda_home) == _TOOLKIT.max_gcc


@pytest.mark.parametrize("component", _IN_TOOLCHAIN, ids=lambda component: component.name)
def test_table_holds_sonames_of_real_libraries(cuda_home: Path, component: type) -> None:
    names = [path.name for path in (cuda_home / "lib").iterdir()]
    sonames: tuple[str, ...] = component.sonames  # type: ignore[attr-defined]

    missing = [soname for soname in sonames if not fnmatch.filter(names, soname)]

    assert missing == []
