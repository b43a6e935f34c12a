"""Tiny packages for arm64: real nvcc, cross compiler, debootstrap, QEMU; no such GPU."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.device_code import code_of_element, elements_of, find_fatbins
from cuwheel.base.formats.binaries.elf import read_elf
from cuwheel.base.formats.wheel.metadata import is_library
from cuwheel.base.paths import ROOT
from cuwheel.build.workspace.job import TargetRoot
from cuwheel.publish.rebuild.published import read_published
from tests.support.engine import PACKAGES, Engine
from tests.support.packages.foreign_platform import RELEASE, debian_root
from tests.support.requirements import require

pytestmark = pytest.mark.e2e

_PROVES = "that wheels for arm64 are built here"


@pytest.fixture(scope="module")
def root(shared_cache: Path) -> TargetRoot:
    for part in ("cross-gcc", "qemu"):
        require(part, _PROVES)
    return debian_root(shared_cache)


def words(root: TargetRoot) -> tuple[str, ...]:
    """The options of a build for arm64."""
    folder = str(root.folder)
    return ("--platform", "linux_aarch64", "--target-root", folder, "--python", RELEASE)


def machines_in(wheel: Path) -> set[str]:
    """What its libraries are for."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if is_library(name)]
        found = set()
        for name in names:
            with archive.open(name) as stream:
                found.add(read_elf(stream).machine)
    return found


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("tiny-capi", "cp311-cp311"),
        pytest.param("tiny-skbuild", "py3-none", marks=pytest.mark.nightly),
    ],
)
def test_builds_wheel_and_imports_it(
    engine: Engine, root: TargetRoot, name: str, tags: str
) -> None:
    done = engine.build(name, *words(root))

    assert done.status == 0, done.output
    [wheel] = engine.wheels()
    assert wheel.name.endswith(f"-{tags}-manylinux_2_17_aarch64.whl")
    assert machines_in(wheel) == {"EM_AARCH64"}
    assert "run with qemu-aarch64" in done.output
    stated = read_published(wheel)
    assert stated.parameters["platform"] == "linux_aarch64"
    assert stated.hashes["root folder of the machine"] == root.fingerprint


def test_takes_device_code_of_this_machines_build(
    engine: Engine, root: TargetRoot, tmp_path: Path
) -> None:
    variables = {"CUWHEEL_COMPILE_CACHE": str(tmp_path / "compiles")}
    here = engine.build("tiny-capi", "--python", RELEASE, **variables)

    there = engine.build("tiny-capi", *words(root), **variables)

    assert (here.status, there.status) == (0, 0), there.output
    assert "of device code taken from a build for another platform" in there.output
    wheels = engine.wheels()
    assert len(wheels) == 2
    first, second = (device_code_in(wheel) for wheel in wheels)
    assert first
    assert first == second


def device_code_in(wheel: Path) -> list[bytes]:
    """The device code of its libraries."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if is_library(name):
                library = io.BytesIO(archive.read(name))
                elements = elements_of(library, find_fatbins(library))
                found += [code_of_element(library, element) for element in elements]
    return sorted(found)


@pytest.mark.nightly
def test_builds_the_same_bytes_however_it_is_built(engine: Engine, root: TargetRoot) -> None:
    source = ("--source", str(PACKAGES / "tiny_capi"), "--work", str(engine.work))

    done = subprocess.run(
        [
            *(sys.executable, "-m", "cuwheel", "verify", "tiny-capi-130", "--json"),
            *(*words(root), *source),
        ],
        env=engine.environment(),
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )

    assert done.returncode == 0
    assert json.loads(done.stdout)["state"] == "the same bytes"
