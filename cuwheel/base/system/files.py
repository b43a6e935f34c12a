"""Atomic files and folders, hashes, locks between processes, and errors of full disks."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, BinaryIO, cast

from cuwheel.base import limits
from cuwheel.base.errors import NO_LOCKS, DiskFullError, FileAccessError, of_refused_lock
from cuwheel.base.system.disks import describe_disk, is_full, is_same_disk
from cuwheel.base.system.machine import free_disk, lacks_inodes, nearest_folder
from cuwheel.base.system.quantities import show_size
from cuwheel.base.system.regular_files import open_file, too_large

_CHUNK = 1 << 20  # bytes
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FULL = re.compile(r"No space left on device|Disk quota exceeded|os error (?:28|122)\b")
PART = ".cuwheel-part"  # suffix of a file that isn't complete
PARTS = f".*{PART}"  # pattern of such files' names
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_HERE = -100  # AT_FDCWD
_HASH_THREADS = 4  # hashlib releases the interpreter lock


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes with a file; no program can set the last, the inode's change time."""
    kind, number, size = status.st_mode, status.st_ino, status.st_size
    return kind, number, size, status.st_mtime_ns, status.st_ctime_ns


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's content, 64 hexadecimal digits; raises OSError."""
    return hash_of_file(path, "sha256")


def checked_sha256(text: str) -> str:
    """Return a SHA-256 from outside in small letters; empty where it is malformed."""
    lowered = text.lower()
    return lowered if _SHA256.fullmatch(lowered) else ""


def hash_of_file(path: Path, algorithm: str) -> str:
    """Return the hash of a file's content in hexadecimal digits, by a name for `hashlib.new`."""
    with open_file(path) as stream:
        if os.fstat(stream.fileno()).st_size > limits.WHEEL:  # of holes: it would take days
            raise too_large(path, limits.WHEEL)
        return hash_of_stream(stream, algorithm)


def hash_of_stream(stream: IO[bytes], algorithm: str = "sha256") -> str:
    """Return the hash of the rest of a stream in hexadecimal digits."""
    digest = hashlib.new(algorithm)
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def list_tree(folder: Path) -> list[Path]:
    """Return every file and link below a folder, relative to it, sorted; without the folders."""
    paths = []
    for base, names, files in os.walk(folder):
        links = [name for name in names if (Path(base) / name).is_symlink()]
        paths += [(Path(base) / name).relative_to(folder) for name in files + links]
    return sorted(paths)


def sha256_of_tree(folder: Path, *, skip: Callable[[Path], bool] = lambda _: False) -> str:
    """Return the SHA-256 over names, link targets, execute bits and contents of a folder."""
    names = [name for name in list_tree(folder) if not skip(name)]
    with ThreadPoolExecutor(_HASH_THREADS) as pool:
        described = pool.map(lambda name: f"{describe_file(folder / name)} {name}", names)
        return hashlib.sha256("\n".join(described).encode()).hexdigest()


def describe_file(path: Path) -> str:
    """Return SHA-256 and execute bit of a file, `9f86… x`, or a link's target, `link ../other`."""
    if path.is_symlink():
        return f"link {path.readlink()}"
    executable = "x" if path.stat().st_mode & 0o100 else "-"
    return f"{sha256_of_file(path)} {executable}"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new, never a part.

    Leftovers of killed writers of this file are removed, for which the folder is listed.
    """
    remove_parts(path.parent, path.name)
    with new_file(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def new_file(final: Path) -> Iterator[BinaryIO]:
    """Write a file next to `final`, and rename it only when it is complete.

    An existing file is replaced. When the block raises, nothing is left; a killed process leaves a
    hidden file, which `remove_parts` removes.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    with _locked_part(final) as stream:
        part = Path(stream.name)
        try:
            yield stream
            stream.flush()
            # Else a power cut can leave the name with a part of the content, or none.
            os.fsync(stream.fileno())
            part.chmod(0o644)
            part.replace(final)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _locked_part(final: Path) -> BinaryIO:
    """Create a hidden file that is locked for as long as it is open, which marks it as in use."""
    while True:
        name = final.with_name(f".{final.name}.{secrets.token_hex(8)}{PART}")
        file = open(name, "x+b", opener=lambda path, flags: os.open(path, flags, 0o600))  # noqa: SIM115
        part = cast("BinaryIO", file)
        with contextlib.suppress(OSError):  # some network disks lock nothing
            fcntl.flock(part, fcntl.LOCK_EX)
        # Another process may have taken it for a leftover before it was locked.
        if os.fstat(part.fileno()).st_nlink:
            return part
        part.close()


def remove_parts(folder: Path, name: str = "") -> None:
    """Remove killed writers' parts of one file or all files of a folder; those in use stay."""
    for part in folder.glob(f".{glob.escape(name) or '*'}.*{PART}"):
        # Opened for writing: network disks require that for a lock.
        with contextlib.suppress(OSError), part.open("r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


@contextlib.contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """Fill a folder next to `final`, and rename it only when it is complete.

    An existing one is replaced in one step. When the block raises, nothing is left.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=final.parent, prefix=f".{final.name}.", suffix=PART))
    try:
        aside.chmod(0o755)
        yield aside
        _put_in_place(aside, final)
    finally:
        remove_tree(aside)  # the incomplete one, or the one that was replaced


def _put_in_place(aside: Path, final: Path) -> None:
    if not os.path.lexists(final):
        aside.rename(final)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    names = (_HERE, os.fsencode(aside), _HERE, os.fsencode(final))
    # Not every file system can do it (NFS), nor every C library (musl before 1.2.6).
    if not hasattr(libc, "renameat2") or libc.renameat2(*names, _EXCHANGE):
        remove_tree(final)
        aside.rename(final)


def remove_leftovers(final: Path) -> None:
    """Remove folders that a killed `new_folder(final)` left; the caller holds the name's lock."""
    for path in final.parent.glob(f".{glob.escape(final.name)}.*{PART}"):
        if path.is_dir():
            remove_tree(path)


def remove_tree(folder: Path) -> None:
    """Remove a folder with its contents, read-only parts too; a missing one is no error.

    A link is removed and not followed.
    """
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        folder.unlink()
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        # Files of a folder without its write bit can't be removed; and a program that is being
        # terminated may write one more.
        if error.errno not in {errno.EACCES, errno.EPERM, errno.ENOTEMPTY, errno.ENOENT}:
            raise
        _unlock(folder)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _unlock(folder: Path) -> None:
    folder.chmod(0o700)
    for base, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)  # noqa: PTH118 - of thousands
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    os.chmod(path, 0o700)  # noqa: PTH101


def empty(folder: Path) -> None:
    """Remove everything in a folder, which stays."""
    for entry in list(folder.iterdir()):
        remove_tree(entry)


@contextlib.contextmanager
def file_lock(
    path: Path,
    *,
    on_wait: Callable[[], None] = lambda: None,
    gives_up: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold a lock between processes; the kernel releases it with the process.

    Args:
        path: the lock file; it stays, since removing it would race.
        on_wait: called once when another process holds it, before waiting without limit.

    Raises:
        TimeoutError: `gives_up` returned True.
        FileAccessError: this disk supports no locks.
    """
    import filelock  # noqa: PLC0415 - it loads asyncio; many commands lock nothing

    _check_is_lock(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without locks filelock falls back to a file with the holder's name; one that a killed process
    # on another machine left would be waited for without end.
    lock = filelock.FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        if not path.exists():  # such a file system makes no files, which filelock tries for ever
            path.touch()
        on_wait()
        lock.acquire(cancel_check=gives_up)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise of_refused_lock(path, error) from error
    try:
        yield
    finally:
        lock.release()


def _check_is_lock(path: Path) -> None:
    """Raise an error where something else has the name of a lock: locking would empty a file."""
    with contextlib.suppress(FileNotFoundError):
        state, why = path.lstat(), ""
        if not stat.S_ISREG(state.st_mode):
            why = "it is not a regular file"
        elif path.suffix == ".lock" and state.st_size:
            why = "it isn't empty, and the lock of this name would empty it"
        if why:
            what, fix = f"{path} is not a lock file", "move it away, or use another folder"
            raise FileAccessError(what, why=why, fix=fix)


@contextlib.contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Turn ENOSPC and EDQUOT into a DiskFullError that names the folder and the ways out."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        is_quota = error.errno == errno.EDQUOT
        raise disk_full(*_written_folders(error, folder), is_quota=is_quota) from error


def _written_folders(error: OSError, folder: Path) -> tuple[Path, ...]:
    """Return the folder on the disk that ran full; several where the error doesn't show which."""
    temporary = _temporary()
    if name := error.filename2 or error.filename:  # of a copy the first is its source
        file = nearest_folder(Path(os.fsdecode(name)))
        return (folder,) if is_same_disk(file, folder) else (file,)
    if is_same_disk(folder, temporary):
        return (folder,)
    full = [each for each in (folder, temporary) if is_full(each)]
    return tuple(full[:1]) or (folder, temporary)


def is_disk_full(error: OSError) -> bool:
    """Return True for ENOSPC and EDQUOT, also of one among several files that were copied."""
    # `copytree` raises one error with the text of each.
    is_copy = isinstance(error, shutil.Error) and has_disk_full_message([str(error)])
    return is_copy or error.errno in {errno.ENOSPC, errno.EDQUOT}


def check_free_disk(folder: Path, size: int) -> None:
    """Raise DiskFullError where a folder's disk, made or not, has fewer bytes free than `size`."""
    if free_disk(folder) < size:
        raise DiskFullError(
            f"not enough space on the disk of {folder}",
            why=f"{show_size(size)} are needed, {show_size(free_disk(folder))} are free",
            fix="free some space, or use a folder on another disk",
        )


def disk_full(*folders: Path, is_quota: bool = False) -> DiskFullError:
    """Return the error for a full disk: of bytes, of inodes, or by a quota.

    Args:
        folders: one on the disk; several where it isn't known which of them is.
        is_quota: the system named a quota, whatever is free.
    """
    names, first = " or ".join(map(str, folders)), folders[0]
    what, free = f"no space left on the disk of {names}", show_size(free_disk(first))
    if lacks_inodes(first):
        why = f"it has no free inodes, although {free} are free: see `df -i {first}`"
    elif is_quota:
        what, why = f"your quota on the disk of {names} is used up", "see `quota -s`"
    elif is_full(first):
        why = f"{free} are free on {describe_disk(first)}"
    else:
        what = f"the disk of {names} ran full"
        now = ", ".join(
            f"{show_size(free_disk(each))} on {describe_disk(each)}" for each in folders
        )
        why = (
            "a write failed; what had filled it is gone again, or a quota is used up (`quota -s`): "
            f"now free are {now}"
        )
    return DiskFullError(
        what,
        why=why,
        fix="free some space (`nox -s cache -- --prune --unused-for 7` removes what no build has "
        "used for a week), or move the work to another disk with CUWHEEL_CACHE, `-- --work DIR` or "
        "TMPDIR",
    )


def fullest_disk(cache: Path) -> Path:
    """Return the folder on the disk with the least space: a failed write names no file."""
    return min(cache, _temporary(), Path.cwd(), key=free_disk)


def _temporary() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - only named


def has_disk_full_message(lines: Iterable[str]) -> bool:
    """Return True if a program's output reports a full disk, in the C library's or uv's words."""
    return any(_FULL.search(line) for line in lines)
