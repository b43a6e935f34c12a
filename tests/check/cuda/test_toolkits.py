from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from cuwheel.base.errors import RecipeError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.compilers import archs_of, newest_gcc_for
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.check.cuda.toolkits import TOOLKITS, Toolkit, check_archs, toolkit_by_release

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
    with pytest.raises(RecipeError) as caught:
        check_archs("x-130", _TOOLKIT, ("70", "90", "999"))

    assert caught.value.what == "x-130: CUDA 13.0 cannot compile for sm_70, sm_999"
    assert caught.value.fix.startswith('remove "70", "999"')


def test_accepts_archs_of_one_gpu_and_of_a_family() -> None:
    check_archs("x-130", _TOOLKIT, ("90a", "100f", "120a"))


def test_refuses_family_that_toolkit_lacks() -> None:
    with pytest.raises(RecipeError) as caught:
        check_archs("x-128", toolkit_by_release("12.8"), ("100a", "100f"))

    assert caught.value.what == "x-128: CUDA 12.8 cannot compile for sm_100f"


@pytest.mark.parametrize("written", ["sm_90", "compute_90", "9.0"])
def test_suggests_arch_without_prefix(written: str) -> None:
    with pytest.raises(RecipeError) as caught:
        check_archs("x-130", _TOOLKIT, (written,))

    assert caught.value.why.endswith(f'write {written} as "90"')
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
def test_pypi_lock_exists_if_it_is_the_default(toolkit: Toolkit) -> None:
    lock = ROOT / "envs" / f"cuda{toolkit.tag}" / "pypi.lock"

    # `debian` takes the libraries from wheels.
    assert lock.is_file() == (toolkit.provider in {"pypi", "debian"})


@every_toolkit
def test_table_has_version_of_locked_nvcc(toolkit: Toolkit) -> None:
    lock = ROOT / "envs" / f"cuda{toolkit.tag}" / "pypi.lock"
    names: tuple[str, ...] = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm")
    if toolkit.major < 13:  # the release in which the wheels' names lost it
        names = (f"nvidia-cuda-nvcc-cu{toolkit.major}",)
    locked = {pinned_version(lock, name) for name in names}

    assert locked == ({toolkit.nvcc} if lock.is_file() else {None})


def test_table_has_archs_of_real_nvcc(cuda_home: Path, tmp_path: Path) -> None:
    assert archs_of(cuda_home / "bin" / "nvcc", tmp_path) == set(_TOOLKIT.archs)


def test_table_has_limit_of_real_nvcc(cuda_home: Path) -> None:
    assert newest_gcc_for(cuda_home) == _TOOLKIT.max_gcc


def test_lists_releases_of_a_major() -> None:
    with pytest.raises(UsageError) as caught:
        toolkit_by_release("13")

    assert "13.0, 13.1" in caught.value.why
