"""The toolkits of a machine: each layout with the real nvcc, links, scripts, and parts of one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cuwheel.check.cuda import installed_toolkits
from cuwheel.check.cuda.installed_toolkits import InstalledToolkit, header_release
from cuwheel.check.cuda.toolkit_search import find_toolkits
from tests.support.toolchains.layouts import LAYOUTS, environ_of, lay_out_debian, write_toolkit

_NOWHERE = {"PATH": "/nonexistent"}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_reads_each_layout(kind: str, cuda_home: Path, tmp_path: Path) -> None:
    home = LAYOUTS[kind](cuda_home, tmp_path)

    [toolkit] = find_toolkits({**_NOWHERE, **environ_of(kind, tmp_path)}, tmp_path)

    assert (toolkit.kind, toolkit.home) == (kind, home)
    assert (toolkit.version, toolkit.header_release) == ("13.0.88", "13.0")
    assert toolkit.lacks == ()
    assert (toolkit.headers or home).joinpath("cuda_runtime.h").is_file()
    assert any((toolkit.libraries or home).glob("libcudart.so*"))


def test_debian_toolkit_is_found_by_the_script_in_usr_bin(cuda_home: Path, tmp_path: Path) -> None:
    usr = lay_out_debian(cuda_home, tmp_path)

    [toolkit] = find_toolkits({"PATH": str(usr / "bin")}, tmp_path)

    assert toolkit.path == usr / "bin" / "nvcc"
    assert toolkit.nvcc == usr / "lib" / "nvidia-cuda-toolkit" / "bin" / "nvcc"
    assert toolkit.found == ("PATH", str(usr))


def test_lists_each_once_in_the_order_of_builds(tmp_path: Path) -> None:
    local = tmp_path / "usr" / "local"
    named = write_toolkit(local / "cuda-12.4", "12.4")
    (local / "cuda").symlink_to(named)
    write_toolkit(local / "cuda-11.8", "11.8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").write_text('#!/bin/sh\nexec /usr/local/cuda-12.4/bin/nvcc "$@"\n')
    (tmp_path / "bin" / "nvcc").chmod(0o755)
    environ = {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(local / "cuda-11.8")}

    first, second = find_toolkits(environ, tmp_path)

    assert (first.release, first.found[0]) == ("11.8", "CUDA_HOME")
    assert (second.release, second.found[:2]) == ("12.4", ("PATH", str(local / "cuda")))


@pytest.mark.parametrize("name", ["EBROOTCUDA", "CUDA_ROOT", "CUDA_DIR", "CUDATOOLKIT_HOME"])
def test_follows_variables_of_modules(name: str, tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "apps" / "CUDA" / "12.4.0", "12.4")

    [toolkit] = find_toolkits({**_NOWHERE, name: str(home)}, tmp_path)

    assert (toolkit.kind, toolkit.found) == ("module", (name,))


def test_finds_sdk_that_nvhpc_root_names(tmp_path: Path) -> None:
    sdk = tmp_path / "apps" / "nvhpc" / "25.9"
    (sdk / "compilers").mkdir(parents=True)
    for release in ("12.4", "13.0"):
        write_toolkit(sdk / "cuda" / release, release)

    toolkits = find_toolkits({**_NOWHERE, "NVHPC_ROOT": str(sdk)}, tmp_path)

    assert [(each.kind, each.release) for each in toolkits] == [("hpc", "12.4"), ("hpc", "13.0")]


def test_lists_folder_with_libraries_alone(tmp_path: Path) -> None:
    """A `runtime` image of NVIDIA's."""
    libraries = tmp_path / "usr" / "local" / "cuda-12.4" / "lib64"
    libraries.mkdir(parents=True)
    (libraries / "libcudart.so.12.4.127").write_bytes(b"")

    [toolkit] = find_toolkits(_NOWHERE, tmp_path)

    assert (toolkit.release, toolkit.path) == ("12.4", None)
    assert toolkit.lacks == ("nvcc", "headers")


def test_lists_headers_of_the_distribution_without_nvcc(cuda_home: Path, tmp_path: Path) -> None:
    usr = lay_out_debian(cuda_home, tmp_path)
    shutil.rmtree(usr / "bin")
    shutil.rmtree(usr / "lib" / "nvidia-cuda-toolkit")

    [toolkit] = find_toolkits(_NOWHERE, tmp_path)

    assert (toolkit.kind, toolkit.lacks, toolkit.release) == ("debian", ("nvcc",), "13.0")


def test_names_no_runtime_library_of_a_conda_environment_a_toolkit(tmp_path: Path) -> None:
    (tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "env" / "lib" / "libcudart.so.12").write_bytes(b"")

    assert find_toolkits({**_NOWHERE, "CONDA_PREFIX": str(tmp_path / "env")}, tmp_path) == ()


@pytest.mark.parametrize("script", ["exit 1", "exec /nonexistent/bin/nvcc", "echo no release"])
def test_says_why_nvcc_does_not_state_its_release(script: str, tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "cuda", "", script=script)

    [toolkit] = find_toolkits({**_NOWHERE, "CUDA_HOME": str(home)}, tmp_path)

    assert (toolkit.version, bool(toolkit.fault)) == ("", True)


def test_gives_up_on_nvcc_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_toolkits, "TIME_LIMIT", 0.5)
    home = write_toolkit(tmp_path / "cuda", "", script="exec /bin/sleep 60")

    [toolkit] = find_toolkits({**_NOWHERE, "CUDA_HOME": str(home)}, tmp_path)

    assert toolkit.fault.startswith("no answer within")


@pytest.mark.parametrize(("text", "release"), [("13000", "13.0"), ("12040", "12.4"), ("", "")])
def test_reads_release_of_headers(text: str, release: str, tmp_path: Path) -> None:
    (tmp_path / "cuda_runtime_api.h").write_text(f"#define CUDART_VERSION  {text}\n")

    assert header_release(tmp_path) == release


def test_describes_itself_with_what_it_lacks() -> None:
    toolkit = InstalledToolkit(
        home=Path("/usr"), kind="debian", found=(), release="11.8", lacks=("headers",)
    )

    text = "CUDA 11.8 of the distribution's nvidia-cuda-toolkit in /usr (without headers)"
    assert str(toolkit) == text
