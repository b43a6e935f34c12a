"""NVIDIA's CUDA 13.0 as conda packages: the files of its wheels where conda-forge puts them.

Layout and dependencies: conda-forge's cuda-nvcc-impl, cuda-nvcc, cuda-cudart, cuda-cccl,
cuda-cupti, libcublas, libcusolver, libcusparse, libnvjitlink and cuda-nvrtc feedstocks, its index.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.toolchains.channel import PREFIX, Copy, Entry, Link, Package, Text

TRIPLET = "x86_64-conda-linux-gnu"
GLIBC = "__glibc >=2.17,<3.0.a0"
LIBS = ("libgcc >=14", "libstdcxx >=14")
_TARGET = "targets/x86_64-linux"
_WITH = "cuda-version >=13.0,<13.1.0a0"
_NEWER_GLIBC = "__glibc >=2.28,<3.0.a0"
_GCC_BOUND = ("gcc_impl_linux-64 >=6,<16.0a0",)

# What conda-forge's cuda-nvcc-impl recipe changes in nvcc.profile: everything is in `targets/`.
_PROFILE_CHANGES = (
    ("$(_HERE_)/..\n", "$(_HERE_)/../$(_TARGET_DIR_)\n"),
    ("$(TOP)/$(_TARGET_DIR_)/", "$(TOP)/"),
    ("lib$(_TARGET_SIZE_)", "lib"),
    ("$(CICC_PATH):", "$(TOP)/bin:$(CICC_PATH):$(TOP)/../../bin:"),
)


def cuda_packages(wheels: Wheels, driver_stub: Path) -> Iterator[Package]:
    """All that the tests need of CUDA.

    Args:
        wheels: where NVIDIA's files are.
        driver_stub: a `libcuda.so` to link against.
    """
    yield from _compiler(wheels)
    yield from _runtime(wheels, driver_stub)
    if wheels.has("nvidia_cublas"):
        yield from _libraries(wheels)


class Wheels:
    """What NVIDIA's wheels have put into a CUDA home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def has(self, wheel: str) -> bool:
        return any(site_of(self._home).glob(f"{wheel}-*.dist-info"))

    def version(self, wheel: str) -> str:
        """`13.0.88` of `nvidia_cuda_nvcc`."""
        return self._info(wheel).name.removesuffix(".dist-info").split("-")[1]

    def files(self, wheel: str, start: str) -> Iterator[tuple[str, Path]]:
        """Names below the home, and places, of the wheel's files whose name starts so."""
        with (self._info(wheel) / "RECORD").open(newline="") as stream:
            for row in csv.reader(stream):
                path = site_of(self._home) / row[0]
                if path.is_relative_to(self._home):
                    name = path.relative_to(self._home).as_posix()
                    if name.startswith(start):
                        yield name, path

    def headers(self, wheel: str) -> dict[str, Entry]:
        """Its headers, where conda-forge puts them."""
        return {f"{_TARGET}/{name}": Copy(source=path) for name, path in self.files(wheel, "incl")}

    def libraries(self, wheel: str) -> list[tuple[str, str, Path]]:
        """Plain name, soname and place of its shared libraries: `libcublas`, `….so.13`."""
        found = (path for _, path in self.files(wheel, "lib/lib"))
        shared = (path for path in found if ".so." in path.name and ".alt." not in path.name)
        return [(path.name.partition(".so.")[0], path.name, path) for path in shared]

    def static(self, wheel: str) -> list[tuple[str, Path]]:
        """Name and place of its static libraries."""
        return [(path.name, path) for name, path in self.files(wheel, "lib/") if ".a" in name[-2:]]

    def _info(self, wheel: str) -> Path:
        [found] = site_of(self._home).glob(f"{wheel}-*.dist-info")
        return found


def site_of(cuda_home: Path) -> Path:
    return cuda_home.parent.parent


def _shared(wheels: Wheels, wheel: str) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Shared libraries for the runtime package and links for the `-dev` package.

    The file has the full version in its name and lies in `targets`; each name is in `lib` too.
    """
    run: dict[str, Entry] = {}
    dev: dict[str, Entry] = {}
    for plain, soname, path in wheels.libraries(wheel):
        full = f"{plain}.so.{wheels.version(wheel)}"
        run[f"{_TARGET}/lib/{full}"] = Copy(source=path, executable=True)
        run[f"{_TARGET}/lib/{soname}"] = Link(target=full)
        dev[f"{_TARGET}/lib/{plain}.so"] = Link(target=soname)
        run[f"lib/{full}"] = Link(target=f"../{_TARGET}/lib/{full}")
        run[f"lib/{soname}"] = Link(target=f"../{_TARGET}/lib/{soname}")
        dev[f"lib/{plain}.so"] = Link(target=f"../{_TARGET}/lib/{plain}.so")
    return run, dev


def _split(files: Mapping[str, Entry], start: str) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Files below a folder, and the others."""
    inside = {path: entry for path, entry in files.items() if path.startswith(start)}
    return inside, {path: entry for path, entry in files.items() if path not in inside}


def _pkg_config(name: str, library: str) -> dict[str, Entry]:
    content = (
        f"cudaroot={PREFIX}\nlibdir=${{cudaroot}}/lib\n"
        f"includedir=${{cudaroot}}/{_TARGET}/include\n\nName: {name}\nDescription: {name}\n"
        f"Version: 13.0\nLibs: -L${{libdir}} -l{library}\nCflags: -I${{includedir}}\n"
    )
    return {f"lib/pkgconfig/{name}-13.0.pc": Text(content=content)}


def _nvidia(
    name: str,
    version: str,
    files: Mapping[str, Entry] | None = None,
    *depends: str,
    subdir: str = "linux-64",
    constrains: tuple[str, ...] = (),
) -> Package:
    """A package of NVIDIA's files, built from their wheels and not by conda-forge."""
    return Package(
        name=name,
        version=version,
        build="wheel_0",
        subdir=subdir,
        depends=depends if name == "cuda-version" else (_WITH, *depends),
        constrains=constrains,
        summary="NVIDIA's files of its wheels, in conda-forge's layout, for cuwheel's tests",
        files=files or {},
    )


def _profile(wheels: Wheels) -> str:
    """nvcc's own settings, changed as conda-forge changes them."""
    [(_, path)] = wheels.files("nvidia_cuda_nvcc", "bin/nvcc.profile")
    text = path.read_text()
    for was, becomes in _PROFILE_CHANGES:
        assert was in text, f"another nvcc.profile than the one that was patched: no {was}"
        text = text.replace(was, becomes)
    return text


def _compiler(wheels: Wheels) -> Iterator[Package]:
    """nvcc and its parts: packages of conda-forge's cuda-nvcc and cuda-nvcc-impl recipes."""
    version = wheels.version("nvidia_cuda_nvcc")
    tools: dict[str, Entry] = {
        # The home's own `nvlink` is a script of cuwheel around it.
        name: Copy(source=path.with_name("nvlink-real") if name == "bin/nvlink" else path,
                   executable=True)
        for name, path in wheels.files("nvidia_cuda_nvcc", "bin/")
    }  # fmt: skip
    tools["bin/nvcc.profile"] = Text(content=_profile(wheels))
    stubs, tools = _split(tools, "bin/crt/")
    nvvm: dict[str, Entry] = {
        name: Copy(source=path, executable="bin" in name)
        for name, path in wheels.files("nvidia_nvvm", "nvvm/")
    }
    [(_, soname, libnvvm)] = wheels.libraries("nvidia_nvvm")
    library: dict[str, Entry] = {
        f"nvvm/lib64/{soname}": Copy(source=libnvvm, executable=True),
        "nvvm/lib64/libnvvm.so": Link(target=soname),
        **{f"nvvm/{name}": Copy(source=path) for name, path in wheels.files("nvidia_nvvm", "incl")},
    }
    links: dict[str, Entry] = {
        f"{_TARGET}/bin/nvcc": Link(target="../../../bin/nvcc"),
        **wheels.headers("nvidia_cuda_nvcc"),
    }
    activation = f'export NVCC_PREPEND_FLAGS="-ccbin={PREFIX}/bin/{TRIPLET}-c++"\n'
    at, exactly = f"{version}.*", f"{version} wheel_0"

    yield _nvidia("cuda-version", "13.0", subdir="noarch", constrains=("__cuda >=13",))
    yield _nvidia("cuda-crt-tools", version, stubs)
    yield _nvidia(
        "cuda-crt-dev_linux-64", version, wheels.headers("nvidia_cuda_crt"), subdir="noarch"
    )
    yield _nvidia("cuda-nvvm-tools", version, nvvm, GLIBC)
    yield _nvidia("cuda-nvvm-impl", version, library, GLIBC)
    yield _nvidia(
        "cuda-nvvm-dev_linux-64",
        version,
        {f"{_TARGET}/nvvm": Link(target="../../nvvm")},
        subdir="noarch",
    )
    crt_and_nvvm = (f"cuda-crt-tools {exactly}", f"cuda-nvvm-tools {exactly}")
    yield _nvidia(
        "cuda-nvcc-tools", version, tools, GLIBC, *crt_and_nvvm, *LIBS, constrains=_GCC_BOUND
    )
    headers = (f"cuda-crt-dev_linux-64 {exactly}", f"cuda-nvvm-dev_linux-64 {exactly}")
    yield _nvidia(
        "cuda-nvcc-dev_linux-64",
        version,
        links,
        *headers,
        "libgcc >=6",
        subdir="noarch",
        constrains=_GCC_BOUND,
    )
    parts = ("cuda-nvcc-dev_linux-64", "cuda-nvcc-tools", "cuda-nvvm-impl")
    yield _nvidia(
        "cuda-nvcc-impl",
        version,
        {},
        "cuda-cudart-dev",
        *(f"{part} {exactly}" for part in parts),
        constrains=_GCC_BOUND,
    )
    yield _nvidia(
        "cuda-nvcc_linux-64",
        version,
        {"etc/conda/activate.d/~cuda-nvcc_activate.sh": Text(content=activation)},
        GLIBC,
        "cuda-cudart-dev_linux-64 13.0.*",
        "cuda-driver-dev_linux-64 13.0.*",
        *(f"{name} {at}" for name in ("cuda-nvcc-dev_linux-64", "cuda-nvcc-impl")),
        "sysroot_linux-64 >=2.17,<3.0a0",
    )
    yield _nvidia(
        "cuda-nvcc", version, {}, f"cuda-nvcc_linux-64 {at}", "gcc_linux-64", "gxx_linux-64"
    )


def _runtime(wheels: Wheels, driver_stub: Path) -> Iterator[Package]:
    """cudart and CCCL: packages of conda-forge's cuda-cudart and cuda-cccl recipes."""
    version, exactly = wheels.version("nvidia_cuda_runtime"), "wheel_0"
    run, dev = _shared(wheels, "nvidia_cuda_runtime")
    (target_run, lib_run), (target_dev, lib_dev) = _split(run, _TARGET), _split(dev, _TARGET)
    archives = (*wheels.static("nvidia_cuda_runtime"), *wheels.static("nvidia_cuda_culibos"))
    static: dict[str, Entry] = {f"{_TARGET}/lib/{n}": Copy(source=path) for n, path in archives}
    links: dict[str, Entry] = {
        f"lib/{name}": Link(target=f"../{_TARGET}/lib/{name}") for name, _ in archives
    }
    cccl: dict[str, Entry] = {
        f"{_TARGET}/{name}": Copy(source=path)
        for start in ("include/", "lib/")
        for name, path in wheels.files("nvidia_cuda_cccl", start)
    }
    stub: dict[str, Entry] = {
        f"{_TARGET}/lib/stubs/libcuda.so": Copy(source=driver_stub, executable=True)
    }

    def own(name: str) -> str:
        return f"{name} {version} {exactly}"

    headers = {**wheels.headers("nvidia_cuda_runtime"), **target_dev}
    needs = ("cuda-cccl_linux-64", "cuda-cudart-static_linux-64", "cuda-cudart_linux-64")
    yield _nvidia("cuda-cudart_linux-64", version, target_run, subdir="noarch")
    yield _nvidia("cuda-cudart", version, lib_run, GLIBC, own("cuda-cudart_linux-64"), *LIBS)
    yield _nvidia("cuda-cudart-dev_linux-64", version, headers, *needs, subdir="noarch")
    yield _nvidia("cuda-cudart-static_linux-64", version, static, subdir="noarch")
    yield _nvidia("cuda-cudart-static", version, links, GLIBC, own("cuda-cudart-static_linux-64"))
    names = ("cuda-cudart", "cuda-cudart-dev_linux-64", "cuda-cudart-static")
    lib_dev |= _pkg_config("cudart", "cudart")
    yield _nvidia("cuda-cudart-dev", version, lib_dev, GLIBC, *map(own, names))
    yield _nvidia("cuda-driver-dev_linux-64", version, stub, subdir="noarch")
    cccl_version = wheels.version("nvidia_cuda_cccl")
    yield _nvidia("cuda-cccl_linux-64", cccl_version, cccl, subdir="noarch")
    yield _nvidia("cuda-cccl", cccl_version, {}, f"cuda-cccl_linux-64 {cccl_version}")


def _libraries(wheels: Wheels) -> Iterator[Package]:
    """The mathematical libraries that the packages of the tests link, and what these need."""
    cublas = (_NEWER_GLIBC, "cuda-nvrtc", *LIBS)
    cublas_dev = ("cuda-crt-dev_linux-64", "cuda-cudart-dev_linux-64")
    yield from _library(wheels, "nvidia_cublas", "libcublas", cublas, cublas_dev)
    cusparse = (GLIBC, "libnvjitlink >=13.0.39,<14.0a0", *LIBS)
    yield from _library(wheels, "nvidia_cusparse", "libcusparse", cusparse)
    parts = ("libcublas", "libcusparse", "libnvjitlink")
    cusolver = (GLIBC, *(f"{part} >=12" for part in parts), *LIBS)
    yield from _library(wheels, "nvidia_cusolver", "libcusolver", cusolver)
    yield from _library(wheels, "nvidia_cuda_cupti", "cuda-cupti", (GLIBC, *LIBS))
    yield from _library(wheels, "nvidia_nvjitlink", "libnvjitlink", (GLIBC, *LIBS))
    yield from _library(wheels, "nvidia_cuda_nvrtc", "cuda-nvrtc", (GLIBC, *LIBS))


def _library(
    wheels: Wheels,
    wheel: str,
    name: str,
    depends: tuple[str, ...],
    dev_depends: tuple[str, ...] = (),
) -> Iterator[Package]:
    version = wheels.version(wheel)
    run, dev = _shared(wheels, wheel)
    yield _nvidia(name, version, run, *depends)
    files = {**dev, **wheels.headers(wheel)}
    yield _nvidia(f"{name}-dev", version, files, f"{name} {version} wheel_0", *dev_depends)
