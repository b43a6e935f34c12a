"""Stage environment: a Python environment with exactly the locked build requirements."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING

from cuwheel.errors import InstallError
from cuwheel.locks.jobs import check_target_lock
from cuwheel.pypi.uv import install, make_environment
from cuwheel.system.files import (
    file_lock,
    naming_full_disk,
    remove_tree,
    write_atomically,
)
from cuwheel.system.in_use import hold
from cuwheel.system.process import run
from cuwheel.workspace.records import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.job import Job


_LAYOUT = 2  # raise it when an environment made by an older cuwheel must not be reused
_MARKER = "cuwheel.json"  # written last: an environment without it is not complete


def environment(job: Job) -> Environment:
    """Make sure that the target's build environment is there and complete.

    It is shared between builds and named by its lock and interpreter. Its packages may hold its
    path, so it is made in place and marked when complete.

    Raises:
        LockError: the target has no lock, or it doesn't match its input.
        InstallError: the locked packages can't be fetched, or the framework doesn't import.
    """
    target, workspace = job.target, job.workspace
    check_target_lock(target)
    base = job.python
    identity = f"{_LAYOUT}\n{base.version}\n{base.abi}\n{base.path}\n{target.lock.read_text()}"
    key = hashlib.sha256(identity.encode()).hexdigest()
    short = target.id.replace(f"-{target.toolkit.tag}-", "-")
    folder = workspace.cache / "environments" / f"{short}-{key[:16]}"
    python = folder / "bin" / "python"

    def note_waiting() -> None:
        workspace.console.note("another cuwheel is making this environment; waiting for it")

    with file_lock(folder.with_name(f"{folder.name}.lock"), on_wait=note_waiting):
        is_checked = folder in workspace.checked and folder.is_dir()
        if not is_checked and not _is_complete(folder):
            remove_tree(folder)
            with naming_full_disk(folder.parent):
                _make(folder, job)
        hold(folder)
    workspace.checked[folder] = key
    site_packages = folder / "lib" / f"python{base.release}" / "site-packages"
    return Environment(
        python=python,
        site_packages=site_packages,
        fingerprint=key,
        base_python=base.path,
        base_version=base.version,
    )


def _make(folder: Path, job: Job) -> None:
    target, workspace = job.target, job.workspace
    log = workspace.cache / "logs" / f"{folder.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    make_environment(folder, job.python.path, cache=workspace.cache, log=log)
    python = folder / "bin" / "python"
    install(
        python,
        target.lock,
        cache=workspace.cache,
        offline=job.settings.offline,
        log=log,
        console=workspace.console,
    )
    _check_framework_imports(python, target)
    write_atomically(folder / _MARKER, json.dumps({"files": _digest_of_sizes(folder)}))


def _check_framework_imports(python: Path, target: Target) -> None:
    """Import the framework once, when the environment is made: that takes seconds.

    Raises:
        InstallError: it doesn't import.
    """
    if target.framework is None:
        return
    code = f"import {target.framework.name}"
    answer = run([python, "-I", "-W", "ignore", "-c", code], env={}, check=False)
    if answer.status:
        words = answer.output.strip().splitlines() or [f"status {answer.status}"]
        raise InstallError(
            f"{target.framework.name} {target.framework.version} doesn't import in its environment",
            why=words[-1],
            fix="see that the lock holds all it needs; "
            f"try it: {python} -c 'import {target.framework.name}'",
        )


def _is_complete(folder: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError):
        made: str = json.loads((folder / _MARKER).read_text())["files"]
        return made == _digest_of_sizes(folder)
    return False


def _digest_of_sizes(folder: Path) -> str:
    """SHA-256 of the names and sizes of all files, compiled ones left out as they come and go.

    Gigabytes of libraries take too long to hash before each build; a missing or cut-off file shows
    in its size.
    """
    sizes = sorted(_sizes(folder, ""), key=lambda one: one[0].split("/"))
    lines = (f"{size} {name}" for name, size in sizes if name.rpartition("/")[2] != _MARKER)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _sizes(folder: Path, start: str) -> Iterator[tuple[str, int]]:
    """Each file and link below a folder with its size; of twenty thousand, so without `Path`."""
    with os.scandir(folder / start) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield f"{start}{entry.name}", entry.stat(follow_symlinks=False).st_size
            elif entry.name != "__pycache__":
                yield from _sizes(folder, f"{start}{entry.name}/")
