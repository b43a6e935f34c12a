"""The compile cache of a build: ccache where the machine has a new one, else sccache.

Neither reads a configuration file or a variable of the caller's; each gets all that it needs from
here. What the traps were: docs/adr/0016.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.build.compile_cache.folders import RELAY_SOCKET, SCCACHE_SOCKET
from cuwheel.build.compile_cache.statistics import CCACHE_LOG
from cuwheel.errors import CommandFailedError, UsageError
from cuwheel.standalone import script
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import run, which
from cuwheel.system.quantities import read_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.build.compile_cache.folders import CachePaths


PROGRAM_VARIABLE = "CUWHEEL_CCACHE"
SIZE_VARIABLE = "CUWHEEL_COMPILE_CACHE_SIZE"
DEFAULT_SIZE = 10 << 30  # bytes

_OLDEST_CCACHE = (4, 13)  # older ones miss nvcc's ways to write dependencies (ccache#1663)
_RELAY_FEATURE = "redis+unix-storage"  # as `ccache --version` names it; it is a choice of builds
_SUPERVISOR = script("launcher/cache_server.py")
_IDLE = 600  # seconds after which a server that a client had to start ends by itself


@dataclass(frozen=True, kw_only=True)
class CompileCache:
    """The program that keeps compiles.

    Attributes:
        name: `ccache` or `sccache`; empty where there is none.
        program: its file on this machine.
        version: what it says of itself.
        size: bytes that it may fill.
    """

    name: str = ""
    program: Path | None = None
    version: str = ""
    size: int = DEFAULT_SIZE

    def prefix(self, paths: CachePaths) -> tuple[str, ...]:
        """The words that the launcher puts before a compiler."""
        return (str(paths.program_folder / self.name),) if self.name else ()

    def nvcc_flags(self, flags: Iterable[str]) -> tuple[str, ...]:
        """Those of the launcher's flags for equal bytes that go with this cache.

        With `-objtemp`, sccache 0.16 ends with status 0 and leaves no object: it keeps nvcc's
        temporary files itself. It names them itself as well, so that nothing is lost.
        """
        return tuple(flag for flag in flags if self.name != "sccache" or flag != "objtemp")

    def variables(
        self, paths: CachePaths, *, fingerprint: str, epoch: int, with_remote: bool
    ) -> dict[str, str]:
        """What the build's environment has to say to the cache.

        Args:
            paths: its folders, as the build sees them.
            fingerprint: of all that compiles. Compilers are known by it, not by their dates.
            epoch: `SOURCE_DATE_EPOCH`, seconds since 1970.
            with_remote: whether a relay listens at `RELAY_SOCKET` in the folder for sockets.
        """
        relay = paths.socket_folder / RELAY_SOCKET if with_remote else None
        if self.name == "ccache":
            return _ccache_variables(paths, self.size, fingerprint, relay)
        if self.name == "sccache":
            return _sccache_variables(paths, self.size, epoch, relay)
        return {}

    def supervised(self, words: Iterable[str], paths: CachePaths, python: Path) -> list[str]:
        """A command of the build with what has to run beside it.

        Args:
            words: the command.
            paths: the cache's folders, by the same names as those in the command.
            python: an interpreter, as the build sees it.
        """
        if self.name != "sccache":
            return list(words)
        script = paths.program_folder / _SUPERVISOR.name
        beside = [str(python), "-ISB", str(script), *self.prefix(paths), str(paths.log_folder)]
        return [*beside, *words]


def choose_cache(
    environ: Mapping[str, str], *, sccache_folder: Path | None = None, with_remote: bool = False
) -> CompileCache:
    """The compile cache that builds on this machine use.

    Args:
        environ: the caller's variables: `PATH`, `CUWHEEL_CCACHE`, `CUWHEEL_COMPILE_CACHE_SIZE`.
        sccache_folder: folder with sccache; by default that of the engine's own environment.
        with_remote: whether it has to serve a remote cache.

    Raises:
        UsageError: one of the variables says something that can't be done; all of it together.
    """
    problems: list[str] = []
    size = _size(environ.get(SIZE_VARIABLE, ""), problems)
    named = environ.get(PROGRAM_VARIABLE, "")
    found = named or which("ccache", environ.get("PATH", SYSTEM_PATH))
    version, problem = _ccache_version(Path(found), with_remote=with_remote) if found else ("", "")
    if named and problem:
        problems.append(problem)
    if problems:
        raise UsageError(
            "the environment variables of the compile cache are invalid",
            why="\n".join(problems),
            fix=f"correct or unset them; {SIZE_VARIABLE} takes a size such as 10G, "
            f"{PROGRAM_VARIABLE} the path of ccache",
        )
    if found and not problem:
        return CompileCache(name="ccache", program=Path(found), version=version, size=size)
    sccache = (sccache_folder or Path(sys.executable).parent) / "sccache"
    said = _ask(sccache, "--version")
    if not said:
        return CompileCache(size=size)
    return CompileCache(name="sccache", program=sccache, version=said.split()[-1], size=size)


def install_program(cache: CompileCache, folder: Path) -> None:
    """Copy the program, and what supervises it, into a folder that the build can see.

    Args:
        cache: the cache; one without a name needs nothing.
        folder: is made.
    """
    if cache.program is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(cache.program, folder / cache.name)
    shutil.copyfile(_SUPERVISOR, folder / _SUPERVISOR.name)


def _size(text: str, problems: list[str]) -> int:
    if not text.strip():
        return DEFAULT_SIZE
    size = read_size(text) or 0
    if size <= 0:
        problems.append(f"{SIZE_VARIABLE} is not a size: {text}")
    return size


def _ccache_version(program: Path, *, with_remote: bool) -> tuple[str, str]:
    """A ccache's version, and why it can't be used, or nothing."""
    said = _ask(program, "--version")
    found = re.search(r"ccache version (\d+)\.(\d+)\S*", said)
    if not found:
        return "", f"{program} is not ccache"
    version = found[0].split()[-1]
    if (int(found[1]), int(found[2])) < _OLDEST_CCACHE:
        oldest = ".".join(map(str, _OLDEST_CCACHE))
        return version, f"{program} is ccache {version}; nvcc needs {oldest} or newer"
    if with_remote and _RELAY_FEATURE not in said:
        return version, f"{program} was built without {_RELAY_FEATURE}"
    return version, ""


def _ask(program: Path, option: str) -> str:
    try:
        return run([program, option], env={"PATH": SYSTEM_PATH, "LC_ALL": "C"}).output.strip()
    except CommandFailedError:
        return ""


def _ccache_variables(
    paths: CachePaths, size: int, fingerprint: str, relay: Path | None
) -> dict[str, str]:
    remote = {"CCACHE_REMOTE_STORAGE": f"redis+unix:{relay}"} if relay else {}
    return {
        "CCACHE_DIR": str(paths.cache_folder / "ccache"),
        # Neither the user's settings nor the machine's, nor a ccache.conf in the package's source.
        "CCACHE_CONFIGPATH": os.devnull,
        "CCACHE_COMPILERCHECK": f"string:{fingerprint}",
        # It would compare the headers that were included then, and not see a new one that is found
        # before them now: at the same paths stands another package, or another framework.
        "CCACHE_NODIRECT": "1",
        "CCACHE_MAXSIZE": f"{size >> 10}Ki",  # a bare number would be gigabytes
        # A link to a header, as installers make while other builds run, counts as a change of it,
        # and the file would be compiled twice and not kept. Contents are compared all the same.
        "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime",
        "CCACHE_STATSLOG": str(paths.log_folder / CCACHE_LOG),
        **remote,
    }


def _sccache_variables(
    paths: CachePaths, size: int, epoch: int, relay: Path | None
) -> dict[str, str]:
    remote = {
        # With an empty host its address isn't understood.
        "SCCACHE_REDIS_ENDPOINT": f"unix://localhost{relay}",
        "SCCACHE_MULTILEVEL_CHAIN": "disk,redis",
    }
    return {
        "SCCACHE_DIR": str(paths.cache_folder / "sccache"),
        "SCCACHE_CONF": os.devnull,
        "SCCACHE_CACHE_SIZE": str(size),
        "SCCACHE_DIRECT": "false",  # as CCACHE_NODIRECT above
        "SCCACHE_SERVER_UDS": str(paths.socket_folder / SCCACHE_SOCKET),
        "SCCACHE_IDLE_TIMEOUT": str(_IDLE),
        "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",  # compile, where the server has died
        "SCCACHE_ERROR_LOG": str(paths.log_folder / "sccache.log"),
        # It takes SOURCE_DATE_EPOCH from the compilers; the gated ones set it again from this.
        "CUWHEEL_EPOCH": str(epoch),
        **(remote if relay else {}),
    }
