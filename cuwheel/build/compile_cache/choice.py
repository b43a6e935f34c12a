"""The compile cache of one build: which, where, and what runs beside the build for it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.build.compile_cache.backends import CompileCache, choose_cache, install_program
from cuwheel.build.compile_cache.folders import (
    DEVICE_FOLDER,
    DIRECT_FOLDER,
    RELAY_SOCKET,
    CachePaths,
    why_unusable,
)
from cuwheel.build.compile_cache.relay import serve_relay
from cuwheel.build.compile_cache.remote import parse_remote_cache
from cuwheel.build.compile_cache.room import remove_oldest
from cuwheel.errors import CuwheelError, UsageError
from cuwheel.paths import given_path
from cuwheel.workspace.problems import Problem, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cuwheel.build.compile_cache.remote import RemoteCache
    from cuwheel.sandbox.path_map import PathMap
    from cuwheel.workspace.job import BuildSettings, Job
    from cuwheel.workspace.workspace import Workspace


FOLDER_VARIABLE = "CUWHEEL_COMPILE_CACHE"
DIRECT_VARIABLE = "CUWHEEL_DIRECT_MODE"
# Of the size that the compile cache may have, one part in so many comes on top for direct mode, and
# one for device code.
_SHARE = 4
_SAYS = {"": True, "on": True, "off": False}  # what the variable may say


@dataclass(frozen=True, kw_only=True)
class CacheChoice:
    """What a build has for a compile cache.

    Attributes:
        cache: the program; one without name where there is none.
        paths: its folders on this machine.
        remote: the cache behind it; None where there is none.
        has_direct_mode: the launcher keeps objects itself, before the cache is asked.
        package: whose compiles these are: nobody else's builds see them.
    """

    cache: CompileCache
    paths: CachePaths
    remote: RemoteCache | None
    has_direct_mode: bool = True
    package: str = ""

    def tidy_up(self) -> None:
        """Keep all packages' compiles within what they may fill, behind a build."""
        folder, size = self.paths.cache_folder, self.cache.size
        for own in (DIRECT_FOLDER, DEVICE_FOLDER):
            remove_oldest(folder / own, size // _SHARE)
        if self.package:
            remove_oldest(folder.parent, size + 2 * (size // _SHARE))

    def inside(self, path_map: PathMap) -> CachePaths:
        """Its folders as the build sees them."""
        return CachePaths(
            cache_folder=Path(path_map.inside(str(self.paths.cache_folder))),
            program_folder=Path(path_map.inside(str(self.paths.program_folder))),
            socket_folder=Path(path_map.inside(str(self.paths.socket_folder))),
            log_folder=Path(path_map.inside(str(self.paths.log_folder))),
        )


def check_compile_cache(job: Job) -> list[Problem]:
    """See that what the environment says of the compile cache can be done."""
    try:
        _choose(job.settings, os.environ)
        _has_direct_mode(os.environ)
    except CuwheelError as error:
        return [problem_of(error)]
    return []


def choose_compile_cache(job: Job, sockets: Path, environ: Mapping[str, str]) -> CacheChoice:
    """The compile cache of a build, with its program in the work folder.

    One that can't be written costs a warning, and the build its hits.

    Args:
        job: of the build.
        sockets: its folder for sockets.
        environ: the caller's variables.

    Raises:
        UsageError: they ask for what can't be done.
    """
    workspace = job.workspace
    cache, remote = _choose(job.settings, environ)
    package = job.target.recipe.name
    cache_folder = compile_cache_folder(workspace, environ) / package
    if cache.name and (problem := why_unusable(cache_folder)):
        workspace.console.warn(
            f"the compile cache {cache_folder} can't be used, so everything is compiled: {problem}"
        )
        cache, remote = CompileCache(), None
    paths = CachePaths(
        cache_folder=cache_folder,
        program_folder=workspace.folder("cache"),
        socket_folder=sockets,
        log_folder=workspace.folder("events"),
    )
    install_program(cache, paths.program_folder)
    has_direct_mode = _has_direct_mode(environ)
    return CacheChoice(
        cache=cache,
        paths=paths,
        remote=remote,
        has_direct_mode=has_direct_mode,
        package=package,
    )


def compile_cache_folder(workspace: Workspace, environ: Mapping[str, str]) -> Path:
    """Where compiles are kept, of each package in a folder of its own; all builds may share it."""
    named = environ.get(FOLDER_VARIABLE)
    return given_path(named) if named else workspace.cache / "compiles"


@contextlib.contextmanager
def serve_remote_cache(choice: CacheChoice, workspace: Workspace) -> Iterator[None]:
    """Keep the way to the remote cache open until the block ends."""
    if choice.remote is None:
        yield
        return
    path = choice.paths.socket_folder / RELAY_SOCKET
    # Two large libraries, for those who have a remote cache.
    from cuwheel.build.compile_cache.storage import open_storage  # noqa: PLC0415

    storage = open_storage(choice.remote)
    with serve_relay(choice.remote, storage, path, choice.package, workspace.console.warn):
        yield


def _has_direct_mode(environ: Mapping[str, str]) -> bool:
    said = environ.get(DIRECT_VARIABLE, "")
    if said not in _SAYS:
        raise UsageError(
            f"{DIRECT_VARIABLE} has to be on or off, not {said}",
            why="it controls whether objects are reused without a call of the compile cache",
            fix=f"unset it (the default is on), or set {DIRECT_VARIABLE}=off",
        )
    return _SAYS[said]


def _choose(
    settings: BuildSettings, environ: Mapping[str, str]
) -> tuple[CompileCache, RemoteCache | None]:
    remote = parse_remote_cache(environ)
    if not settings.reuse:
        return CompileCache(), None
    return choose_cache(environ, with_remote=remote is not None), remote
