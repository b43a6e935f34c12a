"""Compile under a compile cache as a build does, without the rest of a build."""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.process import Finished, run
from cuwheel.build.compile.cache.compile_cache import CacheProgram, CompileCache, choose_program
from cuwheel.build.compile.cache.relay import Relay, serve_relay
from cuwheel.build.compile.cache.remote import RemoteCache, parse_remote_cache
from cuwheel.build.compile.cache.statistics import read_statistics
from cuwheel.build.compile.cache.storage import open_storage
from cuwheel.build.sandbox.unix_server import RELAY_SOCKET
from tests.support.packages.ccache import obtain_ccache

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
        program: what keeps the compiles.
        python: an interpreter.
        fingerprint: what the compilers are said to be.
        variables: come on top of the environment.
        with_remote: whether a relay listens.
    """

    folder: Path
    program: CacheProgram
    python: Path
    fingerprint: str = "one"
    variables: dict[str, str] = field(default_factory=dict)
    with_remote: bool = False

    @property
    def cache(self) -> CompileCache:
        """The cache; its remote one is behind the relay, wherever that leads."""
        address = {"CUWHEEL_REMOTE_CACHE": "file:/somewhere" if self.with_remote else ""}
        return CompileCache(
            program=self.program,
            remote=parse_remote_cache(address),
            folder=self.folder / "compiles",
            program_folder=self.folder / "program",
            socket_folder=_sockets_of(self.folder),
            log_folder=self.folder / "events",
        )

    def set_up(self) -> Bench:
        for name in ("compiles", "events", "home"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.cache.install()
        return self

    def changed(self, **changes: Any) -> Bench:
        return replace(self, **changes).set_up()

    @property
    def environment(self) -> dict[str, str]:
        own = self.cache.variables(fingerprint=self.fingerprint, epoch=EPOCH)
        base = {"PATH": SYSTEM_PATH, "HOME": str(self.folder / "home"), "TMPDIR": str(self.folder)}
        return {**base, "SOURCE_DATE_EPOCH": str(EPOCH), **own, **self.variables}

    def run(self, words: list[str], *, check: bool = True) -> Finished:
        """Run a command with what has to be beside it."""
        return self.run_bare(self.cache.supervised(words, self.python), check=check)

    def run_bare(self, words: list[str], *, check: bool = True) -> Finished:
        """Run a command with nothing beside it."""
        return run(words, env=self.environment, cwd=self.folder, check=check)

    def compile(self, source: Path, *options: str, compiler: str = "/usr/bin/g++") -> Finished:
        """Compile one file; the object lies beside it."""
        output = source.with_suffix(".o")
        output.unlink(missing_ok=True)
        return self.run(
            [*self.cache.prefix, compiler, "-O1", "-c", str(source), "-o", str(output), *options]
        )

    def take_statistics(self) -> Counter[str]:
        """What the cache did since the last time."""
        statistics = read_statistics(self.cache.log_folder)
        shutil.rmtree(self.cache.log_folder)
        self.cache.log_folder.mkdir()
        return statistics


@contextlib.contextmanager
def relay_to(remote: RemoteCache, bench: Bench) -> Iterator[tuple[Relay, list[str]]]:
    """Serve a bench's relay until the block ends; gives what goes through it, and its warnings."""
    warnings: list[str] = []
    path = bench.cache.socket_folder / RELAY_SOCKET
    with serve_relay(remote, open_storage(remote), path, "tiny", warnings.append) as relay:
        yield relay, warnings


def cache_of(name: str, shared_cache: Path) -> CacheProgram:
    """A compile cache by name; skips the test where this ccache can't be had."""
    if name == "ccache":
        return choose_program({"CUWHEEL_CCACHE": str(obtain_ccache(shared_cache))})
    return choose_program({"PATH": ""}, sccache_folder=SCCACHE_FOLDER)


def processes_of(bench: Bench) -> list[str]:
    """Commands of processes that were started from the bench's folder of programs."""
    commands = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "exe").readlink().is_relative_to(bench.cache.program_folder):
                commands.append((entry / "cmdline").read_text())
    return commands
