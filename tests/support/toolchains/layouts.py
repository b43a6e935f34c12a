"""CUDA toolkits laid out as users have them: the pinned CUDA 13.0 under the paths of each kind.

nvcc is copied, as it is found by its real path, and the rest are links. Debian's layout follows the
lists of its packages in tests/recorded/debian (11.8.89~11.8.0-5~deb12u1, without documents, and
without most headers and libraries).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from cuwheel.base.paths import ROOT

LISTS = ROOT / "tests" / "recorded" / "debian"
_TARGET = Path("targets") / "x86_64-linux"
_DEBIAN_SCRIPT = '#!/bin/sh\n\nexec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"\n'
_STATUS = "Package: {}\nStatus: install ok installed\nSource: {}\nArchitecture: amd64\n\n"


def lay_out_nvidia(home: Path, root: Path, folder: str = "usr/local/cuda-13.0") -> Path:
    """Make NVIDIA's own layout, all in one folder."""
    top = root / folder
    _link_all(home / "bin", top / "bin")
    for name in ("include", "nvvm", "lib64"):
        (top / name).symlink_to((home / name).resolve())
    return top


def lay_out_hpc_sdk(home: Path, root: Path) -> Path:
    """Make the HPC SDK's layout: cuRAND's header is with the mathematical libraries."""
    sdk = root / "opt" / "nvidia" / "hpc_sdk" / "Linux_x86_64" / "25.9"
    top = lay_out_nvidia(home, sdk, "cuda/13.0")
    (sdk / "math_libs" / "13.0" / "include").mkdir(parents=True)
    (sdk / "math_libs" / "13.0" / "include" / "curand.h").write_text("#pragma once\n")
    (sdk / "math_libs" / "13.0" / "lib64").mkdir()
    (sdk / "math_libs" / "13.0" / "lib64" / "libcurand.so").write_bytes(b"")
    wrapper = '#!/bin/sh\nexec "${0%/*}/../../cuda/13.0/bin/nvcc" "$@"\n'
    _write_program(sdk / "compilers" / "bin" / "nvcc", wrapper)
    # nvcc says where it is only where it finds a host compiler.
    (sdk / "compilers" / "bin" / "gcc").symlink_to(shutil.which("gcc") or "gcc")
    return top


def lay_out_conda(home: Path, root: Path) -> Path:
    """Make the layout of conda-forge, in an environment with programs of other packages."""
    prefix = root / "envs" / "cuda"
    (prefix / "conda-meta").mkdir(parents=True)
    _link_all(home / "bin", prefix / "bin")
    _write_program(prefix / "bin" / "python", "#!/bin/sh\n")
    (prefix / "include").mkdir()
    (prefix / "include" / "zlib.h").write_text("#error from conda\n")
    (prefix / "include" / "cudnn.h").write_text("#pragma once\n")
    for name, file in (("cudnn", "include/cudnn.h"), ("libcurl", "include/zlib.h")):
        record = json.dumps({"name": name, "files": [file]})
        (prefix / "conda-meta" / f"{name}-1.0-0.json").write_text(record)
    (prefix / "nvvm").symlink_to(home / "nvvm")
    (prefix / _TARGET).mkdir(parents=True)
    (prefix / _TARGET / "include").symlink_to(home / "include")
    (prefix / _TARGET / "lib").symlink_to((home / "lib64").resolve())
    return prefix


def lay_out_module(home: Path, root: Path) -> Path:
    """Make the folder of an EasyBuild module."""
    return lay_out_nvidia(home, root, "apps/software/CUDA/13.0.0")


def lay_out_debian(home: Path, root: Path) -> Path:
    """Make the layout of nvidia-cuda-toolkit, next to headers of another package."""
    compilers = root / "usr" / "lib" / "nvidia-cuda-toolkit"
    named = {
        "nvlink": "bin/nvlink-real",
        "cicc": "nvvm/bin/cicc",
        "libdevice.10.bc": "nvvm/libdevice/libdevice.10.bc",
    }
    (root / "var" / "lib" / "dpkg" / "info").mkdir(parents=True)
    status = _STATUS.format("zlib1g-dev", "zlib")
    for listed in sorted(LISTS.glob("*.list")):
        status += _STATUS.format(listed.stem, "nvidia-cuda-toolkit (11.8.0-5~deb12u1)")
        lines = listed.read_text().splitlines()
        for line in lines:
            path = root / line.lstrip("/")
            folder = "include" if "/include/" in line else "lib64" if "-gnu/" in line else "bin"
            real = home / named.get(path.name, f"{folder}/{path.name}")
            is_folder = any(other.startswith(f"{line}/") for other in lines)
            path.parent.mkdir(parents=True, exist_ok=True)
            if real.exists() and not is_folder and not path.exists():
                path.symlink_to(real.resolve())
        shutil.copyfile(listed, root / "var" / "lib" / "dpkg" / "info" / f"{listed.stem}.list")
    (root / "var" / "lib" / "dpkg" / "status").write_text(status)
    (root / "usr" / "include" / "zlib.h").write_text("#error not of CUDA\n")
    for entry in home.joinpath("include").iterdir():  # headers that 11.8 hasn't
        if not (root / "usr" / "include" / entry.name).exists():
            _add_header(root, entry)
    _copy_program(home / "bin" / "nvcc", compilers / "bin" / "nvcc")
    _write_program(root / "usr" / "bin" / "nvcc", _DEBIAN_SCRIPT)
    return root / "usr"


def _add_header(root: Path, header: Path) -> None:
    (root / "usr" / "include" / header.name).symlink_to(header)
    with (root / "var/lib/dpkg/info/nvidia-cuda-dev.list").open("a") as stream:
        stream.write(f"/usr/include/{header.name}\n")


def write_toolkit(home: Path, release: str, headers: str = "", script: str = "") -> Path:
    """Write a stand-in for a toolkit that this machine doesn't have: it only prints its release.

    Args:
        home: of it; a folder `usr` gets libraries where Debian has them.
        headers: their release, `12.4`; by default that of nvcc.
        script: what nvcc does instead.
    """
    version = f"Cuda compilation tools, release {release}, V{release}.88"
    for name in ("nvcc", "ptxas"):
        _write_program(home / "bin" / name, f"#!/bin/sh\n{script or f'echo {version!r}'}\n")
    major, minor = (headers or release or "0.0").split(".")
    macro = f"#define CUDART_VERSION {int(major) * 1000 + int(minor) * 10}\n" * bool(release)
    libraries = home / ("lib/x86_64-linux-gnu" if home.name == "usr" else "lib64")
    for path, text in (
        (home / "include" / "cuda_runtime.h", ""),
        (home / "include" / "cuda_runtime_api.h", macro),
        (libraries / "libcudart.so", ""),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (home / "nvvm").mkdir()
    return home


def write_debian(root: Path, release: str) -> Path:
    """Write a stand-in for nvidia-cuda-toolkit of a release that this machine doesn't have."""
    compilers = root / "usr" / "lib" / "nvidia-cuda-toolkit" / "bin"
    usr = write_toolkit(root / "usr", release)
    compilers.mkdir(parents=True)
    (usr / "bin" / "nvcc").rename(compilers / "nvcc")
    _write_program(usr / "bin" / "nvcc", _DEBIAN_SCRIPT)
    return usr


LAYOUTS: dict[str, Callable[[Path, Path], Path]] = {
    "nvidia": lay_out_nvidia,
    "debian": lay_out_debian,
    "hpc": lay_out_hpc_sdk,
    "conda": lay_out_conda,
    "module": lay_out_module,
}


def environ_of(kind: str, root: Path) -> dict[str, str]:
    """Return the variables that lead to a toolkit of a kind."""
    return {
        "debian": {"PATH": f"{root}/usr/bin:/nonexistent"},
        "hpc": {"PATH": f"{root}/opt/nvidia/hpc_sdk/Linux_x86_64/25.9/compilers/bin:/nonexistent"},
        "conda": {"CONDA_PREFIX": str(root / "envs" / "cuda"), "PATH": "/nonexistent"},
        "module": {
            "EBROOTCUDA": str(root / "apps/software/CUDA/13.0.0"),
            "PATH": f"{root}/apps/software/CUDA/13.0.0/bin:/nonexistent",
        },
    }.get(kind, {"PATH": "/nonexistent"})


def _link_all(programs: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    for entry in programs.iterdir():
        if entry.name == "nvcc":
            _copy_program(entry, folder / "nvcc")
        else:
            real = programs / "nvlink-real" if entry.name == "nvlink" else entry
            (folder / entry.name).symlink_to(real)


def _copy_program(program: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    shutil.copy(program, path)


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)
