"""A channel with a CUDA 13.0 toolchain laid out as conda-forge's, made of real parts.

CUDA is what NVIDIA's wheels hold. GCC, binutils and the C library are stand-ins: scripts around
the machine's, and links to it, under the names and with the search paths of conda-forge's
(ctng-compilers, ctng-compiler-activation, binutils and linux-sysroot feedstocks). cmake and ninja
are those of their wheels.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel import process
from cuwheel.compilers import SYSTEM_PATH, HostCompiler, find_host_compilers
from cuwheel.files import lock, new_folder, remove_tree
from cuwheel.installer import install_into
from cuwheel.paths import ROOT
from cuwheel.process import which
from cuwheel.pythons import own_python
from cuwheel.toolkits import toolkit_by_release
from tests.channel import PREFIX, Copy, Entry, Link, Package, Text, write_channel
from tests.cuda_packages import GLIBC, LIBS, TRIPLET, Wheels, cuda_packages, site_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cuwheel.workspace import Workspace

BINUTILS = "2.40"
_MADE_BY = ("channel.py", "cuda_packages.py", "toolchain_channel.py")
_BUILD_TOOLS = ROOT / "tests" / "project" / "envs" / "build" / "tiny_skbuild.lock"

# As in envs/cuda130/environment.yml, without the libraries that no package of the tests links.
_ASKED_FOR = (
    "cuda-version",
    "cuda-nvcc",
    "cuda-cudart-dev",
    "cuda-driver-dev_linux-64",
    "libcublas-dev",
    "libcusparse-dev",
    "cuda-nvrtc-dev",
    "cuda-cccl",
    "gcc_linux-64",
    "gxx_linux-64",
    "binutils",
    "sysroot_linux-64",
    "cmake",
    "ninja",
)

_BINUTILS = (
    *("addr2line", "ar", "as", "c++filt", "elfedit", "gprof", "ld", "ld.bfd", "ld.gold", "nm"),
    *("objcopy", "objdump", "ranlib", "readelf", "size", "strings", "strip"),
)


def make_channel(space: Workspace, cuda_home: Path) -> Path:
    """Give the channel's folder: the one in the cache, or a new one.

    Args:
        space: its cache keeps the channel; cmake and ninja are installed with its settings.
        cuda_home: a CUDA home made from NVIDIA's wheels.
    """
    gcc = find_host_compilers({}, toolkit_by_release("13.0").max_gcc)[0]
    parts = [
        *(Path(__file__).with_name(name).read_text() for name in _MADE_BY),
        _BUILD_TOOLS.read_text(),
        *(path.name for path in sorted(site_of(cuda_home).glob("*.dist-info"))),
        f"{gcc.cxx} {gcc.banner}",
        f"{own_python().path} {own_python().version}",
    ]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    folder = space.cache / f"test-channel-{key}"
    with lock(space.cache / "test-channel.lock"):
        if not folder.is_dir():
            for older in space.cache.glob("test-channel-*"):
                remove_tree(older)
            with new_folder(folder) as aside:
                tools = space.folder("channel-tools")
                _install_build_tools(tools, space)
                stub = _compile_driver_stub(space.folder("channel-stub"), gcc)
                wheels = Wheels(cuda_home)
                own = (*_build_tools(tools), *_gcc(gcc), *_binutils(), _python())
                write_channel(aside, (*cuda_packages(wheels, stub), *own))
    return folder


def toolchain_specs(channel: Path) -> tuple[str, ...]:
    """What an `environment.yml` asks this channel for, each with its exact version."""
    records = [
        record
        for index in channel.glob("*/repodata.json")
        for record in json.loads(index.read_text())["packages.conda"].values()
    ]
    versions = {record["name"]: record["version"] for record in records}
    return tuple(f"{name} =={versions[name]}" for name in _ASKED_FOR)


def _stand_in(name: str, version: str, files: Mapping[str, Entry], *depends: str) -> Package:
    return Package(
        name=name,
        version=version,
        build="standin_0",
        depends=depends,
        summary="A stand-in of cuwheel's tests: scripts around a program of this machine",
        files=files,
    )


def _around(program: str, *options: str) -> Text:
    """A script that becomes a program of the machine, which no `PATH` can change."""
    words = " ".join([_of_machine(program), *options])
    return Text(content=f'#!/bin/sh\nexec {words} "$@"\n', executable=True)


def _driver(compiler: Path, specs: str) -> Text:
    """A script around GCC's driver that finds its specs beside itself, wherever that is."""
    beside = '"$(dirname "$(readlink -f "$0")")"'
    return _around(str(compiler), f"-specs={beside}/../{specs}")


def _of_machine(program: str) -> str:
    found = which(program, SYSTEM_PATH)
    assert found, f"{program} is missing in {SYSTEM_PATH}"
    return found


def _python() -> Package:
    """The Python that runs this, behind a script; for machines that have none."""
    python = own_python()
    program = Text(content=f'#!/bin/sh\nexec {python.path} "$@"\n', executable=True)
    return _stand_in("python", python.version, {f"bin/python{python.release}": program})


def _gcc(gcc: HostCompiler) -> Iterator[Package]:
    """GCC as conda-forge's: only names with the triplet, and its own `lib` in each rpath."""
    version, folder = gcc.version, f"lib/gcc/{TRIPLET}/{gcc.version}"
    specs = f"*link:\n+ %{{!static:-rpath {PREFIX}/lib}}\n\n"
    c: dict[str, Entry] = {
        f"{folder}/specs": Text(content=specs),
        f"bin/{TRIPLET}-gcc": _driver(gcc.cc, f"{folder}/specs"),
        f"bin/{TRIPLET}-cc": Link(target=f"{TRIPLET}-gcc"),
        **{
            f"bin/{TRIPLET}-{name}": _around(name)
            for name in ("cpp", "gcc-ar", "gcc-nm", "gcc-ranlib", "gcov")
        },
    }
    cxx: dict[str, Entry] = {
        f"bin/{TRIPLET}-g++": _driver(gcc.cxx, f"{folder}/specs"),
        f"bin/{TRIPLET}-c++": _driver(gcc.cxx, f"{folder}/specs"),
    }
    libs = tuple(f"{name} >={version}" for name in ("libgcc", "libstdcxx"))
    sysroot = "sysroot_linux-64"
    yield _stand_in("libgcc", "15.2.0", {}, GLIBC)
    yield _stand_in("libstdcxx", "15.2.0", {}, GLIBC, "libgcc 15.2.0 standin_0")
    yield _stand_in(sysroot, "2.28", _sysroot(gcc), "__glibc >=2.28")
    yield _stand_in(
        "gcc_impl_linux-64", version, c, f"binutils_impl_linux-64 >={BINUTILS}", *libs, sysroot
    )
    exactly = f"gcc_impl_linux-64 {version} standin_0"
    yield _stand_in("gxx_impl_linux-64", version, cxx, exactly, sysroot)
    yield _activation("gcc", version, "CC", "cc", "binutils_linux-64", sysroot)
    yield _activation("gxx", version, "CXX", "c++", f"gcc_linux-64 {version} standin_0", sysroot)


def _sysroot(gcc: HostCompiler) -> dict[str, Entry]:
    """Links to the machine's C library, where a sysroot has its own."""
    folder = f"{TRIPLET}/sysroot/usr"
    names = {"librt.so": "librt.so.1", "libdl.so": "libdl.so.2", "libpthread.so": "libpthread.so.0"}
    asked = {
        name: process.run([gcc.cc, f"-print-file-name={soname}"], env={"PATH": SYSTEM_PATH}).output
        for name, soname in names.items()
    }
    return {
        f"bin/{TRIPLET}.cfg": Text(content=f"--sysroot={PREFIX}/{TRIPLET}/sysroot\n"),
        f"{folder}/lib": Link(target="lib64"),
        **{f"{folder}/lib64/{n}": Link(target=str(Path(at.strip()))) for n, at in asked.items()},
    }


def _activation(name: str, version: str, variable: str, program: str, *depends: str) -> Package:
    script = f"export {variable}={PREFIX}/bin/{TRIPLET}-{program}\n"
    path = f"etc/conda/activate.d/activate-{name}_linux-64.sh"
    needs = (f"{name}_impl_linux-64 {version}.*", *depends)
    return _stand_in(f"{name}_linux-64", version, {path: Text(content=script)}, *needs)


def _binutils() -> Iterator[Package]:
    programs: dict[str, Entry] = {f"bin/{TRIPLET}-{name}": _around(name) for name in _BINUTILS}
    own = {f"{TRIPLET}/bin/{n}": Link(target=f"../../bin/{TRIPLET}-{n}") for n in _BINUTILS}
    plain: dict[str, Entry] = {f"bin/{n}": Link(target=f"{TRIPLET}-{n}") for n in _BINUTILS}
    impl = "binutils_impl_linux-64"
    yield _stand_in(impl, BINUTILS, {**programs, **own}, "sysroot_linux-64")
    yield _stand_in("binutils_linux-64", BINUTILS, {}, f"{impl} {BINUTILS} standin_0")
    yield _stand_in("binutils", BINUTILS, plain, f"{impl} >={BINUTILS},<2.41.0a0")


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


def _install_build_tools(site: Path, space: Workspace) -> None:
    install_into(
        site,
        _BUILD_TOOLS,
        python=Path(sys.executable),
        cache=space.cache,
        offline=space.offline,
        log=space.log("channel-tools"),
        console=space.console,
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
