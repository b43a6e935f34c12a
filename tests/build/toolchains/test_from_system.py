"""The machine's toolkit in each layout that users have, by the real compiler, and the refusals."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cuwheel.base.errors import ToolchainError
from cuwheel.base.system.process import run
from cuwheel.build.toolchains.from_system import (
    identify_system,
    system_toolchain,
    warn_of_other_headers,
)
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from tests.support.factories import heard, make_workspace
from tests.support.toolchains.layouts import (
    LAYOUTS,
    environ_of,
    lay_out_conda,
    lay_out_debian,
    lay_out_hpc_sdk,
    lay_out_nvidia,
    write_toolkit,
)

_TOOLKIT = toolkit_by_release("13.0")
_PROGRAM = """\
#include <cuda_fp16.h>
__device__ int *shared_pointer;
__global__ void add(int *a) { ++*a; }
int main() { add<<<1, 1>>>(nullptr); return cudaFree(nullptr) == cudaSuccess; }
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "work")


def _toolchain(workspace: Workspace, root: Path, **environ: str) -> Toolchain:
    return system_toolchain(_TOOLKIT, workspace, environ, root)


@pytest.mark.parametrize(
    "kind",
    [kind if kind == "debian" else pytest.param(kind, marks=pytest.mark.e2e) for kind in LAYOUTS],
)
def test_compiles_and_links_with_each_layout(
    kind: str, cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    LAYOUTS[kind](cuda_home, root)

    toolchain = _toolchain(workspace, root, **environ_of(kind, root))

    program = _compile(toolchain.home, tmp_path)
    assert program.read_bytes().startswith(b"\x7fELF")
    assert toolchain.version == "13.0.88"
    assert {"bin", "include", "lib64", "nvvm"} <= {path.name for path in toolchain.home.iterdir()}


def test_takes_only_headers_of_cuda_from_usr(
    cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    usr = lay_out_debian(cuda_home, tmp_path)

    home = _toolchain(workspace, tmp_path, **environ_of("debian", tmp_path)).home

    names = {path.name for path in (home / "include").iterdir()}
    assert "zlib.h" not in names
    assert {"cuda_runtime.h", "crt", "cuda_fp16.h"} <= names
    assert (home / "include" / "cuda.h").resolve() == (usr / "include" / "cuda.h").resolve()


def test_takes_mathematical_libraries_of_the_hpc_sdk(
    cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    lay_out_hpc_sdk(cuda_home, tmp_path)

    toolchain = _toolchain(workspace, tmp_path, **environ_of("hpc", tmp_path))

    assert (toolchain.home / "include" / "curand.h").is_file()
    assert (toolchain.home / "lib64" / "libcurand.so").is_file()
    assert tmp_path / "opt/nvidia/hpc_sdk/Linux_x86_64/25.9/math_libs" in toolchain.linked


def test_takes_only_cuda_from_a_conda_environment(
    cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    prefix = lay_out_conda(cuda_home, tmp_path)

    toolchain = _toolchain(workspace, tmp_path, **environ_of("conda", tmp_path))

    assert not (toolchain.home / "bin" / "python").exists()
    assert not (toolchain.home / "include" / "zlib.h").exists()
    assert (toolchain.home / "include" / "cudnn.h").is_file()
    assert toolchain.linked == (prefix,)


def test_takes_only_files_of_cudas_packages_where_conda_has_no_targets(
    cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    """NVIDIA's channel put headers of CUDA 11 into the environment's own `include`."""
    prefix = lay_out_conda(cuda_home, tmp_path)
    targets = prefix / "targets" / "x86_64-linux"
    files = []
    for folder, name in (("include", "include"), ("lib", "lib")):
        (prefix / folder).mkdir(exist_ok=True)
        for entry in (targets / folder).iterdir():
            (prefix / folder / entry.name).symlink_to(entry.resolve())
            files.append(f"{name}/{entry.name}")
    record = {"name": "cuda-cudart-dev", "files": files}
    (prefix / "conda-meta" / "cuda-cudart-dev.json").write_text(json.dumps(record))
    shutil.rmtree(prefix / "targets")

    home = _toolchain(workspace, tmp_path, **environ_of("conda", tmp_path)).home

    assert not (home / "include" / "zlib.h").exists()
    assert _compile(home, tmp_path).is_file()


@pytest.mark.parametrize("value", ["usr", "usr/lib/cuda", "usr/lib/nvidia-cuda-toolkit"])
def test_understands_debian_homes(
    value: str, cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    lay_out_debian(cuda_home, tmp_path)

    toolchain = _toolchain(workspace, tmp_path, CUDA_HOME=str(tmp_path / value))

    assert (toolchain.home / "lib64" / "libcudart.so").is_file()


def test_makes_links_once_and_again_where_the_toolkit_changed(
    cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    lay_out_debian(cuda_home, tmp_path)
    environ = environ_of("debian", tmp_path)
    first = _toolchain(workspace, tmp_path, **environ)
    assert _toolchain(workspace, tmp_path, **environ) == first

    (tmp_path / "usr" / "include" / "cuda_fp16.h").unlink()

    assert _toolchain(workspace, tmp_path, **environ).home != first.home


def test_takes_the_release_of_two_and_says_which(
    cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    home = lay_out_nvidia(cuda_home, tmp_path)
    other = write_toolkit(tmp_path / "usr" / "local" / "cuda-11.8", "11.8")

    toolchain = _toolchain(workspace, tmp_path, PATH=f"{other}/bin")

    assert toolchain.home == home
    note = heard(workspace).replace("\n", "")
    assert f"CUDA 13.0 in {home}" in note
    assert f"also here: CUDA 11.8 in {other}" in note


def test_refuses_named_toolkit_of_another_release_and_names_the_right_one(
    cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    home = lay_out_nvidia(cuda_home, tmp_path)
    other = write_toolkit(tmp_path / "other", "11.8")

    with pytest.raises(ToolchainError) as caught:
        _toolchain(workspace, tmp_path, CUDA_HOME=str(other))

    assert f"CUDA 11.8 in {other}" in caught.value.why
    assert f"CUDA_HOME={home}" in caught.value.fix
    assert _toolchain(workspace, tmp_path, CUDA_HOME=str(home)).home == home


def test_names_what_was_found_instead(workspace: Workspace, tmp_path: Path) -> None:
    write_toolkit(tmp_path / "usr", "11.8")

    with pytest.raises(ToolchainError, match=r"no CUDA 13\.0") as caught:
        _toolchain(workspace, tmp_path, PATH="/nonexistent")

    assert "CUDA 11.8 of the distribution's nvidia-cuda-toolkit" in caught.value.why


@pytest.mark.parametrize(
    ("removed", "expected"),
    [
        ("include/cuda_runtime.h", "headers"),
        ("lib64/libcudart.so", "libcudart"),
        ("bin/ptxas", "ptxas"),
        ("bin/nvcc", "nvcc"),
    ],
)
def test_refuses_incomplete_toolkit(
    removed: str,
    expected: str,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    home = write_toolkit(tmp_path / "usr" / "local" / "cuda-13.0", "13.0")
    (home / removed).unlink()

    with pytest.raises(ToolchainError, match="is not complete") as caught:
        _toolchain(workspace, tmp_path, PATH="/nonexistent")

    assert caught.value.why == f"it lacks {expected}"


def test_refuses_headers_of_another_release(workspace: Workspace, tmp_path: Path) -> None:
    write_toolkit(tmp_path / "usr" / "local" / "cuda-13.0", "13.0", headers="11.8")

    with pytest.raises(ToolchainError) as caught:
        _toolchain(workspace, tmp_path, PATH="/nonexistent")

    assert "are those of CUDA 11.8" in caught.value.why


def test_refuses_headers_that_no_package_lists(
    cuda_home: Path, workspace: Workspace, tmp_path: Path
) -> None:
    lay_out_debian(cuda_home, tmp_path)
    (tmp_path / "var" / "lib" / "dpkg" / "status").unlink()

    with pytest.raises(ToolchainError, match="can't be told from others"):
        _toolchain(workspace, tmp_path, **environ_of("debian", tmp_path))


@pytest.mark.parametrize(("headers", "count"), [("11.8", 1), ("13.0", 0), ("", 0)])
def test_warns_of_headers_of_another_release_in_usr(
    headers: str, count: int, workspace: Workspace, tmp_path: Path
) -> None:
    if headers:
        write_toolkit(tmp_path / "usr", headers)

    warn_of_other_headers("13.0", workspace, tmp_path / "usr" / "include")

    assert heard(workspace).count("has headers of CUDA 11.8") == count


def test_identity_is_that_of_the_compilers(cuda_home: Path, tmp_path: Path) -> None:
    lay_out_debian(cuda_home, tmp_path)
    environ = environ_of("debian", tmp_path)
    before = identify_system("13.0", environ, tmp_path)
    cicc = tmp_path / "usr" / "lib" / "nvidia-cuda-toolkit" / "bin" / "cicc"
    cicc.unlink()
    cicc.write_bytes(b"\x7fELF another")

    assert before
    assert identify_system("13.0", environ, tmp_path) != before
    assert not identify_system("12.4", environ, tmp_path)


def _compile(home: Path, folder: Path) -> Path:
    source, program = folder / "kernel.cu", folder / "program"
    source.write_text(_PROGRAM)
    flags = ["-arch=sm_90", "-rdc=true", "-cudart=shared"]
    nvcc = home / "bin" / "nvcc"
    run([nvcc, *flags, "-o", program, source], env={"PATH": os.defpath}, cwd=folder)
    return program
