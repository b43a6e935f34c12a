"""`diagnose` on PyTorch 2.11.0 with CUDA 13.0 and bitsandbytes 0.49.1, the wheels of the index.

Without a GPU; on one: tests/gpu/diagnose.py. It takes 3 GB, most of which the cache may hold.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.e2e

_UV = [sys.executable, "-m", "uv"]


@pytest.fixture(scope="module")
def install(module_path: Path, shared_cache: Path) -> Callable[..., Path]:
    """Give a function that makes an environment: what it holds, and what is taken away again."""
    env = {**os.environ, "UV_CACHE_DIR": str(shared_cache / "uv")}

    def uv(*words: str | Path) -> None:
        subprocess.run([*_UV, *map(str, words)], env=env, check=True)

    def make(name: str, *extra: str, without: str = "") -> Path:
        folder = module_path / name
        python = folder / "bin" / "python"
        uv("venv", "--python", sys.executable, folder)
        uv("pip", "install", "--python", python, "torch==2.11.0", "numpy", "bitsandbytes==0.49.1")
        for package in extra:
            uv("pip", "install", "--python", python, "--no-deps", package)
        if without:
            uv("pip", "uninstall", "--python", python, without)
        return python

    return make


def diagnose(python: Path, *words: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "cuwheel", "diagnose", "--json", "--python", str(python)]
    done = subprocess.run(
        [*command, *words],
        env={**os.environ, **variables},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["exit_code"] == done.returncode
    return told


def broken(told: dict[str, Any]) -> dict[str, str]:
    """Anchor and fact of each verdict about something broken."""
    verdicts = told["verdicts"]
    return {one["anchor"]: one["what"] for one in verdicts if one["level"] == "broken"}


@pytest.fixture(scope="module")
def sound(install: Callable[..., Path]) -> Path:
    return install("sound")


def test_finds_nothing_broken_in_sound_environment(sound: Path) -> None:
    told = diagnose(sound)

    assert broken(told) == {}
    assert told["chosen_libraries"]["bitsandbytes"]["library"] == "libbitsandbytes_cuda130.so"
    [torch] = told["environment"]["frameworks"]
    assert (torch["version"], torch["cuda"], torch["archs"][0]) == (
        "2.11.0+cu130",
        "13.0",
        "sm_75",
    )


def test_says_who_supplies_cuda_to_bitsandbytes(sound: Path) -> None:
    [package] = diagnose(sound)["packages"]

    assert package["suppliers"]["libcudart.so.13"].startswith("nvidia-cuda-runtime 13.0")
    assert package["suppliers"]["libcusparse.so.12"].startswith("nvidia-cusparse 12.6")


def test_names_wrong_bnb_cuda_version(sound: Path) -> None:
    told = diagnose(sound, BNB_CUDA_VERSION="127")

    assert broken(told) == {
        "bnb-native-lib-missing": "bitsandbytes 0.49.1 lacks libbitsandbytes_cuda127.so"
    }


def test_names_bnb_library_of_other_cuda(sound: Path) -> None:
    found = broken(diagnose(sound, BNB_CUDA_VERSION="125"))

    assert list(found) == ["libcudart-not-found"]


def test_names_extension_for_other_torch(install: Callable[..., Path]) -> None:
    python = install("other", "xformers==0.0.28.post3")  # for torch 2.5.1 and CUDA 12.4

    found = broken(diagnose(python, "xformers"))

    assert found["torch-abi-mismatch"] == (
        "xformers 0.0.28.post3 is built for another torch than 2.11.0+cu130"
    )
    assert found["diagnose-mixed-cuda"] == (
        "xformers 0.0.28.post3 is for CUDA 12, torch for CUDA 13.0"
    )


def test_names_missing_wheel(install: Callable[..., Path]) -> None:
    python = install("missing", without="nvidia-cusparselt-cu13")

    told = diagnose(python)

    fixes = {one["fix"] for one in told["verdicts"] if one["level"] == "broken"}
    assert fixes == {"pip install 'nvidia-cusparselt-cu13==0.8.0'"}
