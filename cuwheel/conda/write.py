"""Writing conda locks: conda-lock does it, in an environment of its own."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from cuwheel.conda.environment_file import PLATFORM
from cuwheel.conda.lock_document import document_of_lock
from cuwheel.conda.records import CondaLock, Rendered, RenderRequest
from cuwheel.errors import InstallError, LockError
from cuwheel.paths import ROOT
from cuwheel.system.files import disk_full, says_disk_full, write_atomically
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_text

_PROGRAM = "cuwheel.conda.conda_lock_process"


def write_conda_lock(
    path: Path, lock: CondaLock, *, command: str, python: Path, source: Path | None = None
) -> None:
    """Write a `conda-lock.yml`.

    Args:
        path: the file.
        lock: what to write.
        command: what writes this file again.
        python: of the environment that conda-lock is in.
        source: the `environment.yml` that the lock was solved from, where conda-lock is to see
            that it says what we have read in it.

    Raises:
        LockError: conda-lock doesn't take the lock or its source, or reads the source otherwise.
        InstallError: the program didn't do its work.
        DiskFullError: the disk is full.
        OSError: the file can't be written.
    """
    rendered = _render(lock, python, source)
    name = f"{path.parent.name}/{path.name}"
    if rendered.refused:
        raise LockError(
            f"{name} could not be written",
            why=f"conda-lock says: {rendered.refused}",
            fix="write environment.yml and virtual-packages.yml as envs/cuda122 shows",
        )
    if source and rendered.digest != lock.digest:
        raise LockError(
            f"conda-lock reads {source.parent.name}/{source.name} differently than cuwheel",
            why=f"its content hash is {rendered.digest}, ours is {lock.digest}",
            fix="write each dependency as `name ==version`",
        )
    write_atomically(path, f"# Written by `{command}`; don't edit.\n{rendered.text}")


def _render(lock: CondaLock, python: Path, source: Path | None) -> Rendered:
    with tempfile.TemporaryDirectory() as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        rendering = RenderRequest(
            document=document_of_lock(lock),
            source=str(source.absolute()) if source else "",
            platform=PLATFORM,
            answer=str(answer),
        )
        request.write_text(json.dumps(asdict(rendering)))
        # A home of its own: the user's conda has settings that change what a channel's name means.
        env = {"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "PYTHONPATH": str(ROOT)}
        done = run([python, "-sB", "-W", "ignore", "-m", _PROGRAM, request], env=env, check=False)
        if answer.is_file() and not done.status:
            return Rendered(**json.loads(read_text(answer)))
    said = done.output.strip().splitlines() or [f"it exited with status {done.status}"]
    if says_disk_full(said):
        raise disk_full(Path(folder).parent)
    raise InstallError(
        "the program that writes conda locks failed",
        why=said[-1],
        fix=f"remove {python.parent.parent}: the next run makes conda-lock's environment again",
    )
