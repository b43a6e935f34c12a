"""Which of its libraries a package takes, however it names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.diagnose.facts.chosen_library import (
    choose_library,
    choosing_packages,
    is_own_library,
)
from cuwheel.diagnose.facts.environment import Distribution
from cuwheel.diagnose.facts.imports import FrameworkFacts
from cuwheel.model.recipe import LibraryPerCuda
from tests.support.factories import make_recipe

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.facts.chosen_library import ChosenLibrary

_TAGGED = LibraryPerCuda(
    file="pkg/libpkg_cuda{toolkit_tag}.so",
    framework="torch",
    variable="PKG_CUDA",
    without_gpu="libpkg_cpu.so",
)
_DOTTED = LibraryPerCuda(file="pkg/lib/libpkg-{toolkit}.so", framework="torch")
_MAJOR = LibraryPerCuda(file="pkg/libpkg_cu{cuda}.so", framework="jax")


def choose(
    declared: LibraryPerCuda, folder: Path, *held: str, cuda: str = "13.0", asked: str = ""
) -> ChosenLibrary:
    paths = tuple(folder / name for name in held)
    for path in paths:
        path.touch()
    distribution = Distribution(
        name="pkg", version="1", site=folder, metadata=folder, requires=(), libraries=paths
    )
    framework = FrameworkFacts(name=declared.framework, version="2", cuda=cuda)
    environ = {declared.variable: asked} if asked else {}
    return choose_library(declared, distribution, framework, environ)


@pytest.mark.parametrize(
    ("declared", "cuda", "library"),
    [
        (_TAGGED, "13.0", "libpkg_cuda130.so"),
        (_TAGGED, "12.8", "libpkg_cuda128.so"),
        (_DOTTED, "12.8", "libpkg-12.8.so"),
        (_MAJOR, "13.0", "libpkg_cu13.so"),
        (_MAJOR, "13", "libpkg_cu13.so"),
    ],
)
def test_takes_library_of_the_frameworks_cuda(
    tmp_path: Path, declared: LibraryPerCuda, cuda: str, library: str
) -> None:
    found = choose(declared, tmp_path, library, cuda=cuda)

    assert (found.library, found.is_held) == (library, True)
    assert found.decided_by == f"{declared.framework}'s CUDA"


def test_takes_library_of_variable(tmp_path: Path) -> None:
    found = choose(_TAGGED, tmp_path, "libpkg_cuda128.so", "libpkg_cuda130.so", asked="128")

    assert (found.library, found.decided_by) == ("libpkg_cuda128.so", "PKG_CUDA")
    assert found.hint == "unset PKG_CUDA: the package has the library for torch's CUDA, 130"


@pytest.mark.parametrize("cuda", ["", "13"])
def test_takes_library_without_gpu_where_the_release_is_not_known(
    tmp_path: Path, cuda: str
) -> None:
    found = choose(_TAGGED, tmp_path, "libpkg_cuda130.so", cuda=cuda, asked="130")

    assert (found.library, found.release) == ("libpkg_cpu.so", "")


def test_knows_what_the_package_holds(tmp_path: Path) -> None:
    names = ("libpkg_cuda130.so", "libpkg_cuda98.so", "libpkg_cuda128.so", "libpkg_cpu.so")

    found = choose(_TAGGED, tmp_path, *names)

    assert found.held == ("98", "128", "130")
    assert found.held_releases == ("9.8", "12.8", "13.0")


@pytest.mark.parametrize(
    ("held", "nearest"),
    [(("126", "127", "129"), "127"), (("129", "130"), "129"), (("118", "130"), "")],
)
def test_knows_nearest_of_the_same_major(
    tmp_path: Path, held: tuple[str, ...], nearest: str
) -> None:
    names = (f"libpkg_cuda{one}.so" for one in held)

    assert choose(_TAGGED, tmp_path, *names, cuda="12.8").nearest == nearest


def test_does_not_count_library_that_is_gone(tmp_path: Path) -> None:
    lost = Distribution(
        name="pkg",
        version="1",
        site=tmp_path,
        metadata=tmp_path,
        requires=(),
        libraries=(tmp_path / "libpkg_cuda130.so",),
    )

    assert choose_library(_TAGGED, lost, None, {}).held == ()


@pytest.mark.parametrize(
    ("name", "is_own"),
    [("libpkg_cuda130.so", True), ("libpkg_cpu.so", True), ("libpkg_cuda.so", False)],
)
def test_tells_its_libraries_from_others(name: str, is_own: object) -> None:
    assert is_own_library(_TAGGED, name) is is_own


def test_knows_package_by_all_names_of_its_wheels() -> None:
    recipe = make_recipe(
        toolkits=("12.8", "13.0"), wheel_name="Tiny_cuda{cuda}x", library_per_cuda=_MAJOR
    )

    found = choosing_packages([recipe, make_recipe(name="other")])

    assert set(found) == {"tiny-cuda", "tiny-cuda12x", "tiny-cuda13x"}
