"""Run `diagnose` on a GPU: in a sound environment, and in some that are broken on purpose.

Run by hand from the checkout on a machine with a GPU, PyTorch, nvcc and g++:
`python3 tests/gpu/diagnose.py [--bitsandbytes WHEEL] [--out FILE]`. The interpreter that runs it
needs packaging, psutil and rich, and its PyTorch is the one that is looked at. Each case holds what
`diagnose` says beside what really happens. Prints one JSON object; ends with 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cuwheel.base.system.output.documents import as_data  # noqa: E402
from cuwheel.build.recipe.catalogue import load_catalogue  # noqa: E402
from cuwheel.check.diagnose.diagnose import DiagnoseOptions, callers_environment, diagnose  # noqa: E402

TIME_LIMIT = 300  # seconds
KERNEL = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void kernel() {}
extern "C" const char *run() {
    kernel<<<1, 1>>>();
    cudaDeviceSynchronize();
    return cudaGetErrorString(cudaGetLastError());
}
"""
OTHER_TORCH = """
namespace c10 { void gone_since_the_last_release(int); }
extern "C" void use() { c10::gone_since_the_last_release(1); }
"""
RUN_KERNEL = (
    "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); lib.run.restype = ctypes.c_char_p; "
    "print(lib.run().decode())"
)
LOAD = "import os, sys, torch, ctypes; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW); print('loaded')"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One environment, and what `diagnose` has to say of it.

    Attributes:
        name: of the case.
        python: the interpreter.
        packages: that are looked at; none: all.
        variables: on top of the environment's.
        expects: anchors that have to be among the verdicts; none: all has to be well.
        reality: a command whose output shows what really happens.
        really: what that output has to hold.
    """

    name: str
    python: Path
    packages: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    expects: frozenset[str] = frozenset()
    reality: tuple[str, ...] = ()
    really: str = ""


def make_environment(folder: Path) -> Path:
    """A virtual environment that sees the packages of the interpreter that runs this."""
    venv = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(venv, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "host.pth").write_text(f"{sysconfig.get_paths()['platlib']}\n")
    return folder / "bin" / "python"


def site_of(python: Path) -> Path:
    """The site-packages of an environment."""
    (site,) = python.parent.parent.glob("lib/python*/site-packages")
    return site


def install(python: Path, name: str, *, library: Path, requires: str = "") -> Path:
    """Install a package of one library."""
    site = site_of(python)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (site / name).mkdir()
    target = site / name / library.name
    target.write_bytes(library.read_bytes())
    wants = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{wants}")
    (info / "RECORD").write_text(f"{name}/{library.name},,\n")
    return target


def compile_library(folder: Path, name: str, compiler: str, code: str, *flags: str) -> Path:
    """A library of C++ or CUDA."""
    source = folder / f"{name}.{'cu' if compiler == 'nvcc' else 'cpp'}"
    source.write_text(code)
    library = folder / f"lib{name}.so"
    pic = "-Xcompiler=-fPIC" if compiler == "nvcc" else "-fPIC"
    path = f"{os.environ['PATH']}:/usr/local/cuda/bin"
    words = [
        shutil.which(compiler, path=path) or compiler,
        "-shared",
        pic,
        str(source),
        "-o",
        str(library),
        *flags,
    ]
    subprocess.run(words, check=True)
    return library


def other_arch() -> str:
    """An arch of this nvcc whose code this GPU doesn't take."""
    import torch  # noqa: PLC0415 - only what runs here needs it

    own = torch.cuda.get_device_capability()[0]
    return "80" if own != 8 else "90"


def made_cases(folder: Path) -> list[Case]:
    """Those that need a compiler and no wheel."""
    arch = other_arch()
    envs = {
        name: make_environment(folder / name) for name in ("sound", "torch", "archs", "missing")
    }
    torch = compile_library(folder, "other_torch", "g++", OTHER_TORCH)
    archs = compile_library(
        folder,
        "other_arch",
        "nvcc",
        KERNEL,
        f"-gencode=arch=compute_{arch},code=sm_{arch}",
        "-cudart=static",
    )
    stub = compile_library(folder, "stub", "g++", "", "-Wl,-soname,libcudart.so.12")
    lost = compile_library(folder, "lost", "g++", "", "-Wl,--no-as-needed", str(stub))
    load = {
        "torch": install(envs["torch"], "other_torch", library=torch, requires="torch"),
        "archs": install(envs["archs"], "other_arch", library=archs),
        "missing": install(envs["missing"], "lost", library=lost, requires="torch"),
    }
    return [
        Case(name="sound", python=envs["sound"], packages=("torch",)),
        Case(
            name="hidden GPU",
            python=envs["sound"],
            packages=("torch",),
            variables={"CUDA_VISIBLE_DEVICES": "99"},
            expects=frozenset({"no-cuda-device"}),
            reality=("-c", "import torch; print(torch.cuda.is_available())"),
            really="False",
        ),
        Case(
            name="extension for another torch",
            python=envs["torch"],
            packages=("other_torch",),
            expects=frozenset({"torch-abi-mismatch"}),
            reality=("-c", LOAD, str(load["torch"])),
            really="undefined symbol",
        ),
        Case(
            name="archs that don't fit",
            python=envs["archs"],
            packages=("other_arch",),
            expects=frozenset({"no-kernel-image"}),
            reality=("-c", RUN_KERNEL, str(load["archs"])),
            really="no kernel image",
        ),
        Case(
            name="for CUDA 12, whose runtime is missing",
            python=envs["missing"],
            packages=("lost",),
            expects=frozenset({"libcudart-not-found"}),
            reality=("-c", LOAD, str(load["missing"])),
            really="libcudart.so.12: cannot open shared object file",
        ),
    ]


def bnb_cases(folder: Path, wheel: Path) -> list[Case]:
    """Those of the real bitsandbytes: sound, and with BNB_CUDA_VERSION set wrongly."""
    python = make_environment(folder / "bnb")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site_of(python))
    run = ("-m", "bitsandbytes")
    return [
        Case(
            name="bitsandbytes",
            python=python,
            packages=("bitsandbytes",),
            reality=run,
            really="SUCCESS!",
        ),
        Case(
            name="BNB_CUDA_VERSION of a library that isn't held",
            python=python,
            packages=("bitsandbytes",),
            variables={"BNB_CUDA_VERSION": "127"},
            expects=frozenset({"bnb-native-lib-missing"}),
            reality=run,
            really="cuda127",
        ),
        Case(
            name="BNB_CUDA_VERSION of another CUDA",
            python=python,
            packages=("bitsandbytes",),
            variables={"BNB_CUDA_VERSION": "125"},
            expects=frozenset({"bnb-native-lib-missing", "libcudart-not-found"}),
            reality=run,
            really="cannot open shared object file",
        ),
    ]


def try_case(case: Case) -> dict[str, Any]:
    """What `diagnose` says, and what really happens."""
    environ = {**callers_environment(os.environ), **case.variables}
    asked = DiagnoseOptions(
        packages=case.packages, python=str(case.python), start=ROOT, project=ROOT
    )
    started = time.monotonic()
    recipes = [entry.recipe for entry in load_catalogue([ROOT]) if entry.recipe]
    report = diagnose(asked, environ, recipes)
    seconds = time.monotonic() - started
    found = {one.anchor for one in report.verdicts if one.level == "broken"}
    words = [str(case.python), *case.reality]
    said = ""
    if case.reality:
        done = subprocess.run(
            words, env=environ, capture_output=True, text=True, check=False, timeout=TIME_LIMIT
        )
        said = done.stdout + done.stderr
    return {
        "case": case.name,
        "as expected": case.expects <= found if case.expects else not found,
        "as it is": case.really in said,
        "seconds": round(seconds, 1),
        "reality": said.strip().splitlines()[-4:],
        "report": as_data(report),
    }


def main() -> int:
    """Try all cases and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bitsandbytes", type=Path, metavar="WHEEL")
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = made_cases(folder)
        cases += bnb_cases(folder, given.bitsandbytes) if given.bitsandbytes else []
        made = [try_case(case) for case in cases]
    text = json.dumps(made, indent=1)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text)
    print(text)  # noqa: T201 - the answer
    return int(not all(one["as expected"] and one["as it is"] for one in made))


if __name__ == "__main__":
    sys.exit(main())
