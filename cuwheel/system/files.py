"""Files and folders that are whole or not there: hashes, atomic writes, locks of processes."""

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from cuwheel.errors import NO_LOCKS, DiskFullError, of_refused_lock
from cuwheel.system.machine import free_disk, lacks_inodes
from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_CHUNK = 1 << 20  # bytes
_SHA256 = re.compile(r"[0-9a-f]{64}")
PART = ".cuwheel-part"  # suffix of a file that isn't complete
PARTS = f".*{PART}"  # pattern of such files' names
_EXCHANGE = 2  # renameat2(2): both names stay, each with the other's content
_HERE = -100  # AT_FDCWD: names are looked up as ever
_HASH_THREADS = 4  # hashlib lets go of the interpreter lock, so threads help


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file's content, 64 hexadecimal digits.

    Raises:
        OSError: it can't be read.
    """
    return hash_of_file(path, "sha256")


def checked_sha256(text: str) -> str:
    """A SHA-256 that somebody else states, in small letters; empty where it is none."""
    lowered = text.lower()
    return lowered if _SHA256.fullmatch(lowered) else ""


def hash_of_file(path: Path, algorithm: str) -> str:
    """Hash of a file's content in hexadecimal digits.

    Args:
        path: the file.
        algorithm: its name, as `hashlib.new` takes it.

    Raises:
        OSError: it can't be read.
    """
    digest = hashlib.new(algorithm)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def list_tree(folder: Path) -> list[Path]:
    """Every file and link below a folder, relative to it, sorted; without the folders."""
    found = []
    for base, names, files in os.walk(folder):
        links = [name for name in names if (Path(base) / name).is_symlink()]
        found += [(Path(base) / name).relative_to(folder) for name in files + links]
    return sorted(found)


def sha256_of_tree(folder: Path, *, skip: Callable[[Path], bool] = lambda _: False) -> str:
    """SHA-256 over the names, link targets, execute bits and contents of everything in a folder.

    Args:
        folder: the tree.
        skip: given a relative path, says that it doesn't count.

    Raises:
        OSError: something can't be read.
    """
    names = [name for name in list_tree(folder) if not skip(name)]
    with ThreadPoolExecutor(_HASH_THREADS) as pool:
        described = pool.map(lambda name: f"{describe_file(folder / name)} {name}", names)
        return hashlib.sha256("\n".join(described).encode()).hexdigest()


def describe_file(path: Path) -> str:
    """SHA-256 and execute bit of a file, `9f86… x`, or the target of a link, `link ../other`.

    Raises:
        OSError: it can't be read.
    """
    if path.is_symlink():
        return f"link {path.readlink()}"
    executable = "x" if path.stat().st_mode & 0o100 else "-"
    return f"{sha256_of_file(path)} {executable}"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new, never a part.

    Removes what a killed writer of this file has left, for which it lists the folder.

    Raises:
        OSError: the folder can't be written.
    """
    remove_parts(path.parent, path.name)
    with new_file(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def new_file(final: Path) -> Iterator[BinaryIO]:
    """Write a file aside and give it its name only when it is complete.

    What stood under the name before is replaced. When the block raises, nothing is left; who is
    killed leaves a hidden file, which `remove_parts` knows.

    Args:
        final: the name it gets.

    Yields:
        The file to fill, beside `final`.

    Raises:
        OSError: the folder can't be written.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    with _locked_part(final) as stream:
        aside = Path(stream.name)
        try:
            yield stream
            stream.flush()
            # Else a power cut can leave the name with a part of the content, or none.
            os.fsync(stream.fileno())
            aside.chmod(0o644)
            aside.replace(final)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise


def _locked_part(final: Path) -> BinaryIO:
    """A new hidden file that is locked for as long as it is open, which marks it as in use."""
    while True:
        name = final.with_name(f".{final.name}.{secrets.token_hex(8)}{PART}")
        part = cast("BinaryIO", open(name, "x+b", opener=_for_owner))  # noqa: SIM115
        with contextlib.suppress(OSError):  # some network disks lock nothing
            fcntl.flock(part, fcntl.LOCK_EX)
        # Another process may have taken it for a leftover before it was locked.
        if os.fstat(part.fileno()).st_nlink:
            return part
        part.close()


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # nobody else reads what isn't complete


def remove_parts(folder: Path, name: str = "") -> None:
    """Remove what killed writers of files left in a folder; what is still being written stays.

    Args:
        folder: needn't be there.
        name: of the one file that this is about; empty: of all.
    """
    for part in folder.glob(f".{glob.escape(name) or '*'}.*{PART}"):
        # Opened for writing, which a network disk asks of who wants to lock.
        with contextlib.suppress(OSError), part.open("r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


@contextlib.contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """Make a folder aside and give it its name only when it is complete.

    What stood under the name before is replaced at once. When the block raises, nothing is left.

    Args:
        final: the name it gets.

    Yields:
        The folder to fill, beside `final`.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=final.parent, prefix=f".{final.name}."))
    try:
        aside.chmod(0o755)
        yield aside
        _put_in_place(aside, final)
    finally:
        remove_tree(aside)  # what wasn't completed, or what stood there before


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
    for path in final.parent.glob(f".{final.name}.*"):
        if path.is_dir():
            remove_tree(path)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, read-only parts too; nothing there is fine.

    A link is removed and not followed, whatever a package's build has left.
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
        # A folder without its write bit refuses to give up its files; and a program that is just
        # being ended may write one more.
        if error.errno not in {errno.EACCES, errno.EPERM, errno.ENOTEMPTY, errno.ENOENT}:
            raise
        _unlock(folder)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _unlock(folder: Path) -> None:
    """Let the owner change every folder of a tree; links to folders elsewhere are none of it."""
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
    """Hold a lock between processes; it ends with the process, however that ends.

    Args:
        path: the lock file; it stays, since removing it would race.
        on_wait: called once when another process holds it, before waiting for as long as it takes.
        gives_up: asked again and again while waiting.

    Raises:
        TimeoutError: `gives_up` said so.
        FileAccessError: this disk locks nothing.
        OSError: the file can't be made.
    """
    import filelock  # noqa: PLC0415 - it loads asyncio; many commands lock nothing

    path.parent.mkdir(parents=True, exist_ok=True)
    # Its way out where nothing can be locked is a file that says who has it; what a killed process
    # on another machine leaves of these is waited for without end.
    held = filelock.FileLock(path, fallback_to_soft=False)
    try:
        held.acquire(timeout=0)
    except filelock.Timeout:
        if not path.exists():  # such a file system makes no files, which filelock tries for ever
            path.touch()
        on_wait()
        held.acquire(cancel_check=gives_up)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise of_refused_lock(path, error) from error
    try:
        yield
    finally:
        held.release()


@contextlib.contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Turn "no space left on device" into an error that names the folder and the ways out.

    Raises:
        DiskFullError: the block met ENOSPC or EDQUOT.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise disk_full(folder) from error


def check_free_disk(folder: Path, size: int) -> None:
    """See that a folder's disk has room before writing much to it.

    Args:
        folder: where to; needn't be there yet.
        size: bytes that will be written.

    Raises:
        DiskFullError: there is less.
    """
    if free_disk(folder) < size:
        raise DiskFullError(
            f"not enough space on the disk of {folder}",
            why=f"{show_size(size)} are needed, {show_size(free_disk(folder))} are free",
            fix="free some space, or use a folder on another disk",
        )


def disk_full(folder: Path) -> DiskFullError:
    """The error for a full disk under `folder`: of bytes, or of inodes."""
    free = f"{show_size(free_disk(folder))} are free"
    return DiskFullError(
        f"no space left on the disk of {folder}",
        why=f"it has no free inodes, although {free}: see `df -i`"
        if lacks_inodes(folder)
        else free,
        fix="free some space (`nox -s cache -- --prune --unused-for 7` removes what no build has "
        "used for a week), or move the work to another disk with CUWHEEL_CACHE, `-- --work DIR` or "
        "TMPDIR",
    )


def says_disk_full(lines: Iterable[str]) -> bool:
    """Whether a program's output says that a disk ran full, in the C library's or uv's words."""
    return any("No space left on device" in line or "os error 28" in line for line in lines)
