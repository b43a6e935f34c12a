"""`diagnose` on PyTorch 2.11.0 with CUDA 13.0 and bitsandbytes 0.49.1, the wheels of the index.

Without a GPU; on one: tests/gpu/diagnose.py. Each environment of PyTorch takes 4 GB, most of which
the cache holds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.paths import ROOT
from tests.support.documents import read_document

pytestmark = pytest.mark.e2e

# With uv, which the commands of a report are for where an environment has no pip.
_PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
_UV = [sys.executable, "-m", "uv"]
_TORCH = ("torch==2.11.0", "numpy", "bitsandbytes==0.49.1")


@dataclass(frozen=True, kw_only=True)
class Maker:
    """Makes environments from the package index."""

    folder: Path
    environ: dict[str, str]

    def uv(self, *words: str | Path) -> None:
        subprocess.run([*_UV, *map(str, words)], env=self.environ, check=True)

    def make(self, name: str, *packages: str, over: Sequence[str] = (), without: str = "") -> Path:
        """Make one: its packages, those that come over them alone, what is taken away again."""
        folder = self.folder / name
        python = folder / "bin" / "python"
        self.uv("venv", "--python", sys.executable, folder)
        self.uv("pip", "install", "--python", python, *packages)
        for package in over:
            self.uv("pip", "install", "--python", python, "--no-deps", package)
        if without:
            self.uv("pip", "uninstall", "--python", python, *without.split())
        return python

    def shell(self, command: str) -> None:
        """Run a command as a person would."""
        environ = {**self.environ, "PATH": _PATH}
        subprocess.run(["sh", "-ec", command], env=environ, check=True)


@pytest.fixture(scope="module")
def maker(module_path: Path, shared_cache: Path) -> Maker:
    environ = {**os.environ, "UV_CACHE_DIR": str(shared_cache / "uv")}
    return Maker(folder=module_path, environ=environ)


def diagnose(python: Path, *words: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "cuwheel", "diagnose", "--json", "--python", str(python)]
    done = subprocess.run(
        [*command, *words],
        env={**os.environ, "PATH": _PATH, **variables},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    told = read_document(done.stdout, "diagnose")
    assert told["exit_code"] == done.returncode
    return told


def broken(told: dict[str, Any]) -> dict[str, str]:
    """Anchor and fact of each verdict about something broken."""
    verdicts = told["verdicts"]
    return {one["anchor"]: one["what"] for one in verdicts if one["level"] == "broken"}


@pytest.fixture(scope="module")
def sound(maker: Maker) -> Path:
    return maker.make("sound", *_TORCH)


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
    packages = diagnose(sound)["packages"]

    [package] = [each for each in packages if each["name"] == "bitsandbytes"]
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


def test_names_extension_for_other_torch(maker: Maker) -> None:
    python = maker.make("other", *_TORCH, over=["xformers==0.0.28.post3"])  # for 2.5.1, CUDA 12.4

    told = diagnose(python, "xformers")

    found = broken(told)
    assert found["torch-abi-mismatch"] == (
        "xformers 0.0.28.post3 is built for another torch than 2.11.0+cu130"
    )
    assert found["diagnose-mixed-cuda"] == (
        "xformers 0.0.28.post3 is for CUDA 12, torch for CUDA 13.0"
    )
    # No release of it on the index is for CUDA 13, so no command would help.
    assert [one["command"] for one in told["verdicts"] if one["command"]] == []


def test_finds_what_package_opens_by_path(maker: Maker) -> None:
    told = diagnose(maker.make("faiss", "faiss-gpu-cu12==1.14.1.post1"))

    assert told["verdict"] == "note"
    [package] = told["packages"]
    assert package["suppliers"]["libcudart.so.12"].startswith("nvidia-cuda-runtime-cu12 12.")


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A broken environment: what it is made of, and the anchor of what is to be said of it."""

    packages: tuple[str, ...]
    over: tuple[str, ...] = ()
    without: str = ""
    anchor: str


_DEFECTS = {
    "jax": Defect(
        packages=("jax==0.5.3", "jaxlib==0.5.3"),
        over=("jax-cuda12-plugin==0.4.36", "jax-cuda12-pjrt==0.4.36"),
        anchor="diagnose-versions",
    ),
    "triton": Defect(packages=_TORCH, over=("triton==3.3.0",), anchor="diagnose-versions"),
    "tensorflow": Defect(
        packages=("pip",), over=("tensorflow==2.21.0",), anchor="diagnose-versions"
    ),
    "onnxruntime": Defect(
        packages=("onnxruntime-gpu[cuda,cudnn]==1.31.1",),
        over=("onnxruntime==1.30.0",),
        anchor="diagnose-shared-files",
    ),
    "opencv": Defect(
        packages=("opencv-python==5.0.0.93",),
        over=("opencv-python-headless==5.0.0.93",),
        anchor="diagnose-shared-files",
    ),
    "faiss-cpu": Defect(
        packages=("faiss-gpu-cu12==1.14.1.post1",),
        over=("faiss-cpu==1.15.1",),
        anchor="diagnose-shared-files",
    ),
    "nccl": Defect(
        packages=_TORCH, over=("nvidia-nccl-cu12==2.32.3",), anchor="diagnose-shared-files"
    ),
    "extras": Defect(packages=("onnxruntime-gpu==1.31.1",), anchor="libcudnn-not-found"),
    "torchvision": Defect(
        packages=(*_TORCH, "pillow"), over=("torchvision==0.25.0",), anchor="torchvision-mismatch"
    ),
    "mixed": Defect(
        packages=_TORCH,
        over=("nvidia-cuda-runtime-cu12==12.9.79", "nvidia-nvjitlink-cu12==12.9.86"),
        anchor="diagnose-mixed-cuda",
    ),
    "missing": Defect(
        packages=_TORCH, without="nvidia-cusparselt-cu13", anchor="cuda-math-lib-not-found"
    ),
    "many missing": Defect(
        packages=_TORCH,
        without="nvidia-cublas nvidia-cufft nvidia-curand nvidia-nccl-cu13 triton",
        anchor="nccl-version-mismatch",
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", _DEFECTS)
def test_printed_command_ends_in_clean_report(maker: Maker, name: str) -> None:
    defect = _DEFECTS[name]
    python = maker.make(name, *defect.packages, over=defect.over, without=defect.without)

    first = diagnose(python)

    faults = [one for one in first["verdicts"] if one["level"] in ("warning", "broken")]
    assert defect.anchor in {one["anchor"] for one in faults}, faults
    for command in dict.fromkeys(one["command"] for one in faults if one["command"]):
        maker.shell(command)
    second = diagnose(python)
    assert second["verdict"] == "note", second["verdicts"]


@pytest.mark.nightly
def test_reinstalls_torch_with_damaged_library(maker: Maker) -> None:
    python = maker.make("damaged", *_TORCH)
    [library] = python.parents[1].glob("lib/python*/site-packages/torch/lib/libtorch_python.so")
    content = library.read_bytes()
    library.unlink()  # the cache has the same file
    library.write_bytes(content[: len(content) // 2])

    commands = {one["command"] for one in diagnose(python)["verdicts"] if one["level"] == "broken"}

    [command] = commands
    assert command.endswith(" --force-reinstall --no-deps torch==2.11.0")
    maker.shell(command)
    assert diagnose(python)["verdict"] == "note"
