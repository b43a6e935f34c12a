"""jax-finufft from upstream's source, for one arch; upstream's own tests on its CPU part.

Takes a quarter of an hour on two cores. On a GPU: `nox -s perf -- jax-finufft-130`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from tests.support.requirements import require

pytestmark = pytest.mark.nightly

FFTW = ("libfftw3", "libfftw3f", "libfftw3_omp", "libfftw3f_omp", "libgomp")


@pytest.fixture(scope="module")
def folder(module_path: Path, shared_cache: Path) -> Path:
    """Where the wheel was built; the work folder is kept."""
    require("python-3.11", "the build of jax-finufft from source")
    require("fftw", "the build of jax-finufft from source")
    command = [sys.executable, "-m", "cuwheel", "build", "jax-finufft-130", "--arch", "90"]
    work, dist = str(module_path / "work"), str(module_path / "dist")
    folders = ["--work", work, "--dist", dist, "--keep-work"]
    done = subprocess.run(
        [*command, *folders],
        cwd=ROOT,
        env={**os.environ, "CUWHEEL_CACHE": str(shared_cache), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return module_path


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    [found] = (folder / "dist").glob("*.whl")
    return found


def read(wheel: Path, end: str) -> str:
    """The one file in the wheel whose name ends like this."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(end)]
        return archive.read(name).decode()


def test_wheel_is_named_by_cuda_release(wheel: Path) -> None:
    here = f"cp3{sys.version_info.minor}"

    assert re.fullmatch(
        rf"jax_finufft_cuda13x-1\.3\.1\+cu130-{here}-{here}-manylinux_2_\d+_x86_64\.whl",
        wheel.name,
    )


def test_extras_are_upstreams(wheel: Path) -> None:
    lines = read(wheel, ".dist-info/METADATA").splitlines()

    assert {"Provides-Extra: cuda13", "Provides-Extra: cuda13-local"} <= set(lines)
    assert 'Requires-Dist: jax[cuda13]; extra == "cuda13"' in lines
    nvidia = [line for line in lines if line.startswith("Requires-Dist: nvidia-")]
    assert len(nvidia) == 2  # cudart and cuFFT
    assert [line for line in nvidia if 'extra == "cuda13"' not in line] == []


def test_index_would_take_the_metadata(wheel: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("extra", "is_brought"), [("", False), ("[cuda13-local]", False), ("[cuda13]", True)]
)
def test_only_the_extra_brings_nvidias_wheels(
    wheel: Path, tmp_path: Path, extra: str, *, is_brought: bool
) -> None:
    subprocess.run([sys.executable, "-m", "virtualenv", "-q", str(tmp_path / "venv")], check=True)
    pip = [str(tmp_path / "venv" / "bin" / "python"), "-m", "pip", "install", "--dry-run"]

    done = subprocess.run(
        [*pip, "--quiet", "--report", "-", f"{wheel}{extra}"],
        capture_output=True,
        text=True,
        check=True,
    )

    names = {item["metadata"]["name"] for item in json.loads(done.stdout)["install"]}
    assert ("nvidia-cufft" in names) is is_brought


def test_nothing_is_downloaded(folder: Path) -> None:
    [log] = folder.glob("work/*/logs/build.log")

    said = log.read_text()

    assert "FINUFFT configuration summary" in said
    assert re.findall(r"CPM:|Downloading|Cloning|github\.com", said) == []


def test_fftw_is_in_the_wheel_and_its_bill(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        copied = [name for name in archive.namelist() if ".libs/" in name]
    names = {path.rpartition("/")[2].partition("-")[0] for path in copied}

    bill = json.dumps(json.loads(read(wheel, ".dist-info/sboms/cuwheel.cdx.json")))

    assert names == set(FFTW)
    assert [name for name in FFTW if f"{name}-" not in bill] == []


def test_gpu_part_loads_nvidias_wheels(folder: Path) -> None:
    [smoke] = folder.glob("work/*/stages/smoke.json")

    libraries = dict(json.loads(smoke.read_text())["libraries"])

    assert libraries["libcudart.so.13"] == "nvidia/cu13/lib/libcudart.so.13"
    assert libraries["libcufft.so.12"] == "nvidia/cu13/lib/libcufft.so.12"


def test_upstreams_tests_pass_on_cpu(folder: Path, wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "virtualenv", "-q", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    wanted = f"{wheel}[test]"
    subprocess.run([python, "-m", "pip", "install", "-q", wanted, "jax<0.13"], check=True)
    [tests] = folder.glob("work/*/source/*/tests")

    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", str(tests)],
        env={"PATH": os.defpath, "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 100
