"""What the tables say of CUDA 12 against the parts of it that NVIDIA has on the package index."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.system.compilers import archs_of, newest_gcc_for
from cuwheel.build.environments import uv
from cuwheel.check.cuda.toolkits import Toolkit, toolkit_by_release
from tests.support.factories import make_workspace

pytestmark = pytest.mark.nightly

# With their SHA-256: parts of the compiler.
PINS = {
    "11.8": {
        "nvidia-cuda-nvcc-cu11==11.8.89": "f8e1e995166c884f2f5bf94975d7abb8"
        "9175363b8712f7f81cd38d0df1b2cd85",
    },
    "12.0": {
        "nvidia-cuda-nvcc-cu12==12.0.140": "958d54df87d0c0b7207e7fed403d6eed"
        "a0890a01cc44cfeaccf87c7f90e9b165",
    },
    "12.1": {
        "nvidia-cuda-nvcc-cu12==12.1.105": "a0712a05ffd57d9f017580ffcc808b20"
        "7f7f4ef7a5ca8ac1312318b153739a18",
    },
    "12.2": {
        "nvidia-cuda-nvcc-cu12==12.2.140": "c6ff4ae7a636eb6cab7621191e19ac37"
        "79690686bbcf52c04d8b1ca2944e1e27",
    },
    "12.3": {
        "nvidia-cuda-nvcc-cu12==12.3.107": "a3344b94f5e89023fa17e0bbf8fb0dd2"
        "6d5ef6f4091a5aab08f215e4999eac62",
    },
    "12.4": {
        "nvidia-cuda-nvcc-cu12==12.4.131": "e4c9a35435c3b0e36c6397c5696334c9"
        "ea6650e524736cbd1c5d345ea099bb04",
    },
    "12.5": {
        "nvidia-cuda-nvcc-cu12==12.5.82": "b03e545b8e8c3ce7ebcd7fc44063180f"
        "f52ff01d064ece2127ed90a04ef12cd0",
    },
    "12.6": {
        "nvidia-cuda-nvcc-cu12==12.6.85": "d75d9d74599f4d7c0865df19ed21b739"
        "e6cb77a6497a3f73d6f61e8038a765e4",
    },
    "12.8": {
        "nvidia-cuda-nvcc-cu12==12.8.93": "2d6dc36fb7cb5ac9c0b8825bc13d193c"
        "35487a315664007287d0126531238011",
    },
    "12.9": {
        "nvidia-cuda-nvcc-cu12==12.9.86": "5d6a0d32fdc7ea39917c20065614ae93"
        "add6f577d840233237ff08e9a38f58f0",
    },
}
every_release = pytest.mark.parametrize("release", PINS)


@pytest.fixture(scope="module")
def site(module_path: Path, shared_cache: Path) -> Callable[[Toolkit], Path]:
    """Give a folder with the packages of a release, installed once for all tests."""
    made: dict[str, Path] = {}

    def install(toolkit: Toolkit) -> Path:
        if toolkit.release not in made:
            folder = module_path / f"cuda{toolkit.tag}"
            folder.mkdir()
            pins = PINS[toolkit.release].items()
            lines = [f"{pin} --hash=sha256:{digest}\n" for pin, digest in pins]
            (folder / "pins").write_text("".join(lines))
            uv.install(
                Path(sys.executable),
                folder / "pins",
                make_workspace(folder, cache=shared_cache),
                offline=False,
                log=folder / "log",
                into=folder / "site",
            )
            made[toolkit.release] = folder / "site"
        return made[toolkit.release]

    return install


@every_release
def test_table_holds_version_of_nvcc(release: str) -> None:
    toolkit = toolkit_by_release(release)

    assert f"nvidia-cuda-nvcc-cu{toolkit.major}=={toolkit.nvcc}" in PINS[release]


@every_release
def test_table_holds_newest_gcc(site: Callable[[Toolkit], Path], release: str) -> None:
    toolkit = toolkit_by_release(release)

    assert newest_gcc_for(site(toolkit) / "nvidia" / "cuda_nvcc") == toolkit.max_gcc


@every_release
def test_table_holds_archs(site: Callable[[Toolkit], Path], tmp_path: Path, release: str) -> None:
    toolkit = toolkit_by_release(release)
    ptxas = site(toolkit) / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"

    assert archs_of(ptxas, tmp_path) == set(toolkit.archs)
