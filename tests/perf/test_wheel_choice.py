"""The wheel that is measured and whose probe measures it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.model.catalogue import CatalogueEntry, load_catalogue
from cuwheel.model.recipe import Framework
from cuwheel.paths import ROOT
from cuwheel.perf.wheel_choice import (
    check_framework,
    check_probe,
    newest_wheel,
    probe_of,
    read_wheel,
)
from tests.support.factories import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES = load_catalogue([ROOT])
TAG = "cp312-cp312-linux_x86_64"


def wheel_of(folder: Path, name: str, version: str, tag: str = TAG) -> Path:
    return write_wheel(folder, {"x.py": b""}, name=name, version=version, tag=tag)


def entry_of(name: str) -> CatalogueEntry:
    [found] = [one for one in ENTRIES if one.name == name]
    return found


@pytest.mark.parametrize(
    ("name", "version", "recipe", "tag"),
    [
        ("causal_conv1d", "1.6.1+cu130torch2.11", "causal-conv1d", "130"),
        ("jax_finufft_cuda13x", "1.3.1+cu130", "jax-finufft", "130"),
        ("xformers", "0.0.35+cu130", "xformers", "130"),
        ("bitsandbytes", "0.49.1", "bitsandbytes", ""),
    ],
)
def test_recipe_of_a_wheel(tmp_path: Path, name: str, version: str, recipe: str, tag: str) -> None:
    chosen = read_wheel(wheel_of(tmp_path, name, version), ENTRIES)

    assert (chosen.entry.name, chosen.tag) == (recipe, tag)


@pytest.mark.parametrize(
    ("tag", "python"),
    [(TAG, "3.12"), ("py3-none-linux_x86_64", ""), ("cp310-abi3-linux_x86_64", "")],
)
def test_python_of_a_wheel(tmp_path: Path, tag: str, python: str) -> None:
    assert read_wheel(wheel_of(tmp_path, "gsplat", "1.5.3", tag), ENTRIES).python == python


@pytest.mark.parametrize("version", ["1.6.1", "1.6.1+cu130", "1.6.1+cu130torch2.11"])
def test_environment_of_the_wheels_framework(tmp_path: Path, version: str) -> None:
    wheel = read_wheel(wheel_of(tmp_path, "causal_conv1d", version), ENTRIES)

    check_framework(wheel, Framework(name="torch", version="2.11.0"))
    check_framework(wheel, None)


@pytest.mark.parametrize("release", ["2.15", "2.1"])
def test_environment_of_another_framework(tmp_path: Path, release: str) -> None:
    path = wheel_of(tmp_path, "causal_conv1d", f"1.6.1+cu130torch{release}")
    wheel = read_wheel(path, ENTRIES)

    with pytest.raises(UsageError) as caught:
        check_framework(wheel, Framework(name="torch", version="2.11.0"))

    assert f"it is for torch {release}; without the provenance" in caught.value.why
    assert f"put {wheel.path.name}.provenance.json beside it" in caught.value.fix


def test_wheel_that_no_recipe_knows(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_wheel(wheel_of(tmp_path, "numpy", "2.0"), ENTRIES)

    assert (
        caught.value.what == "there is no recipe for numpy, so there is no probe to measure it with"
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [("gone-1.0-py3-none-any.whl", "there is no wheel"), ("readme.txt", "is not a wheel")],
)
def test_file_that_is_no_wheel(tmp_path: Path, name: str, what: str) -> None:
    if name == "readme.txt":
        (tmp_path / name).write_text("")

    with pytest.raises(UsageError) as caught:
        read_wheel(tmp_path / name, ENTRIES)

    assert what in caught.value.what


def test_newest_wheel_of_a_target(tmp_path: Path) -> None:
    wheels = [
        wheel_of(tmp_path, "causal_conv1d", version)
        for version in ("1.6.1+cu130torch2.11", "1.6.0+cu130torch2.11", "1.6.1+cu132torch2.15")
    ]
    wheel_of(tmp_path, "unknown", "1.0")
    for age, path in enumerate(reversed(wheels)):
        os.utime(path, (1e9 + age, 1e9 + age))

    target = newest_wheel(tmp_path, ENTRIES, (entry_of("causal-conv1d"), "130"))
    other = newest_wheel(tmp_path, ENTRIES, (entry_of("causal-conv1d"), "132"))

    assert target
    assert other
    assert (target.path, other.path) == (wheels[0], wheels[2])


def test_folder_without_wheels(tmp_path: Path) -> None:
    assert newest_wheel(tmp_path, ENTRIES, None) is None


def test_every_recipe_but_the_old_ones_has_a_probe() -> None:
    without = [entry.name for entry in ENTRIES if not probe_of(entry).is_file()]

    assert without == ["flash-attn-torch22", "xformers-torch24"]


def test_recipe_without_a_probe() -> None:
    with pytest.raises(UsageError) as caught:
        check_probe(entry_of("xformers-torch24"))

    assert "there are probes for bitsandbytes, causal_conv1d" in caught.value.why
