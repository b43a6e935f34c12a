"""Compile under a compile cache as a build does, without the rest of a build."""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.build.compile_cache.backends import CompileCache, choose_cache, install_program
from cuwheel.build.compile_cache.folders import RELAY_SOCKET, CachePaths
from cuwheel.build.compile_cache.relay import Traffic, serve_relay
from cuwheel.build.compile_cache.statistics import CacheStatistics, read_statistics
from cuwheel.build.compile_cache.storage import open_storage
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import run
from tests.support.ccache_package import obtain_ccache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.build.compile_cache.remote import RemoteCache
    from cuwheel.system.process import Finished

EPOCH = 1_700_000_000
SCCACHE_FOLDER = Path(sys.executable).parent  # where the engine's sccache is


@functools.cache
def _sockets_of(_: Path) -> Path:
    """The folder for a bench's sockets, whose paths may have 107 bytes; pytest's are too deep."""
    folder = tempfile.mkdtemp(prefix="cw-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder in which things are compiled with a cache.

    Attributes:
        folder: holds it all.
        cache: what keeps the compiles.
        python: an interpreter.
        fingerprint: what the compilers are said to be.
        variables: come on top of the environment.
        with_remote: whether a relay listens.
    """

    folder: Path
    cache: CompileCache
    python: Path
    fingerprint: str = "one"
    variables: dict[str, str] = field(default_factory=dict)
    with_remote: bool = False

    @property
    def paths(self) -> CachePaths:
        return CachePaths(
            cache_folder=self.folder / "compiles",
            program_folder=self.folder / "program",
            socket_folder=_sockets_of(self.folder),
            log_folder=self.folder / "events",
        )

    def set_up(self) -> Bench:
        for name in ("compiles", "events", "home"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        install_program(self.cache, self.paths.program_folder)
        return self

    def changed(self, **changes: Any) -> Bench:
        return replace(self, **changes).set_up()

    @property
    def environment(self) -> dict[str, str]:
        own = self.cache.variables(
            self.paths, fingerprint=self.fingerprint, epoch=EPOCH, with_remote=self.with_remote
        )
        base = {"PATH": SYSTEM_PATH, "HOME": str(self.folder / "home"), "TMPDIR": str(self.folder)}
        return {**base, "SOURCE_DATE_EPOCH": str(EPOCH), **own, **self.variables}

    def run(self, words: list[str], *, check: bool = True) -> Finished:
        """Run a command with what has to be beside it."""
        supervised = self.cache.supervised(words, self.paths, self.python)
        return self.run_bare(supervised, check=check)

    def run_bare(self, words: list[str], *, check: bool = True) -> Finished:
        """Run a command with nothing beside it."""
        return run(words, env=self.environment, cwd=self.folder, check=check)

    def compile(self, source: Path, *options: str, compiler: str = "/usr/bin/g++") -> Finished:
        """Compile one file; the object lies beside it."""
        made = source.with_suffix(".o")
        made.unlink(missing_ok=True)
        prefix = self.cache.prefix(self.paths)
        return self.run([*prefix, compiler, "-O1", "-c", str(source), "-o", str(made), *options])

    def take_statistics(self) -> CacheStatistics:
        """What the cache did since the last time."""
        statistics = read_statistics(self.paths.log_folder)
        shutil.rmtree(self.paths.log_folder)
        self.paths.log_folder.mkdir()
        return statistics


@contextlib.contextmanager
def relay_to(remote: RemoteCache, bench: Bench) -> Iterator[tuple[Traffic, list[str]]]:
    """Serve a bench's relay until the block ends; gives what goes through it, and its warnings."""
    warnings: list[str] = []
    path = bench.paths.socket_folder / RELAY_SOCKET
    with serve_relay(remote, open_storage(remote), path, "tiny", warnings.append) as traffic:
        yield traffic, warnings


def cache_of(name: str, shared_cache: Path) -> CompileCache:
    """A compile cache by name; skips the test where this ccache can't be had."""
    if name == "ccache":
        return choose_cache({"CUWHEEL_CCACHE": str(obtain_ccache(shared_cache))})
    return choose_cache({"PATH": ""}, sccache_folder=SCCACHE_FOLDER)


def processes_of(bench: Bench) -> list[str]:
    """Commands of processes that were started from the bench's folder of programs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "exe").readlink().is_relative_to(bench.paths.program_folder):
                found.append((entry / "cmdline").read_text())
    return found
