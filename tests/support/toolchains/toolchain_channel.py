"""A channel with a CUDA 13.0 toolchain laid out as conda-forge's, made of real parts.

CUDA is what NVIDIA's wheels hold. GCC, binutils and the C library are the machine's, under the
names and with the search paths of conda-forge's. cmake and ninja are those of their wheels.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.compilers import SYSTEM_PATH, HostCompiler, find_host_compilers
from cuwheel.base.system.files import file_lock, new_folder, remove_tree
from cuwheel.base.system.pythons import own_python
from cuwheel.build.environments.uv import install
from cuwheel.build.workspace.workspace import Workspace
from tests.support.packages.cuda_packages import GLIBC, LIBS, Wheels, cuda_packages, site_of
from tests.support.packages.gcc import binutils_packages, c_library_version, gcc_packages, stand_in
from tests.support.toolchains.channel import Copy, Entry, Package, Text, write_channel

_MADE_BY = (
    *("packages/cuda_packages.py", "packages/gcc.py"),
    *("toolchains/channel.py", "toolchains/toolchain_channel.py"),
)
_BUILD_TOOLS = ROOT / "tests" / "project" / "envs" / "build" / "tiny_skbuild.lock"

# As in envs/cuda130/environment.yml, without the libraries that no package of the tests links; a
# channel with the small toolchain has none of the libraries.
_ASKED_FOR = (
    "cuda-version",
    "cuda-nvcc",
    "cuda-cudart-dev",
    "cuda-driver-dev_linux-64",
    "libcublas-dev",
    "libcusolver-dev",
    "libcusparse-dev",
    "cuda-nvrtc-dev",
    "cuda-cccl",
    "cuda-cupti-dev",
    "gcc_linux-64",
    "gxx_linux-64",
    "binutils",
    "sysroot_linux-64",
    "cmake",
    "ninja",
)


def make_channel(workspace: Workspace, cuda_home: Path) -> Path:
    """Give the channel's folder: the one in the cache, or a new one.

    Args:
        workspace: its cache keeps the channel; cmake and ninja are installed with its settings.
        cuda_home: a CUDA home made from NVIDIA's wheels, of all parts or of some.
    """
    gcc = find_host_compilers({})[0]
    parts = [
        *((ROOT / "tests" / "support" / name).read_text() for name in _MADE_BY),
        _BUILD_TOOLS.read_text(),
        *(path.name for path in sorted(site_of(cuda_home).glob("*.dist-info"))),
        f"{gcc.cxx} {gcc.banner} {c_library_version()}",
        f"{own_python().path} {own_python().version}",
    ]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    kind = "whole" if any(site_of(cuda_home).glob("nvidia_cublas-*")) else "small"
    folder = workspace.cache / f"test-conda-{kind}-{key}"
    with file_lock(workspace.cache / f"test-conda-{kind}.lock"):
        if not folder.is_dir():
            for older in workspace.cache.glob(f"test-conda-{kind}-*"):
                _forget(older, workspace.cache)
            with new_folder(folder) as aside:
                tools = workspace.folder("channel-tools")
                _install_build_tools(tools, workspace)
                stub = _compile_driver_stub(workspace.folder("channel-stub"), gcc)
                wheels = Wheels(cuda_home)
                own = (*_build_tools(tools), *gcc_packages(gcc), *binutils_packages(), _python())
                write_channel(aside, (*cuda_packages(wheels, stub), *own))
    return folder


def _forget(channel: Path, cache: Path) -> None:
    """Remove a channel, and what was downloaded from it: nothing asks for these files again."""
    for index in channel.glob("*/repodata.json"):
        for record in json.loads(index.read_text())["packages.conda"].values():
            remove_tree(cache / "downloads" / record["sha256"])
    remove_tree(channel)


def toolchain_specs(channel: Path) -> tuple[str, ...]:
    """What an `environment.yml` asks this channel for, each with its exact version."""
    records = [
        record
        for index in channel.glob("*/repodata.json")
        for record in json.loads(index.read_text())["packages.conda"].values()
    ]
    versions = {record["name"]: record["version"] for record in records}
    return tuple(f"{name} =={versions[name]}" for name in _ASKED_FOR if name in versions)


def _python() -> Package:
    """The Python that runs this, behind a script; for machines that have none."""
    python = own_python()
    program = Text(content=f'#!/bin/sh\nexec {python.path} "$@"\n', executable=True)
    return stand_in("python", python.version, {f"bin/python{python.release}": program})


def _build_tools(site: Path) -> Iterator[Package]:
    """cmake and ninja of their wheels: programs in `bin`, cmake's modules in `share`."""
    data = site / "cmake" / "data"
    modules = (path for path in data.glob("share/cmake-*/**/*") if path.is_file())
    cmake: dict[str, Entry] = {
        "bin/cmake": Copy(source=data / "bin" / "cmake", executable=True),
        **{path.relative_to(data).as_posix(): Copy(source=path) for path in modules},
    }
    ninja: dict[str, Entry] = {"bin/ninja": Copy(source=site / "bin" / "ninja", executable=True)}
    for name, files in (("cmake", cmake), ("ninja", ninja)):
        [info] = site.glob(f"{name}-*.dist-info")
        yield Package(
            name=name,
            version=info.name.removesuffix(".dist-info").partition("-")[2],
            build="wheel_0",
            depends=(GLIBC, *LIBS),
            summary=f"{name} of its wheel, for cuwheel's tests",
            files=files,
        )


def _install_build_tools(site: Path, workspace: Workspace) -> None:
    install(
        Path(sys.executable),
        _BUILD_TOOLS,
        workspace,
        offline=False,
        log=workspace.log("channel-tools"),
        into=site,
    )


def _compile_driver_stub(folder: Path, gcc: HostCompiler) -> Path:
    """A `libcuda.so` as NVIDIA's: the names that programs link, and nothing behind them."""
    source, stub = folder / "stub.c", folder / "libcuda.so"
    names = ("cuInit", "cuDriverGetVersion", "cuGetProcAddress_v2", "cuGetErrorString")
    source.write_text("".join(f"int {name}(void) {{ return 34; }}\n" for name in names))
    process.run(
        [gcc.cc, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", stub, source],
        env={"PATH": SYSTEM_PATH},
    )
    return stub
