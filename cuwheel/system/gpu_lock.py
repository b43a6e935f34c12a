"""One run for each GPU: a lock that all users of the machine see."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import GpuInUseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


FOLDER_VARIABLE = "CUWHEEL_RUNTIME"
HELD_VARIABLE = "CUWHEEL_GPUS_HELD"  # locks that a run holds for what it starts: names, by blanks
# World-writable on Debian and Ubuntu (tmpfiles.d/legacy.conf), and not in a service's private /tmp;
# root's on Fedora and RHEL, where all users share `/tmp` alone.
_SHARED = Path("/run/lock")
_SHARED_ELSE = Path("/tmp")  # noqa: S108 - `_opened` follows no link, and TMPDIR is each user's own
_WRITABLE_BY_ALL = stat.S_ISVTX | stat.S_IRWXO
_INTERVAL = 1.0  # seconds between two tries


def lock_folder(environ: Mapping[str, str]) -> Path:
    """Where the locks are: `CUWHEEL_RUNTIME`, `/run/lock`, or `/tmp`.

    What each user may write decides nothing: root would take another folder than the others.

    Args:
        environ: of the caller.
    """
    if chosen := environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    return _SHARED if _is_for_all(_SHARED) else _SHARED_ELSE


def lock_name(gpu: str) -> str:
    """Name of a GPU's lock.

    Args:
        gpu: its UUID, as the driver gives it: `GPU-…`, `MIG-…`.
    """
    return f"cuwheel-{gpu}.lock"


@contextlib.contextmanager
def hold_gpus(
    paths: Sequence[Path],
    holder: str,
    *,
    on_wait: Callable[[str], None],
    gives_up: Callable[[], bool],
) -> Iterator[None]:
    """Hold locks until the block ends; they end with the process, however that ends.

    Args:
        paths: of the locks.
        holder: who this is, for others.
        on_wait: called once for a lock that another process holds, with the words of that one.
        gives_up: asked before each second of waiting.

    Raises:
        GpuInUseError: `gives_up` said so.
        OSError: the folder can't be written.
    """
    with contextlib.ExitStack() as stack:
        for path in paths:
            file = _opened(path)
            stack.callback(os.close, file)
            _acquire(file, path, on_wait, gives_up)
            with contextlib.suppress(OSError):  # another user's is for reading
                os.ftruncate(file, 0)
                os.pwrite(file, holder.encode(), 0)
        yield


def _is_for_all(folder: Path) -> bool:
    """Whether every user can make a file there that no other one can take away."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return mode & _WRITABLE_BY_ALL == _WRITABLE_BY_ALL


def _opened(path: Path) -> int:
    """The lock's file, which everybody may write: what it says is for people to read."""
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
        return _opened(path)
    os.fchmod(file, 0o666)
    return file


def _acquire(
    file: int, path: Path, on_wait: Callable[[str], None], gives_up: Callable[[], bool]
) -> None:
    is_told = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder_of(file)
        else:
            return
        if gives_up():
            raise GpuInUseError(
                f"{_subject(path)} is in use by another run",
                why=f"{holder} has locked {path}",
                fix="wait until it has ended; without --no-wait `nox -s nightly` waits, at most "
                "for --time-limit",
            )
        if not is_told:
            on_wait(f"{_subject(path)} is in use: waiting for {holder}")
            is_told = True
        time.sleep(_INTERVAL)


def _holder_of(file: int) -> str:
    said = os.pread(file, 400, 0).decode("utf-8", "replace").strip()
    return re.sub(r"\s+", " ", said) or "an unknown process"


def _subject(path: Path) -> str:
    name = path.stem.removeprefix("cuwheel-")
    return "this machine" if name == "machine" else name
