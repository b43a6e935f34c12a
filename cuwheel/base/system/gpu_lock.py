"""Locks of GPUs, one run for each, that all users of the machine see."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from cuwheel.base.errors import GpuError

FOLDER_VARIABLE = "CUWHEEL_RUNTIME"
HELD_VARIABLE = "CUWHEEL_GPUS_HELD"  # names of locks that the parent run holds, by blanks
# World-writable on Debian and Ubuntu (tmpfiles.d/legacy.conf), and not in a service's private /tmp;
# root's on Fedora and RHEL, where all users share only `/tmp`.
_SHARED = Path("/run/lock")
_SHARED_ELSE = Path("/tmp")  # noqa: S108 - `_open` follows no link, and TMPDIR is each user's own
_WRITABLE_BY_ALL = stat.S_ISVTX | stat.S_IRWXO
_INTERVAL = 1.0  # seconds between two tries


def lock_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the locks: `CUWHEEL_RUNTIME`, `/run/lock`, or `/tmp`.

    It doesn't depend on what this user may write: root would choose another one than other users.
    """
    if chosen := environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    with contextlib.suppress(OSError):  # users can create files that others can't remove
        if _SHARED.stat().st_mode & _WRITABLE_BY_ALL == _WRITABLE_BY_ALL:
            return _SHARED
    return _SHARED_ELSE


def lock_name(gpu: str) -> str:
    """Return the name of a GPU's lock, by its UUID: `GPU-…`, `MIG-…`."""
    return f"cuwheel-{gpu}.lock"


@contextlib.contextmanager
def hold_gpus(
    paths: Sequence[Path],
    holder: str,
    *,
    on_wait: Callable[[str], None],
    gives_up: Callable[[], bool],
) -> Iterator[None]:
    """Hold locks until the block ends; the kernel releases them with the process.

    Args:
        holder: a text for others that wait.
        on_wait: called once for a lock that another process holds, with a message.

    Raises:
        GpuError: `gives_up`, called each second of waiting, returned True.
    """
    with contextlib.ExitStack() as stack:
        for path in paths:
            file = _open(path)
            stack.callback(os.close, file)
            _acquire(file, path, on_wait, gives_up)
            with contextlib.suppress(OSError):  # another user's is read-only
                os.ftruncate(file, 0)
                os.pwrite(file, holder.encode(), 0)
        yield


def _open(path: Path) -> int:
    """Open the lock's file, which everybody may write: its text is only for messages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a sticky folder the kernel refuses O_CREAT for another user's file (fs.protected_regular).
    with contextlib.suppress(FileNotFoundError):
        try:
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except PermissionError:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except FileExistsError:
        return _open(path)
    os.fchmod(file, 0o666)
    return file


def _acquire(
    file: int, path: Path, on_wait: Callable[[str], None], gives_up: Callable[[], bool]
) -> None:
    has_waited = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(file, 400, 0).decode("utf-8", "replace").strip()
            holder = re.sub(r"\s+", " ", text) or "an unknown process"
        else:
            return
        if gives_up():
            raise GpuError(
                f"{_subject(path)} is in use by another run",
                why=f"{holder} has locked {path}",
                fix="wait until it has ended; without --no-wait `nox -s nightly` waits, at most "
                "for --time-limit",
                anchor="gpu-in-use",
            )
        if not has_waited:
            on_wait(f"{_subject(path)} is in use: waiting for {holder}")
            has_waited = True
        time.sleep(_INTERVAL)


def _subject(path: Path) -> str:
    name = path.stem.removeprefix("cuwheel-")
    return "this machine" if name == "machine" else name
