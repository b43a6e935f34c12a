"""Setup of the compiler launcher of one build: the toolkit's view, the scripts, their settings."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import UsageError
from cuwheel.base.system.parallel import Stop, run_all
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.compile.build_mounts import headers_moved, packages_moved, python_in
from cuwheel.build.compile.cache.compile_cache import (
    DEVICE_FOLDER,
    INPUTS_FOLDER,
    CompileCache,
)
from cuwheel.build.compile.cache.direct_settings import direct_settings
from cuwheel.build.compile.canary import Canary, run_canary
from cuwheel.build.compile.environment import BuildInputs
from cuwheel.build.compile.launcher import own_archs, standin
from cuwheel.build.compile.toolkit_view import ToolkitView, ViewPaths, fingerprint_of
from cuwheel.build.recipe.platform import Platform
from cuwheel.build.sandbox.path_map import PathMap
from cuwheel.build.toolchains.cross.target_root import HEADERS
from cuwheel.build.toolchains.driver_stub import compile_driver_stub
from cuwheel.build.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """The launcher of a build; `fingerprint` is SHA-256 of all that compiles."""

    canary: Canary
    fingerprint: str
    python: Path


def set_up_launcher(
    workspace: Workspace,
    inputs: BuildInputs,
    path_map: PathMap,
    cache: CompileCache,
    standard: str = "",
) -> Launcher:
    """Fill the folders of the toolkit's view and of the launcher.

    Args:
        workspace: its work folder gets a link to the environment's packages, its cache the canary.
        inputs: of the build; both folders are empty.
        standard: the oldest C++ standard of a compile, `20`; empty: any.

    Raises:
        UsageError: preflight has found no host compiler yet.
        ToolchainError: this nvcc compiles nothing.
    """
    real = _real_paths(inputs)
    banner = inputs.machine.host_compiler_version
    # The programs of a pinned compiler hold the path of their loader: its packages identify it.
    is_known = inputs.toolchain.compiler is not None
    identified = inputs.toolchain.fingerprint
    fingerprint = identified if is_known else fingerprint_of(identified, real.cxx, banner)
    canary = run_canary(real, fingerprint, workspace.cache)
    inside = ViewPaths(
        view=Path(path_map.inside(str(real.view))),
        launcher=Path(path_map.inside(str(real.launcher))),
        toolkit=Path(path_map.inside(str(real.toolkit))),
        python=python_in(path_map, inputs.python),
        cc=Path(path_map.inside(str(real.cc))),
        cxx=Path(path_map.inside(str(real.cxx))),
    )
    packages = workspace.work / "packages"
    packages.unlink(missing_ok=True)
    packages.symlink_to(inputs.python.linked_packages)
    env = inputs.python
    moves = packages_moved(path_map, env, packages)
    if env.foreign_packages:
        moves += (headers_moved(path_map, env, inputs.target_python / HEADERS),)

    view = ToolkitView(real=real, inside=inside, fingerprint=fingerprint)

    def fill_view() -> None:
        view.make(compile_driver_stub(inputs.toolchain.release, real.cc))

    def fill_launcher() -> None:
        flags = cache.program.nvcc_flags(canary.flags)
        settings = {
            **view.settings(maps=path_map.maps, flags=flags),
            "cache": tuple(map(path_map.inside, cache.prefix)),
            "moves": moves,
            "moves_libraries": env.foreign_packages is not None,
            **direct_settings(inputs, path_map, cache, fingerprint),
            **_explained(inputs, path_map, cache, fingerprint),
            "standard": standard,
            "events": path_map.inside(str(inputs.events_log)),
        }
        view.make_launcher(settings)

    run_all((fill_view, fill_launcher), Stop())  # each waits for a compiler most of its time
    return Launcher(canary=canary, fingerprint=fingerprint, python=inside.python)


def _explained(
    inputs: BuildInputs, path_map: PathMap, cache: CompileCache, fingerprint: str
) -> dict[str, object]:
    """Return those attributes of the launcher's settings that `kept_inputs` reads."""
    if not cache.program.name:
        return {}
    made_of = (
        ("compiler", "of host or device code", fingerprint),
        ("Python", inputs.python.base_version, ""),
        ("packages", "of the build environment", inputs.python.fingerprint),
    )
    return {"inputs": path_map.inside(str(cache.folder / INPUTS_FOLDER)), "made_of": made_of}


def listing_variables(inputs: BuildInputs, path_map: PathMap) -> dict[str, str]:
    """Return the variables with which the launcher lists compiles (`launcher/standin.py`)."""
    folders = (inputs.tree, *inputs.build_folders)
    return {
        standin.COMMANDS: path_map.inside(str(inputs.commands_log)),
        standin.TREE: ":".join(path_map.inside(str(folder)) for folder in folders),
        standin.REAL: path_map.inside(str(inputs.events / "real")),
    }


def share_variables(archs: Iterable[str]) -> tuple[str, ...]:
    """Return the variables with which the launcher makes device code for some archs, and no object.

    Args:
        archs: none: the launcher makes the object.
    """
    text = " ".join(archs)
    return (f"{own_archs.VARIABLE}={text}",) if text else ()


@contextlib.contextmanager
def links_listed(inputs: BuildInputs, path_map: PathMap) -> Iterator[None]:
    """Have the launcher see links by the gated compilers until the block ends, for a dry run.

    CMake links CUDA's programs with nvcc's host compiler, which is a gated one. A compile cache
    takes the text of these scripts for the compiler, so compiles have to see the usual one.
    """
    folder = inputs.launcher / "gated"
    usual = {path: read_text(path) for path in folder.iterdir()}
    for path, text in usual.items():
        program = shlex.quote(path_map.inside(str(inputs.launcher / "bin" / path.name)))
        start, rest = text.split("\n", 1)
        path.write_text("\n".join((start, standin.LISTED_LINK.format(program=program), rest)))
    try:
        yield
    finally:
        for path, text in usual.items():
            path.write_text(text)


def device_code_variables(
    cache: CompileCache, path_map: PathMap, canary: Canary, platform: Platform
) -> dict[str, str]:
    """Return the variables of `launcher/device_code.py`; none where nothing can be shared."""
    if not cache.program.name or not canary.device_tools:
        return {}
    return {
        "CUWHEEL_DEVICE_CODE": path_map.inside(str(cache.folder / DEVICE_FOLDER)),
        "CUWHEEL_DEVICE_TOOLS": canary.device_tools,
        "CUWHEEL_PLATFORM": platform.name,
    }


def _real_paths(inputs: BuildInputs) -> ViewPaths:
    cc, cxx = inputs.machine.c_compiler, inputs.machine.host_compiler
    if cc is None or cxx is None:
        raise UsageError(
            "preflight ran before the compiler was there",
            why="this toolchain brings its own compiler, and it wasn't installed yet",
            fix="run the stages toolchain and preflight first, in this order",
        )
    return ViewPaths(
        view=inputs.view,
        launcher=inputs.launcher,
        toolkit=inputs.toolchain.home,
        python=inputs.python.base_python.resolve(),
        cc=cc,
        cxx=cxx,
    )
