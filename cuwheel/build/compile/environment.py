"""The environment of a build: each variable is set here, and none of the caller's gets in.

All paths are this machine's; a `PathMap` replaces them by the names that they have in a sandbox.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.build.compile.events import EVENTS_LOG
from cuwheel.build.compile.launcher import standin
from cuwheel.build.compile.link_flags import cuda_components, include_flags, link_flags
from cuwheel.build.recipe.link import Static
from cuwheel.build.recipe.recipe import CMake, Setuptools, TorchExtension, texts_for
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.cross.root_libraries import HEADERS, LIBRARIES
from cuwheel.build.toolchains.cross.target_root import python_variables
from cuwheel.build.workspace.records import Environment, Preflight, Toolchain

_BINUTILS = {"AR": "ar", "NM": "nm", "RANLIB": "ranlib", "STRIP": "strip", "OBJCOPY": "objcopy"}
UNPINNED = "unpinned"  # folder of the launcher's with stand-ins for programs that no lock pins


@dataclass(frozen=True, kw_only=True)
class BuildInputs:
    """The results of the earlier stages, and the folders of this build.

    Attributes:
        epoch: `SOURCE_DATE_EPOCH`, seconds since 1970.
        view: the toolkit as the build sees it, its `CUDA_HOME`.
        target_python: headers and settings of the Python of another kind of machine, which the
            wheel is for; not there where it is for this one's.
        target_libraries: the recipe's packages of that machine's system; not there where it needs
            none.
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
    view: Path
    launcher: Path
    events: Path
    memory: Path
    target_python: Path
    target_libraries: Path

    @property
    def events_log(self) -> Path:
        """File in which launcher and gate log what ran."""
        return self.events / EVENTS_LOG

    @property
    def commands_log(self) -> Path:
        """File in which the launcher lists the compiles of a dry run."""
        return self.events / "commands.jsonl"

    @property
    def called_log(self) -> Path:
        """File in which programs of a dry run without content note that the build ran them."""
        return self.events / standin.CALLED

    @property
    def build_folders(self) -> tuple[Path, ...]:
        """Folders outside of the source in which CMake builds: by its backend, and before it."""
        return self.tmp / "skbuild", self.tmp / "cmake"


def variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """Return all variables of the build."""
    jobs = str(inputs.machine.jobs)
    return {
        "PATH": _search_path(inputs),
        "HOME": str(inputs.home),
        "TMPDIR": str(inputs.tmp),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(inputs.epoch),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "TORCH_NO_COMPILER_WRAPPER": "1",  # PyTorch would put a ccache it finds before nvcc
        "NO_COLOR": "1",
        **_compiler_variables(target, inputs),
        # One number for all that read one: PyTorch, CMake, make; and the launcher. nvcc's own
        # threads would multiply it: the launcher gives it some, and the gate limits what runs at
        # once.
        "MAX_JOBS": jobs,
        "CMAKE_BUILD_PARALLEL_LEVEL": jobs,
        "NVCC_THREADS": "1",
        "CUWHEEL_JOBS": jobs,
        # For `memory_gate/gate.py`
        "CUWHEEL_EVENTS": str(inputs.events_log),
        "CUWHEEL_MEMORY": str(inputs.memory),
        **_backend_variables(target, inputs),
    }


def _search_path(inputs: BuildInputs) -> str:
    """Return toolchain, environment, machine; no compiler of it where the toolchain has one.

    The launcher comes first: it is found for `gcc` and `nvcc`. Before the machine's build tools
    come scripts that replace those that no lock pins (`unpinned_programs`).
    """
    folders = [inputs.view / "bin", inputs.python.python.parent, inputs.launcher / UNPINNED]
    if inputs.toolchain.programs:
        folders = [inputs.toolchain.programs, *folders, inputs.toolbox]
    last = () if inputs.toolchain.programs else (SYSTEM_PATH,)
    return os.pathsep.join([str(inputs.launcher / "bin"), *map(str, folders), *last])


def _compiler_variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """Return the compilers by absolute path, their flags and their tools.

    `-g0`: some Pythons were built with `-g` and pass it on to extensions. `LDSHARED` and
    `LDCXXSHARED`: setuptools would take the linker's options that the Python was built with,
    folders among them.
    """
    cc, cxx = (str(inputs.launcher / "bin" / name) for name in ("gcc", "g++"))
    flags = ["-O2", "-DNDEBUG", "-g0"]
    home = str(inputs.view)
    link = [f"-L{home}/lib64", f"-L{home}/lib64/stubs"]
    if target.recipe.libstdcxx == "static":
        link += ["-static-libstdc++", "-static-libgcc"]
    if folder := _root_libraries(target, inputs):
        # Behind the compiler's own headers, as a system's are.
        flags += ["-idirafter", str(folder / HEADERS)]
        link += [f"-L{folder / LIBRARIES}", f"-Wl,-rpath-link,{folder / LIBRARIES}"]
    kind, platform = _cudart_kind(target), target.platform
    # nvcc links the runtime statically by default; CMake and PyTorch pass the option themselves.
    is_plain = isinstance(target.recipe.build, Setuptools)
    own: dict[str, str] = {}
    if programs := inputs.toolchain.programs:
        # For makefiles and setup.py files; CMake queries the compiler.
        own = {name: str(programs / program) for name, program in _BINUTILS.items()}
        of_compiler = inputs.toolchain.libraries if inputs.toolchain.compiler else None
        own["PKG_CONFIG_LIBDIR"] = str((of_compiler or inputs.toolchain.home / "lib") / "pkgconfig")
    if platform.is_foreign:
        own |= {name: f"{platform.triplet}-{program}" for name, program in _BINUTILS.items()}
        own |= python_variables(inputs.target_python, platform)
    return {
        "CC": cc,
        "CXX": cxx,
        "CUDAHOSTCXX": cxx,
        "CUDA_HOME": home,
        "CUDA_PATH": home,
        "CUDACXX": f"{home}/bin/nvcc",
        "CFLAGS": " ".join(flags),
        "CXXFLAGS": " ".join(flags),
        "LDSHARED": f"{cc} -shared",
        "LDCXXSHARED": f"{cxx} -shared",
        "LDFLAGS": " ".join(link),
        **({"NVCC_APPEND_FLAGS": f"-cudart={kind}"} if is_plain and kind else {}),
        **own,
    }


def _root_libraries(target: Target, inputs: BuildInputs) -> Path | None:
    """Return the folder of another machine's libraries, where the target needs some."""
    is_needed = target.platform.is_foreign and target.system_packages
    return inputs.target_libraries if is_needed else None


def _cudart_kind(target: Target) -> str:
    """Return `shared` or `static`; empty where the recipe doesn't link the CUDA runtime."""
    if all(component.name != "cudart" for component in cuda_components(target)):
        return ""
    return "static" if isinstance(target.mode, Static) else "shared"


def _backend_variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    declared = target.recipe.build
    values = _placeholders(target, inputs)
    own: dict[str, str] = {}
    if isinstance(declared, TorchExtension):
        own = {"TORCH_CUDA_ARCH_LIST": values["torch_archs"]}
    if isinstance(declared, CMake):
        definitions = _cmake_definitions(target, declared, values, inputs)
        own = {
            "CMAKE_GENERATOR": "Ninja",
            # scikit-build-core's own default holds a random name, and CMake writes files there.
            "SKBUILD_BUILD_DIR": str(inputs.build_folders[0]),
            "CUDAARCHS": values["cmake_archs"],
            "CMAKE_ARGS": shlex.join(f"-D{name}={value}" for name, value in definitions.items()),
        }
    env = texts_for(declared.env, target.toolkit.release)
    return {**own, **{name: text.format_map(values) for name, text in env.items()}}


def _cmake_definitions(
    target: Target, declared: CMake, values: Mapping[str, str], inputs: BuildInputs
) -> dict[str, str]:
    """Return definitions for scikit-build-core's `CMAKE_ARGS`, without the machine's CUDA.

    In a cross build CMake runs nothing that it has compiled (cmake-toolchains(7), "Cross Compiling
    for Linux"). Its libraries come before the folders of this machine's system, in which CMake
    would look, too. With a toolchain's own compilers no library or header of the machine is found.
    """
    platform, programs = target.platform, inputs.launcher / "bin"
    defined: dict[str, str] = {}
    if platform.is_foreign:
        defined |= {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": platform.machine}
    if folder := _root_libraries(target, inputs):
        defined["CMAKE_INCLUDE_PATH"] = str(folder / HEADERS)
        defined["CMAKE_LIBRARY_PATH"] = str(folder / LIBRARIES)
    defined |= {
        "CMAKE_C_COMPILER": str(programs / "gcc"),
        "CMAKE_CXX_COMPILER": str(programs / "g++"),
        "CMAKE_CUDA_HOST_COMPILER": str(programs / "g++"),
    }
    if inputs.toolchain.programs:
        defined["CMAKE_FIND_USE_CMAKE_SYSTEM_PATH"] = "OFF"
        # Not CMAKE_PREFIX_PATH: scikit-build-core has one of its own, for packages in the
        # environment that bring CMake files.
        defined["CMAKE_LIBRARY_PATH"] = str(inputs.toolchain.libraries)
        if compiler := inputs.toolchain.compiler:
            defined["CMAKE_INCLUDE_PATH"] = str(compiler / "root" / "usr" / "include")
    if kind := _cudart_kind(target):
        defined["CMAKE_CUDA_RUNTIME_LIBRARY"] = kind.capitalize()
    definitions = texts_for(declared.define, target.toolkit.release)
    return {
        **defined,
        "CMAKE_CUDA_ARCHITECTURES": values["cmake_archs"],
        "CMAKE_CUDA_COMPILER": f"{values['cuda_home']}/bin/nvcc",
        "CUDAToolkit_ROOT": values["cuda_home"],
        **{name: text.format_map(values) for name, text in definitions.items()},
    }


def _placeholders(target: Target, inputs: BuildInputs) -> dict[str, str]:
    ptx = set(target.ptx_archs)
    folders = (inputs.toolchain.home, inputs.python.linked_packages)
    dotted = [f"{dotted_arch(arch)}{'+PTX' if arch in ptx else ''}" for arch in target.archs]
    gencode = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in target.archs]
    gencode += [f"-gencode=arch=compute_{arch},code=compute_{arch}" for arch in target.ptx_archs]
    cmake = [f"{arch}{'' if arch in ptx else '-real'}" for arch in target.archs]
    return {
        "archs": ";".join(target.archs),
        "cmake_archs": ";".join(cmake),
        "torch_archs": ";".join(dotted),
        "gencode": " ".join(gencode),
        "jobs": str(inputs.machine.jobs),
        "link_flags": " ".join(link_flags(target, *folders, inputs.view / "lib64" / "stubs")),
        "link_includes": " ".join(include_flags(target, *folders)),
        "toolkit": target.toolkit.release,
        "toolkit_tag": target.toolkit.tag,
        "cuda_home": str(inputs.view),
        "resources": str(inputs.resources),
        "site_packages": str(inputs.python.linked_packages),
        "version": target.recipe.version,
    }


def dotted_arch(arch: str) -> str:
    """Return `9.0a` for 90a."""
    number = arch.rstrip("af")
    return f"{number[:-1]}.{number[-1]}{arch[len(number) :]}"
