"""The environment of a build: each variable stated here, nothing of the caller's let in.

All paths are this machine's; a `PathMap` gives them the names that they have in a sandbox.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.build.launcher.events import EVENTS_LOG
from cuwheel.build.link_flags import cuda_components, include_flags, link_flags
from cuwheel.cross.python_settings import python_variables
from cuwheel.cross.root_libraries import header_folder, library_folder
from cuwheel.model.link import Static
from cuwheel.model.recipe import CMake, Setuptools, TorchExtension, texts_for
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.toolchains.conda_layout import sysroot_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.records import Environment, Preflight, Toolchain


_BINUTILS = {"AR": "ar", "NM": "nm", "RANLIB": "ranlib", "STRIP": "strip", "OBJCOPY": "objcopy"}
UNPINNED = "unpinned"  # folder of the launcher's with stand-ins for programs that no lock pins


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
        view: the toolkit as the build sees it, its `CUDA_HOME`.
        launcher: the compiler launcher, with the names of the host compilers.
        events: folder of the log in which launcher and gate note what ran.
        memory: socket of what the builds of this machine share about memory.
        target_python: headers and settings of the Python of another kind of machine, which the
            wheel is for; not there where it is for this one's.
        target_libraries: what the recipe needs of that machine's system; not there where it needs
            nothing.
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
        """Where launcher and gate note what ran."""
        return self.events / EVENTS_LOG


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
        **_gate_variables(target, inputs),
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
    """Toolchain, environment, machine; of the machine no compiler where the toolchain has one.

    The launcher comes first: whoever says `gcc` or `nvcc` gets it. Of the machine's build tools
    stand-ins come before the real ones (`unpinned_programs`).
    """
    bins = [inputs.view / "bin", inputs.python.python.parent, inputs.launcher / UNPINNED]
    if inputs.toolchain.programs is None:
        return [*map(str, [inputs.launcher / "bin", *bins]), SYSTEM_PATH]
    folders = (inputs.launcher / "bin", inputs.toolchain.programs, *bins, inputs.toolbox)
    return [str(path) for path in folders]


def _compiler_variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """The compilers by absolute path.

    `-g0`: some Pythons were built with `-g` and hand it on to extensions. `LDSHARED` and
    `LDCXXSHARED`: setuptools would take the linker's options that the Python was built with,
    folders among them.
    """
    cc, cxx = (str(inputs.launcher / "bin" / name) for name in ("gcc", "g++"))
    flags = " ".join(["-O2", "-DNDEBUG", "-g0", *_root_include_flags(target, inputs)])
    home = str(inputs.view)
    link = _nvcc_link_flags(target)
    return {
        "CC": cc,
        "CXX": cxx,
        "CUDAHOSTCXX": cxx,
        "CUDA_HOME": home,
        "CUDA_PATH": home,
        "CUDACXX": f"{home}/bin/nvcc",
        "CFLAGS": flags,
        "CXXFLAGS": flags,
        "LDSHARED": f"{cc} -shared",
        "LDCXXSHARED": f"{cxx} -shared",
        "LDFLAGS": " ".join([*_linker_flags(target, home), *_root_link_flags(target, inputs)]),
        **({"NVCC_APPEND_FLAGS": " ".join(link)} if link else {}),
        **_own_tools(inputs.toolchain),
        **_foreign_variables(target, inputs),
    }


def _foreign_variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """For another kind of machine: its binutils, and what Python is told of its Python."""
    platform = target.platform
    if not platform.is_foreign:
        return {}
    tools = {name: f"{platform.triplet}-{program}" for name, program in _BINUTILS.items()}
    return {**tools, **python_variables(inputs.target_python, platform)}


def _takes_root_libraries(target: Target) -> bool:
    return target.platform.is_foreign and bool(target.system_packages)


def _root_include_flags(target: Target, inputs: BuildInputs) -> list[str]:
    """Behind the compiler's own headers, as a system's are."""
    folder = header_folder(inputs.target_libraries)
    return ["-idirafter", str(folder)] if _takes_root_libraries(target) else []


def _root_link_flags(target: Target, inputs: BuildInputs) -> list[str]:
    folder = library_folder(inputs.target_libraries)
    return [f"-L{folder}", f"-Wl,-rpath-link,{folder}"] if _takes_root_libraries(target) else []


def _nvcc_link_flags(target: Target) -> list[str]:
    """Nvcc links the runtime statically unless it is told; CMake and PyTorch tell it themselves."""
    is_plain = isinstance(target.recipe.build, Setuptools)
    kind = _cudart_kind(target)
    return [f"-cudart={kind}"] if is_plain and kind else []


def _cudart_kind(target: Target) -> str:
    """`shared` or `static`; empty where the recipe doesn't link the CUDA runtime."""
    if all(component.name != "cudart" for component in cuda_components(target)):
        return ""
    return "static" if isinstance(target.mode, Static) else "shared"


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
    return {**packages, **{name: str(programs / program) for name, program in _BINUTILS.items()}}


def _job_variables(jobs: int) -> dict[str, str]:
    """One number for all that reads one: PyTorch, CMake, make; and the gate and the launcher.

    nvcc's own threads would multiply that. The launcher gives it some, and the gate sees to it that
    no more run at once than this.
    """
    return {
        "MAX_JOBS": str(jobs),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
        "NVCC_THREADS": "1",
        "CUWHEEL_JOBS": str(jobs),
    }


def _gate_variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """What `probes/gate.py` reads."""
    return {
        "CUWHEEL_EVENTS": str(inputs.events_log),
        "CUWHEEL_MEMORY": str(inputs.memory),
        "CUWHEEL_MEMORY_PER_JOB": str(target.recipe.memory_per_job),
        "CUWHEEL_TARGET": target.recipe.name,
    }


def _backend_variables(target: Target, inputs: BuildInputs) -> dict[str, str]:
    declared = target.recipe.build
    values = _placeholders(target, inputs)
    env = texts_for(declared.env, target.toolkit.release)
    own = {name: text.format_map(values) for name, text in env.items()}
    if isinstance(declared, TorchExtension):
        return {"TORCH_CUDA_ARCH_LIST": values["torch_archs"], **own}
    if isinstance(declared, CMake):
        return {
            "CMAKE_GENERATOR": "Ninja",
            # scikit-build-core's own default holds a random name, and CMake writes files there.
            "SKBUILD_BUILD_DIR": str(inputs.tmp / "skbuild"),
            "CUDAARCHS": values["cmake_archs"],
            "CMAKE_ARGS": _cmake_arguments(target, declared, values, inputs),
            **own,
        }
    return own


def _cmake_arguments(
    target: Target, declared: CMake, values: Mapping[str, str], inputs: BuildInputs
) -> str:
    """Definitions in scikit-build-core's `CMAKE_ARGS`, with no way back to the machine's CUDA."""
    kind = _cudart_kind(target)
    own = texts_for(declared.define, target.toolkit.release)
    defined = {
        **_cmake_platform(target),
        **_cmake_root_libraries(target, inputs),
        **_cmake_compilers(inputs),
        **({"CMAKE_CUDA_RUNTIME_LIBRARY": kind.capitalize()} if kind else {}),
        "CMAKE_CUDA_ARCHITECTURES": values["cmake_archs"],
        "CMAKE_CUDA_COMPILER": f"{values['cuda_home']}/bin/nvcc",
        "CUDAToolkit_ROOT": values["cuda_home"],
        **{name: text.format_map(values) for name, text in own.items()},
    }
    return shlex.join(f"-D{name}={value}" for name, value in defined.items())


def _cmake_platform(target: Target) -> dict[str, str]:
    """That it cross-compiles, and for what; then CMake runs nothing that it has compiled.

    cmake-toolchains(7), "Cross Compiling for Linux".
    """
    platform = target.platform
    if not platform.is_foreign:
        return {}
    return {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": platform.machine}


def _cmake_root_libraries(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """Before the folders of this machine's system, in which CMake would look, too."""
    if not _takes_root_libraries(target):
        return {}
    folder = inputs.target_libraries
    return {
        "CMAKE_INCLUDE_PATH": str(header_folder(folder)),
        "CMAKE_LIBRARY_PATH": str(library_folder(folder)),
    }


def _cmake_compilers(inputs: BuildInputs) -> dict[str, str]:
    """The compilers; and of a machine whose compiler isn't used, no library or header either."""
    programs = inputs.launcher / "bin"
    compilers = {
        "CMAKE_C_COMPILER": str(programs / "gcc"),
        "CMAKE_CXX_COMPILER": str(programs / "g++"),
        "CMAKE_CUDA_HOST_COMPILER": str(programs / "g++"),
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
    """`9.0a` for 90a."""
    number = arch.rstrip("af")
    return f"{number[:-1]}.{number[-1]}{arch[len(number) :]}"
