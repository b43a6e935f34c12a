"""Make the engine's own environment from its lock, then become the engine.

Runs in the Python that runs nox, with what nox brings along (`virtualenv`), or in that of a
container, before any of the engine's packages is there. Every package is installed with its hash.
The environment is named by its lock and interpreter, so a changed lock makes a new one and an
unchanged one costs nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cuwheel.errors import (
    NO_LOCKS,
    CuwheelError,
    InstallError,
    LockError,
    of_refused_lock,
    of_system_error,
)
from cuwheel.fetch.mirror import configured_mirror
from cuwheel.fetch.slow import SLOW_FIX, ProgramWatch, slow_factor
from cuwheel.fetch.urls import redact_url
from cuwheel.laid_out import engine_root
from cuwheel.paths import default_cache, given_path
from cuwheel.spelling import is_console_script
from cuwheel.system.in_use import hold
from cuwheel.system.trust import check_cache

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO


_TICK = 1.0  # seconds between two looks at pip
_TAIL = 15  # lines of pip's output that a failure shows
_BROKEN = "connection broken by "  # in pip's warnings
_INTERRUPTED = 130  # what shells use for a program ended by Ctrl-C


def main(arguments: list[str]) -> int:
    """Replace this process by a Python of the locked environment.

    Args:
        arguments: name of the lock (`engine` or `dev`), then the arguments of that Python.

    Returns:
        The exit code of the error that was printed; otherwise it doesn't return.
    """
    name, *command = arguments
    try:
        check_cache(default_cache(), "CUWHEEL_CACHE")
        if compiles := os.environ.get("CUWHEEL_COMPILE_CACHE"):
            check_cache(given_path(compiles), "CUWHEEL_COMPILE_CACHE")
        root = engine_root(default_cache() / "engine")
        folder = _environment(name, root, offline="--offline" in command)
        words = [str(folder / "bin" / "python"), *command]
        os.execve(words[0], words, _variables(root, folder))  # noqa: S606 - that's the point
    except CuwheelError as error:
        return _report(error)
    except OSError as error:
        return _report(of_system_error(error))
    except KeyboardInterrupt:
        _say("interrupted; the next run makes the environment again")
        return _INTERRUPTED


def _variables(root: Path, folder: Path) -> dict[str, str]:
    """What a Python of an environment sees besides the caller's variables.

    A checkout's compiled modules are kept in the environment's folder: the checkout stays clean,
    and they are removed with the environment. The copy of an installed cuwheel has its own. UTF-8
    mode: paths and files mean the same under every locale.
    """
    found = {**os.environ, "PYTHONPATH": str(root), "PYTHONUTF8": "1"}
    if root.is_relative_to(folder.parent):
        return {**found, "PYTHONDONTWRITEBYTECODE": "1"}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**found, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _environment(name: str, root: Path, *, offline: bool) -> Path:
    """The folder of the complete environment."""
    lock = root / "envs" / f"{name}.lock"
    if not lock.is_file():
        raise LockError(
            f"envs/{lock.name} is missing",
            why="cuwheel installs nothing without a hash, not even its own tools",
            fix=f"git checkout envs/{lock.name}",
        )
    identity = f"{sys.version}\n{sys.base_prefix}\n{lock.read_text()}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = default_cache() / "engine" / f"{name}-{key}"
    hold(folder, with_children=True)
    if not (folder / "complete").exists():
        _make(folder, lock, offline=offline)
        hold(folder, with_children=True)  # before, there was perhaps no folder for its mark
    return folder


def _make(folder: Path, lock: Path, *, offline: bool) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as guard:
        try:
            _wait_for(guard)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            raise of_refused_lock(Path(guard.name), error) from error
        if (folder / "complete").exists():
            return
        venv = _venv_command()
        _say(f"making cuwheel's own environment from envs/{lock.name} (once)")
        # A venv can't be renamed (its scripts hold its path), so it is made in place; what
        # counts as made is the marker, written last.
        shutil.rmtree(folder, ignore_errors=True)
        pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet"]
        options, variables = _source(offline=offline)
        pip += options
        exactly = ("--no-input", "--require-hashes", "--no-deps", "--only-binary", ":all:")
        watch = None
        # From the cache: with `-m`, Python takes modules of the working directory first.
        status, lines = _run([*venv, str(folder)], variables, guard, watch, within=folder.parent)
        if not status:
            watch = ProgramWatch(slow_factor())
            status, lines = _run([*pip, *exactly, "-r", str(lock)], variables, guard, watch)
        if status:
            raise _failure(lines, status, folder, watch, offline=offline)
        (folder / "complete").touch()


def _venv_command() -> list[str]:
    """What makes a virtual environment: nox's virtualenv; in a container's Python, its own venv."""
    if importlib.util.find_spec("virtualenv"):
        return [sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update"]
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return [sys.executable, "-m", "venv"]
    raise InstallError(
        "cuwheel's own environment could not be made",
        why=f"{sys.executable} has neither virtualenv, which comes with nox, nor venv and "
        "ensurepip",
        fix=_no_virtualenv_fix(),
    )


def _no_virtualenv_fix() -> str:
    """What brings virtualenv to the Python that runs this, by how cuwheel was installed."""
    if not is_console_script():
        return "start cuwheel through nox, or with the Python that nox is installed for"
    return (
        "install virtualenv next to cuwheel: `uvx --with virtualenv cuwheel …`, `pipx inject "
        "cuwheel virtualenv` or `pip install virtualenv`"
    )


def _source(*, offline: bool) -> tuple[list[str], dict[str, str]]:
    """Where pip takes wheels from: the mirror, else what pip itself is configured for.

    Returns:
        Options, and variables: everybody can read a program's arguments, and the mirror's address
        may hold a password.
    """
    mirror = configured_mirror(os.environ, offline=offline)
    if mirror is None:
        return ["--no-index"] if offline else [], {}
    server = urlsplit(redact_url(mirror.address))
    # pip refuses plain http from other machines; the hashes say whether what comes is right.
    trusted = ["--trusted-host", server.netloc] if server.scheme == "http" else []
    return ["--no-index", *trusted], {"PIP_FIND_LINKS": mirror.wheels}


def _wait_for(guard: TextIO) -> None:
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("another run is making cuwheel's environment; waiting for it")
        fcntl.flock(guard, fcntl.LOCK_EX)


def _run(
    command: list[str],
    variables: Mapping[str, str],
    guard: TextIO,
    watch: ProgramWatch | None,
    *,
    within: Path | None = None,
) -> tuple[int, list[str]]:
    """Run a step; it inherits the lock, so it keeps that when this process is killed.

    Only one that downloads has a watch: the other one's time is the disk's.
    """
    with subprocess.Popen(  # noqa: S603 - our own command
        command,
        cwd=within,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=(guard.fileno(),),
    ) as child:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said, _ = child.communicate(timeout=_TICK)
                    return child.returncode, said.splitlines()
                if watch and watch.is_stalled(child.pid):
                    child.kill()
        except BaseException:
            child.kill()
            raise


def _failure(
    lines: list[str],
    status: int,
    folder: Path,
    watch: ProgramWatch | None,
    *,
    offline: bool,
) -> CuwheelError:
    if watch and watch.fault:
        return InstallError(
            "cuwheel's own environment could not be made",
            why=f"pip was terminated: {watch.fault}",
            fix=SLOW_FIX,
        )
    if any("No space left on device" in line for line in lines):
        return of_system_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)))
    # pip warns of each attempt that failed, and in the end only says that nothing was found.
    relevant = [line for line in lines if line.strip() and not line.startswith("WARNING:")]
    broken = [line.partition(_BROKEN)[2] for line in lines if _BROKEN in line]
    why = f"pip's last attempt: {broken[-1]}" if broken else (relevant or [f"status {status}"])[-1]
    last = "".join(f"\n    {line}" for line in relevant[-_TAIL:])
    return InstallError(
        "cuwheel's own environment could not be made",
        why=why,
        fix="run once without --offline, which fills the cache; or set CUWHEEL_MIRROR to a folder "
        "that `nox -s mirror` wrote for this Python"
        if offline
        else "check that the package index can be reached (pip's own configuration applies here), "
        f"then run the same command again; its last lines were{last}",
    )


def _report(error: CuwheelError) -> int:
    print(error, file=sys.stderr)  # noqa: T201 - there is no console yet
    return error.exit_code


def _say(text: str) -> None:
    print(f"cuwheel: {text}", file=sys.stderr)  # noqa: T201 - there is no console yet


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
