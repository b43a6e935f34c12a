"""Packages that choose among libraries by CUDA: which one is loaded, and the verdicts."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.check.cuda.library_choice import LibraryPerCuda
from cuwheel.check.diagnose.chosen_library import (
    ChosenLibrary,
    LibraryJudge,
    choose_library,
    choosing_packages,
)
from cuwheel.check.diagnose.facts.imports import FrameworkFacts, ModuleRun
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu
from cuwheel.check.diagnose.verdict import Diagnosis
from tests.check.diagnose.samples import make_context, make_distribution
from tests.support.factories import make_recipe

_TAGGED = LibraryPerCuda(
    file="pkg/libpkg_cuda{toolkit_tag}.so",
    framework="torch",
    variable="PKG_CUDA",
    without_gpu="libpkg_cpu.so",
)
_DOTTED = LibraryPerCuda(file="pkg/lib/libpkg-{toolkit}.so", framework="torch")
_MAJOR = LibraryPerCuda(file="pkg/libpkg_cu{cuda}.so", framework="jax")


def choose(
    declared: LibraryPerCuda, folder: Path, *held: str, cuda: str = "13.0", override: str = ""
) -> ChosenLibrary:
    """The choice of a package with libraries for these releases, and one without GPU."""
    before, after = re.split(r"\{\w+\}", declared.file.rpartition("/")[2])
    names = (*(f"{before}{release}{after}" for release in held), declared.without_gpu)
    paths = tuple(folder / name for name in names if name)
    for path in paths:
        path.touch()
    distribution = make_distribution("pkg", folder, libraries=paths)
    framework = FrameworkFacts(name=declared.framework, version="2", cuda=cuda)
    environ = {declared.variable: override} if override else {}
    return choose_library(declared, distribution, framework, environ)


@pytest.mark.parametrize(
    ("declared", "held", "settings", "library"),
    [
        (_TAGGED, ("130",), ("13.0", ""), "libpkg_cuda130.so"),
        (_TAGGED, ("128",), ("12.8", ""), "libpkg_cuda128.so"),
        (_DOTTED, ("12.8",), ("12.8", ""), "libpkg-12.8.so"),
        (_MAJOR, ("13",), ("13.0", ""), "libpkg_cu13.so"),
        (_MAJOR, ("13",), ("13", ""), "libpkg_cu13.so"),
        (_TAGGED, ("128", "130"), ("13.0", "128"), "libpkg_cuda128.so"),
        (_TAGGED, ("130",), ("", "130"), "libpkg_cpu.so"),
        (_TAGGED, ("130",), ("13", "130"), "libpkg_cpu.so"),
    ],
)
def test_takes_library_of_the_frameworks_cuda_or_of_the_variable(
    tmp_path: Path,
    declared: LibraryPerCuda,
    held: tuple[str, ...],
    settings: tuple[str, str],
    library: str,
) -> None:
    cuda, override = settings
    choice = choose(declared, tmp_path, *held, cuda=cuda, override=override)

    assert (choice.library, choice.is_held, choice.held) == (library, True, held)


@pytest.mark.parametrize(
    ("held", "nearest"),
    [(("126", "127", "129"), "127"), (("98", "129", "130"), "129"), (("98", "130"), "")],
)
def test_lists_releases_and_the_nearest_of_the_same_major(
    tmp_path: Path, held: tuple[str, ...], nearest: str
) -> None:
    choice = choose(_TAGGED, tmp_path, *held[::-1], cuda="12.8")

    assert (choice.held, choice.nearest) == (held, nearest)
    assert choice.held_releases[-1] == f"{held[-1][:-1]}.{held[-1][-1]}"


def test_does_not_count_library_that_is_gone(tmp_path: Path) -> None:
    lost = make_distribution("pkg", libraries=(tmp_path / "libpkg_cuda130.so",))

    assert choose_library(_TAGGED, lost, None, {}).held == ()


def test_finds_package_by_all_names_of_its_wheels() -> None:
    recipe = make_recipe(
        toolkits=("12.8", "13.0"), wheel_name="Tiny_cuda{cuda}x", library_per_cuda=_MAJOR
    )

    packages = choosing_packages([recipe, make_recipe(name="other")])

    assert set(packages) == {"tiny-cuda", "tiny-cuda12x", "tiny-cuda13x"}


_GPU = Driver(version="580", gpus=(DriverGpu(index=0, name="A"),), visible=1)
_TORCH = FrameworkFacts(name="torch", version="2.11.0", cuda="13.0")


def make_judge(
    folder: Path,
    *releases: str,
    cuda: str = "13.0",
    override: str = "",
    driver: Driver = _GPU,
    torch: FrameworkFacts | None = _TORCH,
) -> LibraryJudge:
    """A judge of bitsandbytes with these libraries, in an environment with this torch."""
    recipe = find_recipe("bitsandbytes", load_catalogue([ROOT])).recipe
    assert recipe
    assert recipe.library_per_cuda
    paths = tuple(folder / f"libbitsandbytes_cuda{release}.so" for release in releases)
    for path in paths:
        path.touch()
    distribution = make_distribution("bitsandbytes", folder, version="0.49.1", libraries=paths)
    framework = dataclasses.replace(torch, cuda=cuda) if torch else None
    environ = {"BNB_CUDA_VERSION": override} if override else {}
    context = make_context(
        distribution,
        environ=environ,
        frameworks=(framework,) if framework else (),
        driver=driver,
    )
    return LibraryJudge(
        context=context, distribution=distribution, recipe=recipe, declared=recipe.library_per_cuda
    )


def judged(judge: LibraryJudge, check: ModuleRun | None = None) -> Diagnosis:
    [verdict] = judge.judge(check)
    return verdict


@pytest.mark.parametrize(
    ("releases", "cuda", "override", "fix"),
    [
        (("126", "130"), "13.0", "127", "unset BNB_CUDA_VERSION"),
        (("126", "129"), "12.8", "", "export BNB_CUDA_VERSION=126"),
        (("129", "130"), "12.8", "", "export BNB_CUDA_VERSION=129"),
        (("126",), "13.0", "", "install a bitsandbytes with a library for CUDA 13"),
    ],
)
def test_names_variable_to_set(
    tmp_path: Path, releases: tuple[str, ...], cuda: str, override: str, fix: str
) -> None:
    verdict = judged(make_judge(tmp_path, *releases, cuda=cuda, override=override))

    assert (verdict.level, verdict.anchor) == ("broken", "bnb-native-lib-missing")
    assert verdict.fix.startswith(fix)


@pytest.mark.parametrize(
    ("cuda", "builds"), [("13.0", "nox -s build-bitsandbytes-130"), ("14.1", "")]
)
def test_names_build_where_the_recipe_has_one(tmp_path: Path, cuda: str, builds: str) -> None:
    verdict = judged(make_judge(tmp_path, "126", cuda=cuda))

    assert verdict.fix.partition(", or build it: ")[2] == builds


def test_warns_of_library_that_is_not_the_frameworks(tmp_path: Path) -> None:
    verdict = judged(make_judge(tmp_path, "125", "130", override="125", driver=Driver()))

    assert verdict.level == "warning"
    assert verdict.cause.startswith("BNB_CUDA_VERSION=125 ")


@pytest.mark.parametrize(
    ("library", "output", "level", "text"),
    [
        ("libbitsandbytes_cuda130.so", "SUCCESS!\n", "ok", "with libbitsandbytes_cuda130.so"),
        ("libbitsandbytes_cpu.so", "SUCCESS!\n", "warning", "loaded libbitsandbytes_cpu.so"),
        ("x.so", "a\nlibx.so: cannot open shared object\nb", "broken", " libx.so: cannot open"),
    ],
)
def test_expects_success_and_library(
    tmp_path: Path, library: str, output: str, level: str, text: str
) -> None:
    check = ModuleRun(status=0, output=output, libraries=(Path("/site", library),))

    verdict = judged(make_judge(tmp_path, "130"), check)

    assert verdict.level == level
    assert text in f"{verdict.what} {verdict.cause}"


def test_does_not_expect_success_without_gpu(tmp_path: Path) -> None:
    verdict = judged(make_judge(tmp_path, "130", driver=Driver()))

    assert verdict.level == "ok"
    assert verdict.what.endswith("there is no GPU")


@pytest.mark.parametrize(
    ("torch", "why"), [(None, "isn't installed"), (_TORCH, "is built without CUDA")]
)
def test_needs_torch_with_cuda(tmp_path: Path, torch: FrameworkFacts | None, why: str) -> None:
    verdict = judged(make_judge(tmp_path, "130", cuda="", torch=torch))

    assert (verdict.level, verdict.anchor) == ("broken", "built-without-cuda")
    assert why in verdict.cause


def test_waits_for_torch_that_sees_no_gpu(tmp_path: Path) -> None:
    blind = dataclasses.replace(_TORCH, available=False)

    verdict = judged(make_judge(tmp_path, "130", torch=blind))

    assert (verdict.level, verdict.anchor) == ("warning", "no-cuda-device")
    assert verdict.fix.startswith("fix torch first")


@pytest.mark.parametrize(
    ("release", "changes", "level", "anchor"),
    [
        ("130", {"check": "", "success": ""}, "ok", ""),
        ("126", {"explained": ""}, "broken", "diagnose-no-library"),
    ],
)
def test_needs_neither_check_nor_entry(
    tmp_path: Path, release: str, changes: dict[str, Any], level: str, anchor: str
) -> None:
    judge = make_judge(tmp_path, release)
    declared = dataclasses.replace(judge.declared, **changes)

    verdict = judged(dataclasses.replace(judge, declared=declared))

    assert (verdict.level, verdict.anchor) == (level, anchor)
