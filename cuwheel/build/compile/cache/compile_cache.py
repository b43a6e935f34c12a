"""The compile cache of a build: ccache where the machine has a new one, else sccache.

Neither reads a configuration file or a variable of the caller's; all settings come from here.
Pitfalls: docs/adr/0016.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cuwheel.base.errors import PreflightError, UsageError
from cuwheel.base.paths import script
from cuwheel.base.system.compilers import SYSTEM_PATH, output_of
from cuwheel.base.system.process import which
from cuwheel.base.system.quantities import read_size
from cuwheel.build.compile.cache.remote import RemoteCache, parse_remote_cache
from cuwheel.build.compile.cache.room import remove_oldest
from cuwheel.build.compile.cache.statistics import CCACHE_LOG
from cuwheel.build.sandbox.unix_server import RELAY_SOCKET, SCCACHE_SOCKET
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.workspace import Workspace

FOLDER_VARIABLE = "CUWHEEL_COMPILE_CACHE"
DIRECT_VARIABLE = "CUWHEEL_DIRECT_MODE"
_PROGRAM_VARIABLE = "CUWHEEL_CCACHE"
_SIZE_VARIABLE = "CUWHEEL_COMPILE_CACHE_SIZE"
_SWITCH = {"": True, "on": True, "off": False}
_DEFAULT_SIZE = 10 << 30  # bytes
# Of the size that the compile cache may have, one part in so many comes on top for direct mode, and
# one for device code: folders next to those of the programs.
_SHARE = 4
DIRECT_FOLDER, DEVICE_FOLDER = "direct", "device"
INPUTS_FOLDER, _INPUTS_SHARE = "inputs", 64  # what compiles were made of, within the whole size

_OLDEST_CCACHE = (4, 13)  # older ones miss nvcc's ways to write dependencies (ccache#1663)
_RELAY_FEATURE = "redis+unix-storage"  # in `ccache --version`; not every ccache is built with it
_SUPERVISOR = script("build/compile/launcher/cache_server.py")
_IDLE = 600  # seconds after which a server that a client had to start ends by itself


@dataclass(frozen=True, kw_only=True)
class CacheProgram:
    """The program that keeps compiles.

    Attributes:
        name: `ccache` or `sccache`; empty where there is none.
        size: bytes that it may fill.
    """

    name: str = ""
    path: Path | None = None
    version: str = ""
    size: int = _DEFAULT_SIZE

    def nvcc_flags(self, flags: Iterable[str]) -> tuple[str, ...]:
        """Return those of the launcher's flags for equal bytes that work with this cache.

        With `-objtemp`, sccache 0.16 ends with status 0 and leaves no object: it keeps nvcc's
        temporary files itself. It names them itself as well, so that nothing is lost.
        """
        return tuple(flag for flag in flags if self.name != "sccache" or flag != "objtemp")


@dataclass(frozen=True, kw_only=True)
class CompileCache:
    """The compile cache of a build. All paths are this machine's.

    Attributes:
        folder: compiles of this package, of each program in a folder of its own; stays from build
            to build.
        program_folder: holds the program (see `install`).
        socket_folder: of this build; its path is short.
        remote: the cache behind it; None where there is none.
    """

    program: CacheProgram
    folder: Path
    program_folder: Path
    socket_folder: Path
    log_folder: Path
    remote: RemoteCache | None = None
    has_direct_mode: bool = True

    def install(self) -> None:
        """Copy the program and its supervisor into a folder that the build can see."""
        if self.program.path:
            self.program_folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.program.path, self.program_folder / self.program.name)
            shutil.copyfile(_SUPERVISOR, self.program_folder / _SUPERVISOR.name)

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words that the launcher puts before a compiler."""
        return (str(self.program_folder / self.program.name),) if self.program.name else ()

    def variables(self, *, fingerprint: str, epoch: int) -> dict[str, str]:
        """Return the cache's variables in the build's environment.

        Args:
            fingerprint: of all that compiles. Compilers are known by it, not by their dates.
            epoch: `SOURCE_DATE_EPOCH`, seconds since 1970.
        """
        size, relay = self.program.size, self.socket_folder / RELAY_SOCKET
        remote: dict[str, str] = {}
        if self.program.name == "ccache":
            if self.remote:
                remote = {"CCACHE_REMOTE_STORAGE": f"redis+unix:{relay}"}
            return {
                "CCACHE_DIR": str(self.folder / "ccache"),
                # Neither the user's settings nor the machine's, nor a ccache.conf in the source.
                "CCACHE_CONFIGPATH": os.devnull,
                "CCACHE_COMPILERCHECK": f"string:{fingerprint}",
                # It would compare the headers that were included then, and miss a new one that is
                # found before them now: another package or framework has the same paths.
                "CCACHE_NODIRECT": "1",
                "CCACHE_MAXSIZE": f"{size >> 10}Ki",  # a bare number would be gigabytes
                # A link to a header, as installers make while other builds run, counts as a change
                # of it, and the file would be compiled twice and not kept. Contents are compared
                # all the same.
                "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime",
                "CCACHE_STATSLOG": str(self.log_folder / CCACHE_LOG),
                **remote,
            }
        if self.program.name == "sccache":
            if self.remote:
                remote = {
                    # With an empty host its address isn't understood.
                    "SCCACHE_REDIS_ENDPOINT": f"unix://localhost{relay}",
                    "SCCACHE_MULTILEVEL_CHAIN": "disk,redis",
                }
            return {
                "SCCACHE_DIR": str(self.folder / "sccache"),
                "SCCACHE_CONF": os.devnull,
                "SCCACHE_CACHE_SIZE": str(size),
                "SCCACHE_DIRECT": "false",  # as CCACHE_NODIRECT above
                "SCCACHE_SERVER_UDS": str(self.socket_folder / SCCACHE_SOCKET),
                "SCCACHE_IDLE_TIMEOUT": str(_IDLE),
                "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",  # compile, where the server has died
                "SCCACHE_ERROR_LOG": str(self.log_folder / "sccache.log"),
                # It takes SOURCE_DATE_EPOCH from the compilers; the gated ones set it from this.
                "CUWHEEL_EPOCH": str(epoch),
                **remote,
            }
        return {}

    def supervised(self, argv: Iterable[str], python: Path) -> list[str]:
        """Return a command of the build with the cache's server around it."""
        if self.program.name != "sccache":
            return list(argv)
        supervisor = str(self.program_folder / _SUPERVISOR.name)
        return [str(python), "-ISB", supervisor, *self.prefix, str(self.log_folder), *argv]

    def tidy_up(self) -> None:
        """Remove the oldest compiles of all packages above the limit, after a build."""
        share = self.program.size // _SHARE
        for name in (DIRECT_FOLDER, DEVICE_FOLDER):
            remove_oldest(self.folder / name, share)
        remove_oldest(self.folder / INPUTS_FOLDER, self.program.size // _INPUTS_SHARE)
        remove_oldest(self.folder.parent, self.program.size + 2 * share)

    @contextlib.contextmanager
    def remote_served(self, workspace: Workspace, fingerprint: str) -> Iterator[Callable[[], bool]]:
        """Serve the remote cache until the block ends.

        Args:
            fingerprint: of all that compiles.

        Yields:
            A function that returns True once a signed entry has turned out to be wrong: the block
            should end.

        Raises:
            CacheEntryError: at the end of the block, for such an entry.
        """
        if self.remote is None:
            yield lambda: False
            return
        # They load two large libraries, for those who have a remote cache.
        from cuwheel.build.compile.cache.relay import serve_relay  # noqa: PLC0415
        from cuwheel.build.compile.cache.storage import open_storage  # noqa: PLC0415

        console = workspace.console
        relay, storage = self.socket_folder / RELAY_SOCKET, open_storage(self.remote)
        serve = partial(serve_relay, self.remote, path=relay, package=self.folder.name)
        if self.remote.signing is None:
            with serve(storage=storage, warn=console.warn):
                yield lambda: False
            return
        from cuwheel.build.compile.cache.signed import Maker, open_signed  # noqa: PLC0415

        maker = Maker(compiler=fingerprint, program=f"{self.program.name} {self.program.version}")
        signed = open_signed(storage, self.remote.signing, maker, console.warn, self.folder)
        try:
            with serve(storage=signed, warn=console.warn):
                yield lambda: bool(signed.wrong)
        finally:
            signed.check()
        console.note(signed.summary())


def compiles_folder(workspace: Workspace, environ: Mapping[str, str]) -> Path:
    """Return the folder with the compile caches of all recipes."""
    named = environ.get(FOLDER_VARIABLE)
    return workspace.caller.path(named) if named else workspace.cache / "compiles"


def check_compile_cache(job: Job) -> None:
    """Raise an error where the environment variables of the compile cache can't be used."""
    _choose(job.settings, job.workspace.environ)
    _has_direct_mode(job.workspace.environ)


def choose_compile_cache(job: Job, sockets: Path, environ: Mapping[str, str]) -> CompileCache:
    """Return the compile cache of a build, with its program in the work folder.

    One that can't be written costs a warning, and the build its hits.
    """
    workspace = job.workspace
    program, remote = _choose(job.settings, environ)
    folder = _folder_of(job, environ)
    if program.name and (problem := _why_unusable(folder)):
        workspace.console.warn(
            f"the compile cache {folder} can't be used, so everything is compiled: {problem}"
        )
        program, remote = CacheProgram(), None
    cache = CompileCache(
        program=program,
        folder=folder,
        program_folder=workspace.folder("cache"),
        socket_folder=sockets,
        log_folder=workspace.folder("events"),
        remote=remote,
        has_direct_mode=_has_direct_mode(environ),
    )
    cache.install()
    return cache


def check_usable(job: Job) -> None:
    """Check that there is a compile cache that can keep objects.

    Raises:
        PreflightError: there is none.
        UsageError: an environment variable is invalid.
    """
    program, _ = _choose(job.settings, job.workspace.environ)
    folder = _folder_of(job, job.workspace.environ)
    problem = _why_unusable(folder) if program.name else "neither ccache nor sccache runs here"
    if problem:
        raise PreflightError(
            "a shard needs a compile cache, and there is none",
            why=f"{folder} can't be used: {problem}",
            fix="set CUWHEEL_COMPILE_CACHE to a folder that this user can write",
        )


def _folder_of(job: Job, environ: Mapping[str, str]) -> Path:
    # No build of another source (`--source`) leaves objects to one of the recipe's own.
    name = f"{job.target.recipe.name}{'.source' if job.target.source_override else ''}"
    return compiles_folder(job.workspace, environ) / name


def choose_program(
    environ: Mapping[str, str], *, sccache_folder: Path | None = None, with_remote: bool = False
) -> CacheProgram:
    """Return the program that keeps compiles on this machine.

    Args:
        environ: the caller's variables: `PATH`, `CUWHEEL_CCACHE`, `CUWHEEL_COMPILE_CACHE_SIZE`.
        sccache_folder: folder with sccache; by default that of the engine's own environment.

    Raises:
        UsageError: one of the variables is invalid; all problems together.
    """
    problems: list[str] = []
    text = environ.get(_SIZE_VARIABLE, "").strip()
    size = (read_size(text) or 0) if text else _DEFAULT_SIZE
    if size <= 0:
        problems.append(f"{_SIZE_VARIABLE} is not a size: {text}")
    named = environ.get(_PROGRAM_VARIABLE, "")
    ccache = named or which("ccache", environ.get("PATH", SYSTEM_PATH))
    version, problem = (
        _ccache_version(Path(ccache), with_remote=with_remote) if ccache else ("", "")
    )
    if named and problem:
        problems.append(problem)
    if problems:
        raise UsageError(
            "the environment variables of the compile cache are invalid",
            why="\n".join(problems),
            fix=f"correct or unset them; {_SIZE_VARIABLE} takes a size such as 10G, "
            f"{_PROGRAM_VARIABLE} the path of ccache",
        )
    if ccache and not problem:
        return CacheProgram(name="ccache", path=Path(ccache), version=version, size=size)
    sccache = (sccache_folder or Path(sys.executable).parent) / "sccache"
    output = output_of(sccache, "--version")
    if not output:
        return CacheProgram(size=size)
    return CacheProgram(name="sccache", path=sccache, version=output.split()[-1], size=size)


def _choose(
    settings: BuildRequest, environ: Mapping[str, str]
) -> tuple[CacheProgram, RemoteCache | None]:
    remote = parse_remote_cache(environ)
    if not settings.reuse:
        return CacheProgram(), None
    return choose_program(environ, with_remote=remote is not None), remote


def _has_direct_mode(environ: Mapping[str, str]) -> bool:
    value = environ.get(DIRECT_VARIABLE, "")
    if value not in _SWITCH:
        raise UsageError(
            f"{DIRECT_VARIABLE} has to be on or off, not {value}",
            why="it controls whether objects are reused without a call of the compile cache",
            fix=f"unset it (the default is on), or set {DIRECT_VARIABLE}=off",
        )
    return _SWITCH[value]


def _why_unusable(folder: Path) -> str:
    """Make the cache's folder and write there; return why that fails, or nothing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
    except OSError as problem:
        return problem.strerror or str(problem)
    return ""


def _ccache_version(program: Path, *, with_remote: bool) -> tuple[str, str]:
    """Return a ccache's version, and why it can't be used, or nothing."""
    output = output_of(program, "--version")
    match = re.search(r"ccache version (\d+)\.(\d+)\S*", output)
    if not match:
        return "", f"{program} is not ccache"
    version = match[0].split()[-1]
    if (int(match[1]), int(match[2])) < _OLDEST_CCACHE:
        oldest = ".".join(map(str, _OLDEST_CCACHE))
        return version, f"{program} is ccache {version}; nvcc needs {oldest} or newer"
    if with_remote and _RELAY_FEATURE not in output:
        return version, f"{program} was built without {_RELAY_FEATURE}"
    return version, ""
