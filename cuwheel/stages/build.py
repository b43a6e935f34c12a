"""Stage build: the package's own build, in an environment of which every variable is ours."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel import machine
from cuwheel.artefacts import BuiltWheel, Environment, Preflight, SourceTree, Toolchain
from cuwheel.compilers import SYSTEM_PATH
from cuwheel.errors import BuildFailedError
from cuwheel.files import disk_full, naming_full_disk, remove_tree, says_disk_full
from cuwheel.process import isolation, run
from cuwheel.recipe import CMake, TorchExtension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.console import Live
    from cuwheel.target import Target
    from cuwheel.workspace import Workspace

_STEP = re.compile(r"\[(\d+)/(\d+)\]")  # ninja's default status, `[3/47] Building …`
_MIB = 1 << 20
_CRAMPED = 4 * _MIB  # bytes; a build that fails with less left on its disk failed for that


@dataclass(frozen=True, kw_only=True)
class _Inputs:
    """What the earlier stages left, and the folders that this build may write to."""

    tree: Path
    epoch: int
    toolchain: Toolchain
    python: Environment
    machine: Preflight
    home: Path
    tmp: Path


def build(target: Target, space: Workspace) -> BuiltWheel:
    """Run `python -m build --wheel --no-isolation` on a copy of the patched source.

    Nothing of the caller's environment gets in, and no network where the system can cut it off.

    Raises:
        BuildFailedError: the build failed; its log and the work folder are kept.
        DiskFullError: it failed because a disk ran full.
    """
    inputs = _prepare(target, space)
    log, out = space.log("build"), space.folder("built")
    log.unlink(missing_ok=True)
    environment = _environment(target, inputs)
    command: list[str | Path] = [
        *isolation(),
        inputs.python.python,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
    ]
    started = time.time()
    old_umask = os.umask(0o022)
    try:
        with space.console.live("building") as line, naming_full_disk(space.work):
            finished = run(
                [*command, "--outdir", out, inputs.tree],
                env=environment,
                # Not the tree: Python would take a build.py of the package for the frontend.
                cwd=inputs.tmp,
                log=log,
                on_line=_Progress(line, inputs.machine.jobs).see,
                error=BuildFailedError,
                what=f"{target.id}: the package's own build failed",
                fix=f"read the log from its first error on; the source is in {inputs.tree}",
            )
    except BuildFailedError as error:
        if _was_disk_full(space.work, log):
            raise disk_full(space.work) from error
        raise
    finally:
        os.umask(old_umask)
    return BuiltWheel(
        path=_only_wheel(out, target, log),
        log=log,
        peak_memory=finished.peak_memory,
        environment=tuple(sorted(_public(environment, inputs).items())),
        private_paths=_private_paths(target, space, inputs),
        not_hermetic=_not_hermetic(target, inputs),
        started=started,
    )


def _was_disk_full(work: Path, log: Path) -> bool:
    """Whether the build failed for want of space; nvcc, for one, doesn't say so."""
    if machine.free_disk(work) < _CRAMPED:
        return True
    with log.open(errors="replace") as lines:
        return says_disk_full(lines)


def _prepare(target: Target, space: Workspace) -> _Inputs:
    """Copy the patched source, so that a build that was cut off never shows in the next one."""
    patched = space.load("patch", SourceTree)
    for name in ("tree", "built", "home", "tmp"):
        remove_tree(space.work / name)
    tree = space.work / "tree" / target.recipe.folder
    with naming_full_disk(space.work):
        shutil.copytree(patched.path, tree, symlinks=True)
    return _Inputs(
        tree=tree,
        epoch=patched.epoch,
        toolchain=space.load("toolchain", Toolchain),
        python=space.load("environment", Environment),
        machine=space.load("preflight", Preflight),
        home=space.folder("home"),
        tmp=space.folder("tmp"),
    )


def _environment(target: Target, inputs: _Inputs) -> dict[str, str]:
    """All variables of the build; nothing else of the caller's gets in."""
    common = {
        **_base_variables(inputs),
        **_compiler_variables(inputs),
        **_job_variables(inputs.machine.jobs),
    }
    return {**common, **_backend_variables(target, inputs)}


def _base_variables(inputs: _Inputs) -> dict[str, str]:
    bins = (inputs.toolchain.home / "bin", inputs.python.python.parent)
    return {
        "PATH": os.pathsep.join([*map(str, bins), SYSTEM_PATH]),
        "HOME": str(inputs.home),
        "TMPDIR": str(inputs.tmp),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(inputs.epoch),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "NO_COLOR": "1",
    }


def _compiler_variables(inputs: _Inputs) -> dict[str, str]:
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
        "LDFLAGS": f"-L{home}/lib64",
        "NVCC_APPEND_FLAGS": "-Xcompiler " + ",".join(maps),
    }


def _path_maps(inputs: _Inputs) -> list[tuple[str, str]]:
    """Private folders and the names that `__FILE__` gets instead; GCC takes the last match."""
    pythons = {inputs.python.base_python.parent.parent, _resolved_prefix(inputs.python)}
    return [
        *((str(path), "/cuwheel/python") for path in sorted(pythons) if _is_private(path)),
        (str(inputs.toolchain.home), "/cuwheel/cuda"),
        (str(inputs.python.python.parent.parent), "/cuwheel/environment"),
        (str(inputs.tmp), "/cuwheel/tmp"),
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


def _backend_variables(target: Target, inputs: _Inputs) -> dict[str, str]:
    declared = target.recipe.build
    values = _placeholders(target, inputs)
    own = {name: text.format_map(values) for name, text in declared.env.items()}
    if isinstance(declared, TorchExtension):
        return {"TORCH_CUDA_ARCH_LIST": values["torch_archs"], **own}
    if isinstance(declared, CMake):
        return {
            "CMAKE_GENERATOR": "Ninja",
            "CUDAARCHS": values["cmake_archs"],
            "CMAKE_ARGS": _cmake_arguments(declared, values),
            **own,
        }
    return own


def _cmake_arguments(declared: CMake, values: Mapping[str, str]) -> str:
    """Definitions in scikit-build-core's `CMAKE_ARGS`, with no way back to the machine's CUDA."""
    defined = {
        "CMAKE_CUDA_ARCHITECTURES": values["cmake_archs"],
        "CMAKE_CUDA_COMPILER": f"{values['cuda_home']}/bin/nvcc",
        "CUDAToolkit_ROOT": values["cuda_home"],
        **{name: text.format_map(values) for name, text in declared.define.items()},
    }
    return shlex.join(f"-D{name}={value}" for name, value in defined.items())


def _placeholders(target: Target, inputs: _Inputs) -> dict[str, str]:
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
        "version": target.recipe.version,
    }


class _Progress:
    """Turns the build's output into one line: steps, time left, jobs, memory."""

    def __init__(self, line: Live, jobs: int) -> None:
        self._line = line
        self._jobs = jobs
        self._started = time.monotonic()
        self._step = ""
        self._whole = 0.0  # seconds that all steps take, guessed from those that are done

    def see(self, text: str, memory: int) -> None:
        """Take one line of output, and the bytes of memory in use."""
        spent = time.monotonic() - self._started
        found = _STEP.search(text)
        if found:
            done, total = int(found[1]), int(found[2])
            self._step = f"step {done}/{total}, "
            self._whole = spent / done * total if done else 0.0
        # One long step at the end can outlast the guess: better no time than a wrong one.
        left = f"about {_clock(self._whole - spent)} left, " if self._whole > spent else ""
        self._line.show(
            f"{self._step}{left}{_clock(spent)} so far, {self._jobs} jobs, {memory // _MIB} MiB"
        )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _only_wheel(out: Path, target: Target, log: Path) -> Path:
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) == 1:
        return wheels[0]
    raise BuildFailedError(
        f"{target.id}: the build left {len(wheels)} wheels, not one",
        command=(),
        status=0,
        log=log,
        tail=[wheel.name for wheel in wheels],
        why="cuwheel publishes one wheel for each target",
        fix="look into the log; the package's build may have stopped early",
    )


def _public(environment: Mapping[str, str], inputs: _Inputs) -> dict[str, str]:
    """The variables as the provenance states them: this machine's folders under neutral names."""
    maps = [*_path_maps(inputs), (str(inputs.home), "/cuwheel/home")]
    maps.sort(key=lambda pair: -len(pair[0]))
    stated = {}
    for name, value in environment.items():
        for private, public in maps:
            value = value.replace(private, public)  # noqa: PLW2901 - one after the other
        stated[name] = value
    return stated


def _private_paths(target: Target, space: Workspace, inputs: _Inputs) -> tuple[str, ...]:
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


def _not_hermetic(target: Target, inputs: _Inputs) -> tuple[str, ...]:
    facts = [f"the host compiler comes from the machine: {inputs.machine.host_compiler_version}"]
    if not isolation():
        facts.append("the build could reach the network: this system refuses network namespaces")
    if not inputs.toolchain.pinned:
        facts.append(f"the CUDA toolkit comes from the machine: {inputs.toolchain.version}")
    if target.source_override:
        facts.append("the source was given with --source")
    return tuple(facts)
