"""The recipe that `pick` advises where no wheel fits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cuwheel.base.paths import ROOT
from cuwheel.build.pipeline.build_advice import build_advice, can_build
from cuwheel.build.pipeline.summary import Summary
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.check.pick.machine import parse_machine
from tests.support.factories import make_recipe

LINUX = "platform=x86_64"
NO_BUILDS = Path("/nowhere")


@pytest.mark.parametrize(
    ("project", "machine", "command"),
    [
        ("flash-attn", "python=3.12", "flash-attn-130"),  # of no recipe for an older PyTorch
        (
            "flash-attn",
            "python=3.12,torch=2.11,cuda=13.0,arch=90",
            "flash-attn-130 -- --arch 90",
        ),
        ("flash-attn", "python=3.12,cuda=13.0,arch=86", "flash-attn-130 -- --arch 80"),
        ("flash-attn", "python=3.12,cuda=13.0,arch=121", "flash-attn-130 -- --arch 120"),
        ("flash-attn", "python=3.12,cuda=13.0,arch=75", "flash-attn-130"),  # none serves it
        ("flash-attn", "python=3.12,torch=2.4.1,cuda=12.1,arch=80", "flash-attn-121 -- --arch 80"),
        ("flash-attn", "python=3.10,torch=2.2.2,cuda=12.1", "flash-attn-torch22-121"),
        ("flash-attn", "python=3.12,driver=535.161.07", "flash-attn-124"),
        ("xformers", "python=3.12", "xformers-130"),
        ("xformers", "python=3.12,torch=2.15.0,cuda=13.2", "xformers-130"),  # the wheel serves it
        ("causal-conv1d", "python=3.12", "causal-conv1d-132"),
        ("causal-conv1d", "python=3.12,cuda=13.0", "causal-conv1d-130"),
        ("jax-finufft-cuda12x", "python=3.12", "jax-finufft-124"),
    ],
)
def test_names_command_that_suits_the_machine(project: str, machine: str, command: str) -> None:
    advice = build_advice(
        load_catalogue([ROOT]), NO_BUILDS, Requirement(project), parse_machine(f"{machine},{LINUX}")
    )

    assert advice.startswith(f"`nox -s build-{command}` builds one")


@pytest.mark.parametrize(("torch", "is_built"), [("2.11.0", True), ("2.12.1", False)])
def test_builds_for_planned_environment(torch: str, is_built: bool) -> None:  # noqa: FBT001
    machine = parse_machine(f"python=3.13,torch={torch},cuda=13.0,{LINUX}")
    planned = dataclasses.replace(machine, is_planned=True)
    arguments = (load_catalogue([ROOT]), NO_BUILDS, Requirement("flash-attn"), planned)

    assert can_build(arguments[0], *arguments[2:]) is is_built
    assert "flash-attn-130 -- --python 3.13` builds one" in build_advice(*arguments)


@pytest.mark.parametrize(
    ("machine", "rest"),
    [
        ("cuda=13.0", " for CUDA 13.0 and torch 2.11"),
        ("cuda=12.1", " for CUDA 12.1 and torch 2.4; nobody has built it yet"),
        (
            "torch=2.10,cuda=13.0",
            " for CUDA 13.0 and torch 2.11; it wouldn't fit this machine either",
        ),
    ],
)
def test_names_what_the_wheel_is_for(machine: str, rest: str) -> None:
    paper = parse_machine(f"python=3.12,{machine},{LINUX}")

    assert f"builds one{rest}; " in build_advice(
        load_catalogue([ROOT]), NO_BUILDS, Requirement("flash-attn"), paper
    )


def test_names_cost_of_a_build(tmp_path: Path) -> None:
    paper = parse_machine(f"python=3.12,cuda=13.0,arch=90,{LINUX}")
    unknown = build_advice(load_catalogue([ROOT]), tmp_path, Requirement("flash-attn"), paper)
    summary = Summary(
        wheel="x",
        size=1,
        sha256="",
        archs=("90",),
        ptx_archs=(),
        platform_tag="",
        external=(),
        bundled=(),
        durations=(("build", 1402.0), ("repair", 20.0)),
        peak_memory=0,
        cache="",
    )
    record = tmp_path / ".cuwheel" / "flash-attn-130-cp312-torch2.11.json"
    record.parent.mkdir(parents=True)
    text = {"key": {"archs": "90"}, "summary": dataclasses.asdict(summary)}
    record.write_text(json.dumps(text))

    known = build_advice(load_catalogue([ROOT]), tmp_path, Requirement("flash-attn"), paper)

    needs = "it needs 5.0 GiB of memory for each parallel compile and 8.0 GiB of disk"
    assert unknown.endswith(f"{needs}; its time for 1 arch on this machine is unknown")
    assert known.endswith(f"{needs}; the last build here took 24 min")


def entry(**changes: object) -> CatalogueEntry:
    recipe: Recipe = make_recipe(**changes)
    return CatalogueEntry(root=ROOT, name=recipe.name, recipe=recipe)


@pytest.mark.parametrize(
    ("machine", "target"),
    [
        ("python=3.12,arch=120", "fast-130"),
        ("python=3.12,arch=70", "fast-128"),
        ("python=3.10", "old-122"),
    ],
)
def test_heeds_gpu_and_python(machine: str, target: str) -> None:
    archs = {"12.8": ("70", "90"), "13.0": ("90", "120")}
    new = entry(name="fast", toolkits=("12.8", "13.0"), archs=archs, requires_python=">=3.11")
    old = entry(name="old", toolkits=("12.2",), archs=(), wheel_name="fast", held_back="old code")

    advice = build_advice(
        (new, old), NO_BUILDS, Requirement("fast"), parse_machine(f"{machine},{LINUX}")
    )

    assert f"`nox -s build-{target}" in advice


def test_passes_over_recipe_that_can_not_be_loaded() -> None:
    broken = CatalogueEntry(root=ROOT, name="fast", recipe=None, fault="no")

    advice = build_advice(
        (broken,), NO_BUILDS, Requirement("fast"), parse_machine(f"python=3.12,{LINUX}")
    )

    assert advice == "`nox -s new -- fast` drafts a recipe"


@pytest.mark.parametrize(
    ("wanted", "start"),
    [
        (
            "flash-attn==2.7.4",
            "recipes pin 2.8.3, 2.5.6, not ==2.7.4; `nox -s build -- flash-attn-130==2.7.4`",
        ),
        (
            "llama-cpp-python>9",
            "recipes pin 0.3.36, not >9; `nox -s build -- llama-cpp-python-130==VERSION`",
        ),
        ("unheard-of==1.2", "`nox -s new -- unheard-of --version 1.2` drafts a recipe"),
        ("unheard-of>1", "`nox -s new -- unheard-of` drafts a recipe"),
    ],
)
def test_advises_no_build_of_another_release(wanted: str, start: str) -> None:
    machine = parse_machine(f"python=3.12,{LINUX}")

    advice = build_advice(load_catalogue([ROOT]), NO_BUILDS, Requirement(wanted), machine)

    assert advice.startswith(start)
