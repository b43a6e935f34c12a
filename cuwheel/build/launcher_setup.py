"""The compiler launcher of one build: the toolkit's view, the stand-ins, and their settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.build.compile_cache.direct_mode import direct_settings
from cuwheel.build.launcher.canary import run_canary
from cuwheel.build.launcher.toolkit_view import (
    ViewPaths,
    fingerprint_of,
    launcher_settings,
    make_launcher,
    make_view,
)
from cuwheel.build.paths import headers_moved, packages_moved, python_in
from cuwheel.cross.python_settings import headers_of
from cuwheel.errors import StageOrderError
from cuwheel.system.parallel import Stop, run_all
from cuwheel.toolchains.driver_stub import compile_driver_stub

if TYPE_CHECKING:
    from cuwheel.build.compile_cache.choice import CacheChoice
    from cuwheel.build.environment import BuildInputs
    from cuwheel.build.launcher.canary import Canary
    from cuwheel.sandbox.path_map import PathMap
    from cuwheel.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """The launcher of a build.

    Attributes:
        canary: what this toolchain and host compiler were found to do.
        fingerprint: SHA-256 of all that compiles.
        python: the interpreter that runs it, as the build sees it.
    """

    canary: Canary
    fingerprint: str
    python: Path


def set_up_launcher(
    workspace: Workspace, inputs: BuildInputs, path_map: PathMap, choice: CacheChoice
) -> Launcher:
    """Fill the folders of the toolkit's view and of the launcher.

    Args:
        workspace: its work folder gets a link to the environment's packages, its cache the canary.
        inputs: of the build; both folders are empty.
        path_map: where the build sees them.
        choice: its compile cache.

    Raises:
        StageOrderError: preflight has found no host compiler yet.
        ToolchainError: this nvcc compiles nothing.
    """
    real = _real_places(inputs)
    banner = inputs.machine.host_compiler_version
    fingerprint = fingerprint_of(inputs.toolchain.fingerprint, real.cxx, banner)
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

    def fill_view() -> None:
        stub = compile_driver_stub(inputs.toolchain.release, real.cc)
        make_view(real.view, real.toolkit, inside, fingerprint, stub)

    def fill_launcher() -> None:
        settings = {
            **launcher_settings(
                inside, real, maps=path_map.maps, flags=choice.cache.nvcc_flags(canary.flags)
            ),
            "cache": choice.cache.prefix(choice.inside(path_map)),
            **_moves(path_map, inputs, packages),
            **direct_settings(inputs, path_map, choice, fingerprint),
            "events": path_map.inside(str(inputs.events_log)),
        }
        make_launcher(real.launcher, inside, settings, real.python, fingerprint)

    run_all((fill_view, fill_launcher), Stop())  # each waits for a compiler most of its time
    return Launcher(canary=canary, fingerprint=fingerprint, python=inside.python)


def _moves(path_map: PathMap, inputs: BuildInputs, packages: Path) -> dict[str, object]:
    """Which include folders the launcher replaces, and whether folders of libraries too."""
    env = inputs.python
    moves = packages_moved(path_map, env, packages)
    if env.foreign_packages:
        moves += (headers_moved(path_map, env, headers_of(inputs.target_python)),)
    return {"moves": moves, "moves_libraries": env.foreign_packages is not None}


def _real_places(inputs: BuildInputs) -> ViewPaths:
    cc, cxx = inputs.machine.c_compiler, inputs.machine.host_compiler
    if cc is None or cxx is None:
        raise StageOrderError(
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
