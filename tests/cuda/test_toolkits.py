from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from cuwheel.cuda.toolkits import TOOLKITS, check_archs, toolkit_by_release
from cuwheel.errors import UnsupportedArchError, UsageError
from cuwheel.paths import ROOT
from cuwheel.pypi.lock_file import pinned_version
from cuwheel.system.compilers import archs_of, newest_gcc_for

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.cuda.toolkits import Toolkit

_TOOLKIT = toolkit_by_release("13.0")
every_toolkit = pytest.mark.parametrize("toolkit", TOOLKITS, ids=lambda toolkit: toolkit.tag)


@pytest.mark.parametrize("name", ["13.0", "130"])
def test_finds_toolkit_by_release_and_tag(name: str) -> None:
    assert toolkit_by_release(name).nvcc == "13.0.88"


def test_names_nearest_toolkit() -> None:
    with pytest.raises(UsageError) as caught:
        toolkit_by_release("13.00")

    assert caught.value.why == 'did you mean "13.0"?'


def test_refuses_all_unknown_archs_together() -> None:
    with pytest.raises(UnsupportedArchError) as caught:
        check_archs("x-130", _TOOLKIT, ("70", "90", "999"))

    assert caught.value.what == "x-130: CUDA 13.0 cannot compile for sm_70, sm_999"
    assert caught.value.fix.startswith('remove "70", "999"')


def test_takes_archs_of_one_gpu_and_of_a_family() -> None:
    check_archs("x-130", _TOOLKIT, ("90a", "100f", "120a"))


def test_refuses_family_that_toolkit_lacks() -> None:
    with pytest.raises(UnsupportedArchError) as caught:
        check_archs("x-128", toolkit_by_release("12.8"), ("100a", "100f"))

    assert caught.value.what == "x-128: CUDA 12.8 cannot compile for sm_100f"


@pytest.mark.parametrize("written", ["sm_90", "compute_90", "9.0"])
def test_says_how_an_arch_is_written(written: str) -> None:
    with pytest.raises(UnsupportedArchError) as caught:
        check_archs("x-130", _TOOLKIT, (written,))

    assert caught.value.what == f"x-130: CUDA 13.0 cannot compile for {written}"
    assert caught.value.fix == f'write {written} as "90"'


@every_toolkit
def test_nvcc_is_of_its_release(toolkit: Toolkit) -> None:
    assert toolkit.nvcc.startswith(f"{toolkit.release}.")


def test_knows_releases_in_order() -> None:
    releases = [Version(toolkit.release) for toolkit in TOOLKITS]

    assert releases == sorted(set(releases))


@every_toolkit
def test_wheels_with_compiler_come_from_pypi(toolkit: Toolkit) -> None:
    assert (toolkit.provider == "pypi") == bool(toolkit.site_folder)


@every_toolkit
def test_pypi_lock_is_there_where_it_is_the_default(toolkit: Toolkit) -> None:
    lock = ROOT / "envs" / f"cuda{toolkit.tag}" / "pypi.lock"

    assert lock.is_file() == (toolkit.provider == "pypi")


@every_toolkit
def test_table_holds_version_of_locked_nvcc(toolkit: Toolkit) -> None:
    lock = ROOT / "envs" / f"cuda{toolkit.tag}" / "pypi.lock"
    names = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm")
    locked = {pinned_version(lock, name) for name in names}

    assert locked == ({toolkit.nvcc} if lock.is_file() else {None})


def test_table_holds_archs_of_real_nvcc(cuda_home: Path, tmp_path: Path) -> None:
    assert archs_of(cuda_home / "bin" / "nvcc", tmp_path) == set(_TOOLKIT.archs)


def test_table_holds_limit_of_real_nvcc(cuda_home: Path) -> None:
    assert newest_gcc_for(cuda_home) == _TOOLKIT.max_gcc


def test_says_which_releases_a_major_has() -> None:
    with pytest.raises(UsageError) as caught:
        toolkit_by_release("13")

    assert caught.value.why.startswith("releases of CUDA 13 are 13.0, 13.1")


def test_does_not_list_an_arch_that_it_refuses() -> None:
    with pytest.raises(UnsupportedArchError) as caught:
        check_archs("x-130", _TOOLKIT, ("sm_90",))

    assert caught.value.why == 'an arch is written without sm_ and dot: write sm_90 as "90"'
