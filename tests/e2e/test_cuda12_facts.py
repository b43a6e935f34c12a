"""What the tables say of CUDA 12 against the parts of it that NVIDIA has on the package index."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.compilers import newest_gcc_for
from cuwheel.components import COMPONENTS
from cuwheel.console import Console
from cuwheel.installer import install_into
from cuwheel.process import run
from cuwheel.toolkits import toolkit_by_release

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuwheel.toolkits import Toolkit

pytestmark = pytest.mark.e2e

# Small ones, with their SHA-256: parts of the compiler, and two libraries.
PINS = {
    "12.1": {
        "nvidia-cuda-nvcc-cu12==12.1.105": "a0712a05ffd57d9f017580ffcc808b20"
        "7f7f4ef7a5ca8ac1312318b153739a18",
        "nvidia-cuda-runtime-cu12==12.1.105": "6e258468ddf5796e25f1dc591a31029f"
        "a317d97a0a94ed93468fc86301d61e40",
        "nvidia-nvtx-cu12==12.1.105": "dc21cf308ca5691e7c04d962e213f8a4"
        "aa9bbfa23d95412f452254c2caeb09e5",
    },
    "12.2": {
        "nvidia-cuda-nvcc-cu12==12.2.140": "c6ff4ae7a636eb6cab7621191e19ac37"
        "79690686bbcf52c04d8b1ca2944e1e27",
        "nvidia-cuda-runtime-cu12==12.2.140": "acb9cb7e44594a3512533497ea790d9f"
        "0b0e399abcc888584c157d1ffa080e41",
        "nvidia-nvtx-cu12==12.2.140": "10ee3d39ba38200cad81971b9a0a3521"
        "93d9497fa5896ae4aa78eef598a3b934",
    },
    "12.4": {
        "nvidia-cuda-nvcc-cu12==12.4.99": "7f47075eeaaf9d9a309df72dca9bfb9a"
        "1d2968a06b32ae1d147c81c971bdfd02",
        "nvidia-cuda-runtime-cu12==12.4.99": "1454a7c101976d3a9ade86040d01c4e5"
        "7e8f6396c35b13f7a42c787dab145bed",
        "nvidia-nvtx-cu12==12.4.99": "d2a2d331e0c233b53f72c6940814d492"
        "177a3c17d268bde278cf41bdda95b054",
    },
    "12.8": {
        "nvidia-cuda-nvcc-cu12==12.8.93": "2d6dc36fb7cb5ac9c0b8825bc13d193c"
        "35487a315664007287d0126531238011",
        "nvidia-cuda-runtime-cu12==12.8.90": "adade8dcbd0edf427b7204d480d6066d"
        "33902cab2a4707dcfc48a2d0fd44ab90",
        "nvidia-nvtx-cu12==12.8.90": "5b17e2001cc0d751a5bc2c6ec6d26ad9"
        "5913324a4adb86788c944f8ce9ba441f",
    },
}
every_release = pytest.mark.parametrize("release", PINS)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Callable[[Toolkit], Path]:
    """Give a folder with the packages of a release, installed once for all tests."""
    made: dict[str, Path] = {}

    def install(toolkit: Toolkit) -> Path:
        if toolkit.release not in made:
            folder = tmp_path_factory.mktemp(f"cuda{toolkit.tag}")
            pins = PINS[toolkit.release].items()
            lines = [f"{pin} --hash=sha256:{digest}\n" for pin, digest in pins]
            (folder / "pins").write_text("".join(lines))
            install_into(
                folder / "site",
                folder / "pins",
                python=Path(sys.executable),
                cache=shared_cache,
                offline=False,
                log=folder / "log",
                console=Console(),
            )
            made[toolkit.release] = folder / "site"
        return made[toolkit.release]

    return install


@every_release
def test_table_holds_version_of_nvcc(release: str) -> None:
    toolkit = toolkit_by_release(release)

    assert f"nvidia-cuda-nvcc-cu12=={toolkit.nvcc}" in PINS[release]


@every_release
def test_table_holds_newest_gcc(site: Callable[[Toolkit], Path], release: str) -> None:
    toolkit = toolkit_by_release(release)

    assert newest_gcc_for(site(toolkit) / "nvidia" / "cuda_nvcc") == toolkit.max_gcc


@every_release
def test_table_holds_archs(site: Callable[[Toolkit], Path], release: str) -> None:
    toolkit = toolkit_by_release(release)
    ptxas = site(toolkit) / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"

    said = run([ptxas, "--help"], env={"PATH": "/usr/bin:/bin"}).output

    assert set(re.findall(r"'sm_(\d+)'", said)) == set(toolkit.archs)


@every_release
@pytest.mark.parametrize("name", ["cudart", "nvtx"])
def test_table_holds_place_of_library(
    site: Callable[[Toolkit], Path], release: str, name: str
) -> None:
    folder = site(toolkit_by_release(release))
    [component] = [found for found in COMPONENTS if (found.name, found.cuda) == (name, 12)]

    missing = [
        soname
        for soname in component.sonames
        if not (folder / component.site_folder / soname).is_file()
    ]

    assert missing == []
