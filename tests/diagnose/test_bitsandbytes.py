"""Which library bitsandbytes takes; what it does is in tests/e2e and tests/gpu."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.diagnose.bitsandbytes import BnbChoice, choose_library, judge_bnb
from cuwheel.diagnose.facts.environment import Distribution, FrameworkFacts, ModuleRun
from cuwheel.diagnose.facts.gpus import Driver, Gpu

_GPU = Driver(version="580", gpus=(Gpu(index=0, name="A"),), visible=1)


def choose(folder: Path, *held: str, cuda: str = "13.0", asked: str = "") -> BnbChoice:
    paths = tuple(folder / f"libbitsandbytes_cuda{one}.so" for one in held)
    for path in paths:
        path.touch()
    distribution = Distribution(
        name="bitsandbytes", version="0.49.1", site=folder, requires=(), libraries=paths
    )
    torch = FrameworkFacts(name="torch", version="2.11.0", cuda=cuda)
    return choose_library(distribution, torch, {"BNB_CUDA_VERSION": asked} if asked else {})


def judged(choice: BnbChoice, done: ModuleRun | None = None, driver: Driver = _GPU) -> list[str]:
    torch = FrameworkFacts(name="torch", version="2.11.0", cuda="13.0")
    return [f"{one.level}: {one.what}; {one.fix}" for one in judge_bnb(choice, done, driver, torch)]


def make_run(library: str, output: str = "SUCCESS!\n", status: int = 0) -> ModuleRun:
    return ModuleRun(status=status, output=output, libraries=(Path("/site", library),))


def test_takes_library_of_torchs_cuda(tmp_path: Path) -> None:
    found = choose(tmp_path, "128", "130")

    assert (found.library, found.decided_by) == ("libbitsandbytes_cuda130.so", "torch's CUDA")


def test_takes_library_of_variable(tmp_path: Path) -> None:
    found = choose(tmp_path, "128", "130", asked="128")

    assert (found.library, found.decided_by) == ("libbitsandbytes_cuda128.so", "BNB_CUDA_VERSION")


@pytest.mark.parametrize(
    ("held", "cuda", "asked", "fix"),
    [
        (("126", "130"), "13.0", "127", "unset BNB_CUDA_VERSION"),
        (("126", "129"), "12.8", "", "export BNB_CUDA_VERSION=126"),
        (("129", "130"), "12.8", "", "export BNB_CUDA_VERSION=129"),
        (("126",), "13.0", "", "install a bitsandbytes with a library for CUDA 13"),
    ],
)
def test_says_which_toggle_to_set(
    tmp_path: Path, held: tuple[str, ...], cuda: str, asked: str, fix: str
) -> None:
    [found] = judged(choose(tmp_path, *held, cuda=cuda, asked=asked))

    assert found.startswith("broken: bitsandbytes 0.49.1 lacks libbitsandbytes_cuda")
    assert f"; {fix}" in found


def test_expects_success_and_library(tmp_path: Path) -> None:
    [found] = judged(choose(tmp_path, "130"), make_run("libbitsandbytes_cuda130.so"))

    assert found.startswith("ok: ")
    assert "says SUCCESS with libbitsandbytes_cuda130.so" in found


def test_warns_of_success_with_other_library(tmp_path: Path) -> None:
    [found] = judged(choose(tmp_path, "130"), make_run("libbitsandbytes_cpu.so"))

    assert found.startswith("warning: bitsandbytes 0.49.1 has loaded libbitsandbytes_cpu.so")


def test_shows_telling_line_of_failure(tmp_path: Path) -> None:
    choice = choose(tmp_path, "125", "130", asked="125")
    done = make_run("x.so", "a\nlibcudart.so.12: cannot open shared object file\nb", status=1)
    torch = FrameworkFacts(name="torch", version="2.11.0", cuda="13.0")

    [found] = judge_bnb(choice, done, _GPU, torch)

    assert "libcudart.so.12: cannot open" in found.cause
    assert found.fix.startswith("unset BNB_CUDA_VERSION")


def test_does_not_expect_success_without_gpu(tmp_path: Path) -> None:
    [found] = judged(choose(tmp_path, "130"), driver=Driver())

    assert "would load libbitsandbytes_cuda130.so; it wasn't run" in found


@pytest.mark.parametrize(("torch", "why"), [(None, "isn't installed"), ("", "built without CUDA")])
def test_needs_torch_with_cuda(tmp_path: Path, torch: str | None, why: str) -> None:
    framework = None if torch is None else FrameworkFacts(name="torch", version="2", cuda=torch)

    [found] = judge_bnb(choose(tmp_path, "130", cuda=""), None, _GPU, framework)

    assert (found.level, found.anchor) == ("broken", "built-without-cuda")
    assert why in found.cause


def test_waits_for_torch_that_sees_no_gpu(tmp_path: Path) -> None:
    torch = FrameworkFacts(name="torch", version="2", cuda="13.0", available=False)

    [found] = judge_bnb(choose(tmp_path, "130"), make_run("x.so", ""), _GPU, torch)

    assert (found.level, found.fix) == ("warning", "mend torch first, then ask again")
