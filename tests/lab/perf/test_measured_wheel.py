"""Choice of the wheel to measure and of its probe."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.build.recipe.recipe import Framework
from cuwheel.lab.perf.measured_wheel import (
    check_framework,
    check_probe,
    link_neighbours,
    newest_wheel,
    probe_of,
    read_wheel,
)
from tests.support.factories import compile_library, write_wheel

ENTRIES = load_catalogue([ROOT])
TAG = "cp312-cp312-linux_x86_64"


def wheel_of(folder: Path, name: str, version: str, tag: str = TAG) -> Path:
    return write_wheel(folder, {"x.py": b""}, name=name, version=version, tag=tag)


def entry_of(name: str) -> CatalogueEntry:
    [entry] = [entry for entry in ENTRIES if entry.name == name]
    return entry


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


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("gone-1.0-py3-none-any.whl", "there is no wheel"),
        ("readme.txt", "is not a wheel"),
        ("numpy-2.0-py3-none-any.whl", "there is no recipe for numpy, so there is no probe"),
    ],
)
def test_refuses_wheel_without_a_probe(tmp_path: Path, name: str, what: str) -> None:
    if not name.startswith("gone"):
        (tmp_path / name).write_text("")

    with pytest.raises(UsageError) as caught:
        read_wheel(tmp_path / name, ENTRIES)

    assert what in caught.value.what


def test_newest_wheel_of_a_target(tmp_path: Path) -> None:
    assert newest_wheel(tmp_path, ENTRIES, None) is None
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


def test_every_recipe_but_older_ones_has_a_probe() -> None:
    without = [entry.name for entry in ENTRIES if not probe_of(entry).is_file()]

    older = {"flash-attn-torch22", "mamba-ssm-torch26", "xformers-torch24", "xformers-torch26"}
    assert {*without} == older
    with pytest.raises(UsageError) as caught:
        check_probe(entry_of("xformers-torch24"))
    assert "there are probes for bitsandbytes, causal_conv1d" in caught.value.why


OWN = "int other(void);\nint call(void) { return other(); }\n"
RPATH = "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib:$ORIGIN:/usr/lib/unpacked"
# In another folder, as cuTensor's library for cuTensorNet's.
DEEP = "-Wl,-rpath,$ORIGIN/../../../deep/lib"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An environment's packages: one library, which needs another."""
    folder = tmp_path / "site"
    (tmp_path / "deep.c").write_text("int deep(void) { return 7; }\n")
    (tmp_path / "other.c").write_text("int deep(void);\nint other(void) { return deep(); }\n")
    deep = compile_library(folder / "deep/lib/libdeep.so", "gcc", tmp_path / "deep.c", "-fPIC")
    compile_library(
        folder / "nvidia/cu13/lib/libother.so",
        *("gcc", tmp_path / "other.c", "-fPIC", f"-L{deep.parent}", "-ldeep", DEEP),
    )
    (folder / "nvidia" / "__init__.py").touch()
    return folder


@pytest.fixture
def unpacked(tmp_path: Path, site: Path) -> Path:
    """A wheel's package, with a library that needs the environment's."""
    (tmp_path / "own.c").write_text(OWN)
    lib = site / "nvidia" / "cu13" / "lib"
    search = (f"-L{lib}", "-lother", f"-Wl,-rpath-link,{site / 'deep' / 'lib'}", RPATH)
    compile_library(tmp_path / "new/own/libown.so", "gcc", tmp_path / "own.c", "-fPIC", *search)
    return tmp_path / "new"


@pytest.fixture
def python(tmp_path: Path, site: Path) -> Path:
    """The environment's interpreter."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return path


def load(folder: Path) -> str:
    """Call the wheel's library in a process of its own."""
    code = f"import ctypes; print(ctypes.CDLL({str(folder / 'own' / 'libown.so')!r}).call())"
    return process.run([sys.executable, "-c", code], env={}, check=False).output.strip()


def test_finds_libraries_of_the_environment(unpacked: Path, python: Path) -> None:
    before = load(unpacked)

    link_neighbours(unpacked, python, os.environ)

    assert "libother.so: cannot open shared object file" in before
    assert load(unpacked) == "7"


def test_links_libraries_alone(unpacked: Path, site: Path, python: Path) -> None:
    link_neighbours(unpacked, python, os.environ)

    assert (unpacked / "nvidia/cu13/lib").readlink() == site / "nvidia/cu13/lib"
    assert sorted(path.name for path in unpacked.iterdir()) == ["nvidia", "own"]
    assert not (unpacked / "nvidia").is_symlink()
    assert not (unpacked / "nvidia" / "__init__.py").exists()


def test_environment_that_lacks_them(unpacked: Path) -> None:
    link_neighbours(unpacked, Path(sys.executable), os.environ)

    assert [path.name for path in unpacked.iterdir()] == ["own"]


def test_wheel_without_libraries_needs_no_interpreter(tmp_path: Path) -> None:
    (tmp_path / "module.py").touch()

    link_neighbours(tmp_path, tmp_path / "no-python", os.environ)
