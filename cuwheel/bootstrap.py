"""Make the engine's own environment from its lock, then become the engine.

Runs in the Python that runs nox, with what nox brings along (`virtualenv`), before any of the
engine's packages is there. Every package is installed with its hash. The environment is named by
its lock and interpreter, so a changed lock makes a new one and an unchanged one costs nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from cuwheel.errors import (
    INTERRUPTED,
    CuwheelError,
    DiskFullError,
    InstallError,
    LockError,
    of_system_error,
)
from cuwheel.paths import ROOT, default_cache

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

_TAIL = 15  # lines of pip's output that a failure shows


def main(arguments: list[str]) -> int:
    """Replace this process by a Python of the locked environment.

    Args:
        arguments: name of the lock (`engine` or `dev`), then the arguments of that Python.

    Returns:
        The exit code of the error that was printed; otherwise it doesn't return.
    """
    name, *command = arguments
    try:
        folder = _environment(name, offline="--offline" in command)
    except CuwheelError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no console yet
        return error.exit_code
    except OSError as error:
        problem = of_system_error(error)
        print(problem, file=sys.stderr)  # noqa: T201
        return problem.exit_code
    except KeyboardInterrupt:
        print("cuwheel: interrupted; the next run makes its environment anew", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    python = folder / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    os.execve(python, [str(python), *command], environment)  # noqa: S606 - that's the point


def _environment(name: str, *, offline: bool) -> Path:
    """The folder of the complete environment."""
    lock = ROOT / "envs" / f"{name}.lock"
    if not lock.is_file():
        raise LockError(
            f"envs/{lock.name} is missing",
            why="cuwheel installs nothing without a hash, its own tools included",
            fix=f"git checkout envs/{lock.name}",
        )
    identity = f"{sys.version}\n{sys.base_prefix}\n{lock.read_text()}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = default_cache() / "engine" / f"{name}-{key}"
    if (folder / "complete").exists():
        return folder
    if offline:
        raise InstallError(
            f"{folder} is not there",
            why="--offline is set, so cuwheel's own environment can't be made",
            fix="run once without --offline: that fills the cache",
        )
    _make(folder, lock)
    return folder


def _make(folder: Path, lock: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as guard:
        _wait_for(guard)
        if (folder / "complete").exists():
            return
        _say(f"making its own environment from envs/{lock.name} (once)")
        # A venv can't be renamed (its scripts hold its path), so it is made in place; what
        # counts as made is the marker, written last.
        shutil.rmtree(folder, ignore_errors=True)
        _run([*_module(sys.executable, "virtualenv"), "--quiet", str(folder)], folder, guard)
        pip = [*_module(str(folder / "bin" / "python"), "pip"), "install", "--quiet"]
        exactly = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
        _run([*pip, *exactly, "-r", str(lock)], folder, guard)
        (folder / "complete").touch()


def _module(python: str, name: str) -> tuple[str, ...]:
    return (
        (python, "-m", name, "--no-periodic-update")
        if name == "virtualenv"
        else (python, "-I", "-m", name)
    )


def _wait_for(guard: TextIO) -> None:
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("another cuwheel is making this environment; waiting for it")
        fcntl.flock(guard, fcntl.LOCK_EX)
