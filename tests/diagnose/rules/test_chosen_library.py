"""What is said of the library that a package chooses, on the recipe of bitsandbytes.

What bitsandbytes itself does is in tests/e2e and tests/gpu.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.diagnose.facts.chosen_library import choose_library
from cuwheel.diagnose.facts.environment import Distribution
from cuwheel.diagnose.facts.gpus import Driver, Gpu
from cuwheel.diagnose.facts.imports import FrameworkFacts, ModuleRun
from cuwheel.diagnose.rules.chosen_library import LibraryJudge
from cuwheel.model.catalogue import find_recipe, load_catalogue
from cuwheel.paths import ROOT

if TYPE_CHECKING:
    from cuwheel.diagnose.verdict import Verdict

_GPU = Driver(version="580", gpus=(Gpu(index=0, name="A"),), visible=1)
_TORCH = FrameworkFacts(name="torch", version="2.11.0", cuda="13.0")


def make_judge(
    folder: Path,
    *held: str,
    cuda: str = "13.0",
    asked: str = "",
    driver: Driver = _GPU,
    torch: FrameworkFacts | None = _TORCH,
) -> LibraryJudge:
    """A judge of bitsandbytes with these libraries, in an environment with this torch."""
    recipe = find_recipe("bitsandbytes", load_catalogue([ROOT])).recipe
    assert recipe
    assert recipe.library_per_cuda
    paths = tuple(folder / f"libbitsandbytes_cuda{one}.so" for one in held)
    for path in paths:
        path.touch()
    distribution = Distribution(
        name="bitsandbytes",
        version="0.49.1",
        site=folder,
        metadata=folder,
        requires=(),
        libraries=paths,
    )
    framework = dataclasses.replace(torch, cuda=cuda) if torch else None
    environ = {"BNB_CUDA_VERSION": asked} if asked else {}
    return LibraryJudge(
        project="bitsandbytes",
        recipe=recipe,
        declared=recipe.library_per_cuda,
        choice=choose_library(recipe.library_per_cuda, distribution, framework, environ),
        driver=driver,
        framework=framework,
        cuda_build="pip install torch",
    )


def judged(judge: LibraryJudge, done: ModuleRun | None = None) -> Verdict:
    [verdict] = judge.judge(done)
    return verdict


def make_run(library: str, output: str = "SUCCESS!\n", status: int = 0) -> ModuleRun:
    return ModuleRun(status=status, output=output, libraries=(Path("/site", library),))


@pytest.mark.parametrize(
    ("held", "cuda", "asked", "fix"),
    [
        (("126", "130"), "13.0", "127", "unset BNB_CUDA_VERSION"),
        (("126", "129"), "12.8", "", "export BNB_CUDA_VERSION=126"),
        (("129", "130"), "12.8", "", "export BNB_CUDA_VERSION=129"),
        (("126",), "13.0", "", "install a bitsandbytes with a library for CUDA 13"),
    ],
)
def test_says_which_variable_to_set(
    tmp_path: Path, held: tuple[str, ...], cuda: str, asked: str, fix: str
) -> None:
    found = judged(make_judge(tmp_path, *held, cuda=cuda, asked=asked))

    assert (found.level, found.anchor) == ("broken", "bnb-native-lib-missing")
    assert found.what.startswith("bitsandbytes 0.49.1 lacks libbitsandbytes_cuda")
    assert found.fix.startswith(fix)


@pytest.mark.parametrize(
    ("cuda", "builds"), [("13.0", "nox -s build-bitsandbytes-130"), ("14.1", "")]
)
def test_names_build_where_the_recipe_has_one(tmp_path: Path, cuda: str, builds: str) -> None:
    found = judged(make_judge(tmp_path, "126", cuda=cuda))

    assert found.fix.partition(", or build it: ")[2] == builds


def test_warns_of_library_that_is_not_the_frameworks(tmp_path: Path) -> None:
    found = judged(make_judge(tmp_path, "125", "130", asked="125", driver=Driver()))

    assert found.level == "warning"
    assert found.cause == "BNB_CUDA_VERSION=125 selects it, and torch is built with CUDA 13.0"


def test_expects_success_and_library(tmp_path: Path) -> None:
    found = judged(make_judge(tmp_path, "130"), make_run("libbitsandbytes_cuda130.so"))

    assert found.level == "ok"
    assert "prints SUCCESS! with libbitsandbytes_cuda130.so" in found.what


def test_warns_of_success_with_other_library(tmp_path: Path) -> None:
    found = judged(make_judge(tmp_path, "130"), make_run("libbitsandbytes_cpu.so"))

    assert found.level == "warning"
    assert found.what == "bitsandbytes 0.49.1 has loaded libbitsandbytes_cpu.so"


def test_shows_telling_line_of_failure(tmp_path: Path) -> None:
    done = make_run("x.so", "a\nlibcudart.so.12: cannot open shared object file\nb", status=1)

    found = judged(make_judge(tmp_path, "125", "130", asked="125"), done)

    assert "libcudart.so.12: cannot open" in found.cause
    assert found.fix.startswith("unset BNB_CUDA_VERSION")


def test_does_not_expect_success_without_gpu(tmp_path: Path) -> None:
    found = judged(make_judge(tmp_path, "130", driver=Driver()))

    assert found.level == "ok"
    assert "would load libbitsandbytes_cuda130.so; not run here: there is no GPU" in found.what


def test_says_that_nothing_checks_a_package_without_check(tmp_path: Path) -> None:
    judge = make_judge(tmp_path, "130")
    declared = dataclasses.replace(judge.declared, check="", success="")

    found = judged(dataclasses.replace(judge, declared=declared))

    assert found.level == "ok"
    assert "not run here: it has no self-check" in found.what


@pytest.mark.parametrize(
    ("torch", "why"), [(None, "isn't installed"), (_TORCH, "is built without CUDA")]
)
def test_needs_torch_with_cuda(tmp_path: Path, torch: FrameworkFacts | None, why: str) -> None:
    found = judged(make_judge(tmp_path, "130", cuda="", torch=torch))

    assert (found.level, found.anchor) == ("broken", "built-without-cuda")
    assert why in found.cause


def test_waits_for_torch_that_sees_no_gpu(tmp_path: Path) -> None:
    blind = dataclasses.replace(_TORCH, available=False)

    found = judged(make_judge(tmp_path, "130", torch=blind), make_run("x.so", ""))

    assert found.what == (
        "bitsandbytes 0.49.1 uses libbitsandbytes_cpu.so, not libbitsandbytes_cuda130.so"
    )
    assert (found.level, found.fix) == ("warning", "fix torch first, then run this again")


def test_leads_to_general_entry_where_none_is_declared(tmp_path: Path) -> None:
    judge = make_judge(tmp_path, "126")
    declared = dataclasses.replace(judge.declared, explained="")

    assert judged(dataclasses.replace(judge, declared=declared)).anchor == "diagnose-no-library"
