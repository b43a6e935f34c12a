"""Wheels for arm64 tried under QEMU, in the root folder of a Debian for arm64."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.build.recipe.platform import AARCH64
from cuwheel.build.toolchains.cross import emulation
from cuwheel.build.toolchains.cross.emulation import cuda_of_root, emulated_system, find_emulator
from cuwheel.build.workspace.job import TargetRoot
from tests.support.packages.foreign_platform import write_root
from tests.support.requirements import require


def file_of(root: TargetRoot, name: str) -> Path:
    path = root.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_finds_cuda_of_the_root_and_leaves_the_driver(tmp_path: Path) -> None:
    root = write_root(tmp_path, "/usr/lib/aarch64-linux-gnu")
    toolkit = file_of(root, "usr/local/cuda-13.0/lib64/libcudart.so.13").parent.parent
    library = file_of(root, "usr/lib/aarch64-linux-gnu/libcublas.so.13")
    library.with_name("libcublas.so").symlink_to(library.name)
    file_of(root, "usr/lib/aarch64-linux-gnu/libcuda.so.580.1")
    (root.folder / "usr/local/cuda").symlink_to("cuda-13.0")

    assert cuda_of_root(root, AARCH64) == (library, toolkit)


def test_shows_the_root_in_place_of_this_machine(tmp_path: Path) -> None:
    root = write_root(tmp_path, "/usr/lib/aarch64-linux-gnu")
    (tmp_path / "bin").symlink_to("usr/bin")
    library = file_of(root, "usr/lib/aarch64-linux-gnu/libcublas.so.13")
    emulator = emulation.Emulator(program=Path("/usr/bin/true"), version="")
    decoy = tmp_path / "decoy"

    result = emulated_system(root, AARCH64, emulator, decoy)

    places = {str(mount.target): mount.source for mount in result}
    inside = "/" + str(library.relative_to(tmp_path))
    assert places["/usr"] == tmp_path / "usr"
    assert places["/bin"] == Path("usr/bin")
    assert places[inside] == decoy
    assert "/home" not in places


def test_takes_no_emulator_that_needs_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They aren't there in a sandbox that holds another machine's root."""
    (tmp_path / "qemu-aarch64").symlink_to(os.path.realpath("/bin/sh"))
    monkeypatch.setattr(emulation, "SYSTEM_PATH", str(tmp_path))

    assert find_emulator(AARCH64) is None


def test_names_the_release_of_the_emulator() -> None:
    require("qemu", "that wheels for arm64 can be imported")
    result = find_emulator(AARCH64)

    assert result
    assert result.version.startswith("qemu-aarch64 ")
    assert result.version.split()[1][0].isdigit()
