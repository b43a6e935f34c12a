"""The recipe of bitsandbytes, on a package of ours with the same build interface.

Upstream's own source is never fetched here.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import Recipe
from tests.support.engine import PACKAGES, Engine, make_engine
from tests.support.toolchains.small_toolchain import write_small_lock

STANDIN = PACKAGES / "bitsandbytes_standin"

# Where upstream says what an option means, and the words.
_CMAKELISTS = (
    "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/"
    "02188cc8159b2fd88fc6765cb29b3a9deb65591a/CMakeLists.txt"
)
DOCUMENTED = {
    "COMPUTE_BACKEND": (_CMAKELISTS, "cpu, cuda or mps: the backend to build"),
    "CUDA_VERSION": (_CMAKELISTS, "the CUDA version to expect, a check; 130 for 13.0"),
    "COMPUTE_CAPABILITY": (_CMAKELISTS, "archs for nvcc, separated by semicolons"),
}
# The archs of the libraries in upstream's own wheel, read with cuwheel.fatbin from
# bitsandbytes-0.49.1-py3-none-manylinux_2_24_x86_64.whl of the package index.
RELEASED = {
    "12.1": ("60", "70", "75", "80", "86", "89", "90"),
    "12.2": ("60", "70", "75", "80", "86", "89", "90"),
    "12.4": ("60", "70", "75", "80", "86", "89", "90"),
    "12.8": ("70", "75", "80", "86", "89", "90", "100", "120"),
    "13.0": ("75", "80", "86", "89", "90", "100", "120"),
}


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    found = find_recipe("bitsandbytes", load_catalogue([ROOT])).recipe
    assert found
    return found


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory,
    shared_cache: Path,
    whole_cuda_home: Path,
) -> Engine:
    """An engine that has built the stand-in for two archs, once for all tests."""
    assert whole_cuda_home.is_dir()
    folder = tmp_path_factory.mktemp("bitsandbytes")
    engine = make_engine(folder, ROOT / "tests" / "project", shared_cache)
    archs = ("--arch", "86", "--arch", "90")
    done = engine.build("bitsandbytes", "--source", str(STANDIN), *archs, "--keep-work")
    assert done.status == 0, done.output
    return engine


def text_in(wheel: Path, suffix: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(suffix)]
        return archive.read(name).decode()


def test_passes_only_documented_options(recipe: Recipe) -> None:
    assert set(getattr(recipe.build, "define", {})) == set(DOCUMENTED)
    assert dict(recipe.build.env) == {}
    assert recipe.toolkits == tuple(RELEASED)


@pytest.mark.parametrize("release", RELEASED)
def test_has_archs_of_the_released_wheel(recipe: Recipe, release: str) -> None:
    assert recipe.archs_for(release) == RELEASED[release]


def test_hands_options_over_and_states_them(built: Engine) -> None:
    [log], [path] = built.work.glob("*/logs/build.log"), built.dist.glob("*.provenance.json")

    stated = json.dumps(json.loads(path.read_text()))

    assert "compute capabilities: 86;90 -> 86-real;90" in log.read_text()
    options = ("-DCOMPUTE_BACKEND=cuda", "-DCUDA_VERSION=130", "-DCOMPUTE_CAPABILITY=86;90")
    assert [option for option in options if option not in stated] == []


def test_makes_one_wheel_for_every_python(built: Engine) -> None:
    """Its library is named after the toolkit, finds CUDA in wheels, and loads without a GPU."""
    [wheel], [smoke] = built.wheels(), built.work.glob("*/stages/smoke.json")

    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
    lines = text_in(wheel, "/METADATA").splitlines()
    requires = {
        line.partition(">")[0] for line in lines if line.startswith("Requires-Dist: nvidia-")
    }
    loaded = dict(json.loads(smoke.read_text())["libraries"])
    assert wheel.name.startswith("bitsandbytes-0.49.1+cu130.source.")
    assert libraries == ["bitsandbytes/libbitsandbytes_cuda130.so"]
    names = ("nvidia-cuda-runtime", "nvidia-cublas", "nvidia-cusparse")
    assert {f"Requires-Dist: {name}" for name in names} <= requires
    assert {"libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12"} <= set(loaded)


def test_variable_of_the_package_picks_the_library(built: Engine, tmp_path: Path) -> None:
    [wheel] = built.wheels()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    env = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path), "BNB_CUDA_VERSION": "122"}

    said = run([sys.executable, "-c", "import bitsandbytes as b; b.load()"], env=env, check=False)

    assert "libbitsandbytes_cuda122.so isn't there; available: 130" in said.output


@pytest.mark.e2e
def test_refuses_compiler_of_another_release(engine: Engine, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "recipes").mkdir(parents=True)
    text = (ROOT / "recipes" / "bitsandbytes.py").read_text()
    (project / "recipes" / "bitsandbytes.py").write_text(text.replace("{toolkit_tag}", "122", 1))
    for kind in ("build", "smoke"):
        shutil.copytree(ROOT / "envs" / kind, project / "envs" / kind)
    write_small_lock(project)

    done = engine.build(
        "bitsandbytes", "--source", str(STANDIN), "--arch", "90", CUWHEEL_PROJECT=str(project)
    )

    [log] = engine.work.glob("*/logs/build.log")
    assert done.status == 61
    assert "CUDA version 122 was asked for, the compiler is of 130." in log.read_text()
