"""CUDA cut down to what compiles and links the runtime: a seventh of the whole's bytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from cuwheel.base.paths import ROOT
from cuwheel.build.environments.lock_file import read_pins

_COMPILER = ("cuda-toolkit", "nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-nvvm")
_RUNTIME = ("nvidia-cuda-cccl", "nvidia-cuda-culibos", "nvidia-cuda-runtime")


def write_small_lock(
    project: Path, names: Iterable[str] = (*_COMPILER, *_RUNTIME), tag: str = "130"
) -> Path:
    """Write the lines of the real lock that pin these packages into a project folder."""
    name = f"envs/cuda{tag}/pypi.lock"
    pins = [pin for pin in read_pins(ROOT / name) if pin.requirement.name in set(names)]
    lock = project / name
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("".join(line_of(str(pin.requirement), pin.hashes) for pin in pins))
    return lock


def line_of(requirement: str, hashes: Iterable[str]) -> str:
    return requirement + "".join(f" --hash=sha256:{digest}" for digest in hashes) + "\n"


def copy_project(folder: Path) -> Path:
    """Copy the project of the tiny packages, and give it the small toolchain."""
    shutil.copytree(ROOT / "tests" / "project", folder)
    write_small_lock(folder)
    return folder
