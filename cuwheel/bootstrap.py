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

from cuwheel.paths import ROOT, default_cache

if TYPE_CHECKING:
    from pathlib import Path

_TAIL = 15  # lines of pip's output that a failure shows


def main(arguments: list[str]) -> int:
    """Replace this process by a Python of the locked environment.

    Args:
        arguments: name of the lock (`engine` or `dev`), then the arguments of that Python.
    """
    name, *command = arguments
    lock = ROOT / "envs" / f"{name}.lock"
    if not lock.is_file():
        sys.exit(
            f"error: envs/{lock.name} is missing\n"
            "  because  cuwheel installs nothing without a hash, its own tools included\n"
            f"  to fix   git checkout envs/{lock.name}\n"
            "  more     TROUBLESHOOTING.md#lock"
        )
    identity = f"{sys.version}\n{sys.base_prefix}\n{lock.read_text()}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = default_cache() / "engine" / f"{name}-{key}"
    if not (folder / "complete").exists():
        _make(folder, lock)
    python = folder / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    os.execve(python, [str(python), *command], environment)  # noqa: S606 - that's the point


def _make(folder: Path, lock: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if (folder / "complete").exists():
            return
        print(f"cuwheel: making its own environment from envs/{lock.name} (once)", file=sys.stderr)  # noqa: T201
        # A venv can't be renamed (its scripts hold its path), so it is made in place; what
        # counts as made is the marker, written last.
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update", str(folder)])
        pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet"]
        _run([*pip, "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(lock)])
        (folder / "complete").touch()


def _run(command: list[str]) -> None:
    done = subprocess.run(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode == 0:
        return
    tail = "\n    ".join(done.stdout.splitlines()[-_TAIL:])
    sys.exit(
        "error: cuwheel's own environment can't be made\n"
        f"  because  {command[2] if command[1] == '-m' else 'pip'} ended with status "
        f"{done.returncode}\n"
        "  to fix   see that the package index is reachable (pip's own configuration applies here) "
        "and the disk has room, then run the same command again\n"
        "  more     TROUBLESHOOTING.md#install\n"
        f"  last lines:\n    {tail}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
