"""Stage lock: resolve what is asked for in the `.in` files and pin it with hashes."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import LockError
from cuwheel.files import write_atomically
from cuwheel.installer import resolve
from cuwheel.lockfile import faults_of_lock, read_pins, render
from cuwheel.locks import COOLDOWN

if TYPE_CHECKING:
    from cuwheel.locks import LockJob
    from cuwheel.workspace import Workspace


def lock(jobs: tuple[LockJob, ...], space: Workspace, *, cooldown: int = COOLDOWN) -> None:
    """Write each lock anew.

    A fresh release can be broken or malicious and is often found out within days, hence the
    cooldown.

    Args:
        jobs: which ones.
        space: its cache serves the resolver.
        cooldown: days.

    Raises:
        InstallError: the index can't be reached, or nothing satisfies the input.
    """
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    newest = f"{today - datetime.timedelta(days=cooldown)}T00:00:00Z"
    for job in jobs:
        with space.console.stage(f"lock {job.name}"), tempfile.TemporaryDirectory() as folder:
            # The resolver gets one plain file, so that its output names no path of this machine.
            plain = Path(folder) / job.source.name
            plain.write_text(job.wanted)
            body = resolve(
                plain,
                python=job.python,
                uploaded_before=newest,
                cache=space.cache,
                offline=space.offline,
            )
            text = render(body, wanted=job.wanted, command=job.command, cooldown=newest)
            write_atomically(job.lock, text)
            space.console.note(f"{job.lock.name}: {len(read_pins(job.lock))} packages")


def check_locks(jobs: tuple[LockJob, ...]) -> None:
    """See that every lock is there, unedited, hashed, and made from its input as it is now.

    Raises:
        LockError: with every fault of every lock.
    """
    faults = {job.command: _faults(job) for job in jobs}
    bad = {command: found for command, found in faults.items() if found}
    if bad:
        raise LockError(
            f"{len(bad)} of {len(jobs)} locks can't be used",
            why="\n".join(
                f"{command.split('-- ')[1]}: {', '.join(found)}" for command, found in bad.items()
            ),
            fix=" && ".join(bad),
        )


def _faults(job: LockJob) -> list[str]:
    try:
        return faults_of_lock(job.lock, job.wanted)
    except LockError as error:
        return [error.what]
