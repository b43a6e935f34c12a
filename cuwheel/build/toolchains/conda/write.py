"""A writer of conda locks: it runs conda-lock, in an environment of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cuwheel.base.errors import InstallError, LockError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import disk_full, has_disk_full_message, write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.toolchains.conda.lock_file import CondaLock, document_of_lock

_PROGRAM = "cuwheel.build.toolchains.conda.conda_lock_process"
_REFUSED = 3  # exit status of the program, whose module only its own environment can import


def write_conda_lock(
    path: Path, lock: CondaLock, *, command: str, python: Path, source: Path | None = None
) -> None:
    """Write a `conda-lock.yml`.

    Args:
        source: the `environment.yml` that the lock was solved from, of which conda-lock computes
            the content hash; None: the lock keeps its own.

    Raises:
        LockError: conda-lock rejects the lock or its source.
        InstallError: the program failed.
        DiskFullError: the disk is full.
        OSError: the file can't be written.
    """
    with temporary_folder() as folder:
        document, rendered = folder / "document.json", folder / "conda-lock.yml"
        document.write_text(json.dumps(document_of_lock(lock)))
        # A home of its own: the user's conda has settings that change what a channel's name means.
        env = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PYTHONPATH": str(ROOT),
        }
        files = (document, rendered, *([source.absolute()] if source else ()))
        process = run([python, "-sB", "-W", "ignore", "-m", _PROGRAM, *files], env=env, check=False)
        if not process.status:
            text = f"# Written by `{command}`; don't edit.\n{read_text(rendered)}"
            write_atomically(path, text)
            return
    lines = process.output.strip().splitlines() or [f"it exited with status {process.status}"]
    if has_disk_full_message(lines):
        raise disk_full(Path(folder).parent)
    if process.status == _REFUSED:
        raise LockError(
            f"{path.parent.name}/{path.name} could not be written",
            why=f"conda-lock says: {lines[-1]}",
            fix="write environment.yml and virtual-packages.yml as envs/cuda122 shows",
        )
    raise InstallError(
        "the program that writes conda locks failed",
        why=lines[-1],
        fix=f"remove {python.parent.parent}: the next run makes conda-lock's environment again",
    )
