"""The environment of a build: each variable stated here, nothing of the caller's let in."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.compilers import SYSTEM_PATH
from cuwheel.condahome import sysroot_of
from cuwheel.recipe import CMake, TorchExtension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.artefacts import Environment, Preflight, Toolchain
    from cuwheel.target import Target
    from cuwheel.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class BuildInputs:
    """What the earlier stages left, and the folders of this build.

    Attributes:
        tree: the copy of the source that is built.
        epoch: `SOURCE_DATE_EPOCH`, seconds since 1970.
        toolchain: the CUDA home, and perhaps the compilers.
        python: the environment with the build requirements.
        machine: what preflight chose.
        home: `HOME` of the build.
        tmp: its `TMPDIR`.
        toolbox: links to the machine's programs, its compilers left out.
        resources: what the recipe's resources were put into.
    """

    tree: Path
    epoch: int
    toolchain: Toolchain
    python: Environment
    machine: Preflight
    home: Path
    tmp: Path
    toolbox: Path
    resources: Path


def variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """All variables of the build.

    Args:
        target: what is built.
        inputs: from what, and where.
    """
    common = {
        **_base_variables(inputs),
        **_compiler_variables(target, inputs),
        **_job_variables(inputs.machine.jobs),
    }
    return {**common, **_backend_variables(target, inputs)}


def _base_variables(inputs: BuildInputs) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join(_search_path(inputs)),
        "HOME": str(inputs.home),
        "TMPDIR": str(inputs.tmp),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(inputs.epoch),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "TORCH_NO_COMPILER_WRAPPER": "1",  # PyTorch would put a ccache it finds before nvcc
        "NO_COLOR": "1",
    }


def _search_path(inputs: BuildInputs) -> list[str]:
    """Toolchain, environment, machine; of the machine no compiler where the toolchain has one."""
    toolchain = inputs.toolchain
    bins = [toolchain.home / "bin", inputs.python.python.parent]
    if toolchain.programs is None:
        return [*map(str, bins), SYSTEM_PATH]
    return [str(path) for path in (toolchain.programs, *bins, inputs.toolbox)]


def _compiler_variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """The compilers by absolute path, and maps that keep this machine's paths out of the binaries.

    nvcc's `-Xcompiler -ffile-prefix-map` reaches the host pass and the device pass.
    `-g0`: some Pythons were built with `-g` and hand it on to extensions.
    """
    cxx = str(inputs.machine.host_compiler)
    maps = [f"-ffile-prefix-map={private}={public}" for private, public in _path_maps(inputs)]
    flags = " ".join(["-O2", "-DNDEBUG", "-g0", *maps])
    home = str(inputs.toolchain.home)
    return {
        "CC": str(inputs.machine.c_compiler),
        "CXX": cxx,
        "CUDAHOSTCXX": cxx,
        "NVCC_CCBIN": cxx,
        "CUDA_HOME": home,
        "CUDA_PATH": home,
        "CUDACXX": f"{home}/bin/nvcc",
        "CFLAGS": flags,
        "CXXFLAGS": flags,
        "LDFLAGS": " ".join(_linker_flags(target, home)),
        "NVCC_APPEND_FLAGS": "-Xcompiler " + ",".join(maps),
        **_own_tools(inputs.toolchain),
    }


def _linker_flags(target: Target, home: str) -> list[str]:
    flags = [f"-L{home}/lib64", f"-L{home}/lib64/stubs"]
    if target.recipe.libstdcxx == "static":
        flags += ["-static-libstdc++", "-static-libgcc"]
    return flags


def _own_tools(toolchain: Toolchain) -> dict[str, str]:
    """For makefiles and setup.py files that read these; CMake asks the compiler."""
    programs = toolchain.programs
    if programs is None:
        return {}
    packages = {"PKG_CONFIG_LIBDIR": str(toolchain.home / "lib" / "pkgconfig")}
    names = {"AR": "ar", "NM": "nm", "RANLIB": "ranlib", "STRIP": "strip", "OBJCOPY": "objcopy"}
    return {**packages, **{name: str(programs / program) for name, program in names.items()}}


def _path_maps(inputs: BuildInputs) -> list[tuple[str, str]]:
    """Private folders and the names that `__FILE__` gets instead; GCC takes the last match."""
    pythons = {inputs.python.base_python.parent.parent, _resolved_prefix(inputs.python)}
    return [
        *((str(path), "/cuwheel/python") for path in sorted(pythons) if _is_private(path)),
        (str(inputs.toolchain.home), "/cuwheel/cuda"),
        (str(inputs.python.python.parent.parent), "/cuwheel/environment"),
        (str(inputs.tmp), "/cuwheel/tmp"),
        (str(inputs.resources), "/cuwheel/resources"),
        (str(inputs.tree), "/cuwheel/source"),
    ]


def _resolved_prefix(env: Environment) -> Path:
    return env.base_python.resolve().parent.parent


def _job_variables(jobs: int) -> dict[str, str]:
    """One number for everything that reads one: PyTorch, CMake, make; nvcc itself stays at one."""
    return {
        "MAX_JOBS": str(jobs),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
        "NVCC_THREADS": "1",
    }


def _backend_variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    declared = target.recipe.build
    values = _placeholders(target, inputs)
    own = {name: text.format_map(values) for name, text in declared.env.items()}
    if isinstance(declared, TorchExtension):
        return {"TORCH_CUDA_ARCH_LIST": values["torch_archs"], **own}
    if isinstance(declared, CMake):
        return {
            "CMAKE_GENERATOR": "Ninja",
            "CUDAARCHS": values["cmake_archs"],
            "CMAKE_ARGS": _cmake_arguments(declared, values, inputs),
            **own,
        }
    return own


def _cmake_arguments(declared: CMake, values: Mapping[str, str], inputs: BuildInputs) -> str:
    """Definitions in scikit-build-core's `CMAKE_ARGS`, with no way back to the machine's CUDA."""
    defined = {
        **_cmake_compilers(inputs),
        "CMAKE_CUDA_ARCHITECTURES": values["cmake_archs"],
        "CMAKE_CUDA_COMPILER": f"{values['cuda_home']}/bin/nvcc",
        "CUDAToolkit_ROOT": values["cuda_home"],
        **{name: text.format_map(values) for name, text in declared.define.items()},
    }
    return shlex.join(f"-D{name}={value}" for name, value in defined.items())


def _cmake_compilers(inputs: BuildInputs) -> dict[str, str]:
    """The compilers; and of a machine whose compiler isn't used, no library or header either."""
    compilers = {
        "CMAKE_C_COMPILER": str(inputs.machine.c_compiler),
        "CMAKE_CXX_COMPILER": str(inputs.machine.host_compiler),
        "CMAKE_CUDA_HOST_COMPILER": str(inputs.machine.host_compiler),
    }
    if inputs.toolchain.programs is None:
        return compilers
    return {
        **compilers,
        "CMAKE_FIND_USE_CMAKE_SYSTEM_PATH": "OFF",
        # Not CMAKE_PREFIX_PATH: scikit-build-core has one of its own, for packages in the
        # environment that bring CMake files.
        "CMAKE_LIBRARY_PATH": str(sysroot_of(inputs.toolchain.home) / "usr" / "lib64"),
    }


def _placeholders(target: Target, inputs: BuildInputs) -> dict[str, str]:
    ptx = set(target.ptx_archs)
    dotted = [f"{arch[:-1]}.{arch[-1]}{'+PTX' * (arch in ptx)}" for arch in target.archs]
    gencode = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in target.archs]
    gencode += [f"-gencode=arch=compute_{arch},code=compute_{arch}" for arch in target.ptx_archs]
    cmake = [f"{arch}{'' if arch in ptx else '-real'}" for arch in target.archs]
    return {
        "archs": ";".join(target.archs),
        "cmake_archs": ";".join(cmake),
        "torch_archs": ";".join(dotted),
        "gencode": " ".join(gencode),
        "jobs": str(inputs.machine.jobs),
        "toolkit": target.toolkit.release,
        "toolkit_tag": target.toolkit.tag,
        "cuda_home": str(inputs.toolchain.home),
        "resources": str(inputs.resources),
        "site_packages": str(inputs.python.site_packages),
        "version": target.recipe.version,
    }


def public_variables(environment: Mapping[str, str], inputs: BuildInputs) -> dict[str, str]:
    """The variables as the provenance states them: this machine's folders under neutral names."""
    own = [(str(inputs.home), "/cuwheel/home"), (str(inputs.toolbox), "/cuwheel/toolbox")]
    maps = [*_path_maps(inputs), *own]
    maps.sort(key=lambda pair: -len(pair[0]))
    stated = {}
    for name, value in environment.items():
        for private, public in maps:
            value = value.replace(private, public)  # noqa: PLW2901 - one after the other
        stated[name] = value
    return stated


def private_paths(target: Target, space: Workspace, inputs: BuildInputs) -> tuple[str, ...]:
    """Folders whose names must not be in the wheel; system folders say nothing about anyone."""
    folders = {
        space.work,
        space.cache,
        target.root,
        inputs.toolchain.home,
        inputs.python.python.parent.parent,
        _resolved_prefix(inputs.python),
        Path.home(),
    }
    return tuple(sorted(str(path) for path in folders if _is_private(path)))


def _is_private(folder: Path) -> bool:
    """`/usr`, `/opt` and the like say nothing about a machine; anything deeper elsewhere may."""
    shared = any(folder.is_relative_to(top) for top in ("/usr", "/opt"))
    return len(folder.parts) > 2 and not shared  # noqa: PLR2004 - the root and one name
