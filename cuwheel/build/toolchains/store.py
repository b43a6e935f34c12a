"""The content-addressed store: folders in the cache that are whole and unchanged, or made again.

Reading all of a toolchain takes seconds on every run, so the record of a folder holds next to the
content of each file its stamp from lstat(2): mode, inode number, size, time of the last change of
its content (mtime) and of anything about it (ctime). A file with the recorded stamp is taken to
have the recorded content; any other is read again.

Changes are noticed because writing, truncating, chmod, rename, link and utime all set ctime to the
clock's time, and no call sets it to another one: a file that is changed and given its old size and
mtime again differs in ctime. A file that replaced another has its own inode number. Added and
missing files show in the names, which are listed every time.

A change within one tick of the clock leaves ctime as it was (git's documents name this problem:
technical/racy-git). A file that was touched so shortly before it was recorded is therefore read
again the next time.

Changes outside of the file system aren't noticed: a bit that flips on a disk, writes to the disk's
device, a file touched while the clock showed the old time again. To find these,
`reads_all` reads every file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cuwheel.base.formats.wheel.record import record_digest
from cuwheel.base.system.cache_folder import hold
from cuwheel.base.system.files import (
    describe_file,
    file_lock,
    naming_full_disk,
    new_folder,
    remove_leftovers,
    remove_tree,
    stamp_of,
    write_atomically,
)
from cuwheel.base.system.regular_files import read_json
from cuwheel.build.workspace.workspace import Workspace

_SHA256 = re.compile(r"[0-9a-f]{64}")
_RECORD = "cuwheel.json"  # written last, and no part of what it describes
_TICK = 1_000_000_000  # ns; the kernel's are 10 ms at most, a file server's clock may be coarser
_SIZE = 2  # in a stamp
_LITTLE = 256 << 20  # bytes that are read sooner than the records of tens of other folders
_THREADS = 4  # hashlib releases the interpreter lock


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file or link.

    Attributes:
        content: SHA-256 and execute bit, or the link's target: `files.describe_file`.
        stamp: from lstat before it was read; empty if it can't show a change.
    """

    content: str
    stamp: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A folder of the store.

    Attributes:
        tree: SHA-256 over the names and contents of all files in it.
    """

    folder: Path
    tree: str
    facts: Mapping[str, Any]


def obtain(
    folder: Path,
    make: Callable[[Path], Mapping[str, Any]],
    workspace: Workspace,
    *,
    reads_all: bool = False,
) -> Stored:
    """Return a folder of the store, which is made if it is missing or has changed.

    Two processes that need the same folder make it once.

    Args:
        folder: with a name that holds a hash of everything that it's made from.
        make: fills a new folder, which is renamed afterwards, and returns facts for JSON.
        reads_all: compare the content of every file; otherwise only of those with new stamps of
            the file system, and of none in a folder that this process has checked.

    Raises:
        DiskFullError: the disk of the store ran full.
        CuwheelError: as `make`; nothing is left then.
    """
    console, checked = workspace.console, workspace.checked

    def note_waiting() -> None:
        console.note(f"another cuwheel is making {folder.name}; waiting for it")

    if not reads_all and folder in checked and folder.is_dir():
        stored: Stored = checked[folder]
        return stored
    with file_lock(folder.with_name(f"{folder.name}.lock"), on_wait=note_waiting):
        remove_leftovers(folder)
        valid = _read(folder, reads_all=reads_all)
        if valid is None:
            if folder.exists():
                console.warn(f"{folder.name} was damaged and is made again")
                remove_tree(folder)
            valid = _fill(folder, make)
        hold(folder)
    checked[folder] = valid
    return valid


def _read(folder: Path, *, reads_all: bool) -> Stored | None:
    """Return the existing folder if it is unchanged."""
    record = read_json(folder / _RECORD) or {}
    try:
        known = _files_of(record)
        stored = Stored(folder=folder, tree=record["tree"], facts=record["facts"])
        others = dict if reads_all else partial(_recorded_stamps, folder)
        files = describe_tree(folder, {} if reads_all else known, others)
        for name in files.keys() - known.keys():
            if "__pycache__" in name.split("/"):  # compiled later, from an unknown source
                (folder / name).unlink()
                del files[name]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    if digest_of_tree(files) != stored.tree:
        return None
    if files != known:
        _write_record(stored, files)  # with stamps that spare the next read
    return stored


def _fill(folder: Path, make: Callable[[Path], Mapping[str, Any]]) -> Stored:
    with naming_full_disk(folder.parent), new_folder(folder) as new:
        facts = make(new)
        files = describe_tree(new, {})
        stored = Stored(folder=new, tree=digest_of_tree(files), facts=facts)
        _write_record(stored, files)
    return dataclasses.replace(stored, folder=folder)


def _write_record(stored: Stored, files: Mapping[str, StoredFile]) -> None:
    listed = {name: (file.content, *file.stamp) for name, file in files.items()}
    text = json.dumps({"tree": stored.tree, "facts": stored.facts, "files": listed})
    write_atomically(stored.folder / _RECORD, text)


def _files_of(record: Mapping[str, Any]) -> dict[str, StoredFile]:
    return {
        name: StoredFile(content=content, stamp=tuple(stamp))
        for name, (content, *stamp) in record.get("files", {}).items()
    }


def recorded_files(folder: Path) -> dict[str, StoredFile]:
    """Return what the record of a folder lists, by path below it; empty where it has none."""
    try:
        return _files_of(read_json(folder / _RECORD) or {})
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def find_equal_files(
    listed: Mapping[str, str], folders: Iterable[Path], *, below: str
) -> dict[str, Path]:
    """Find files of the same name and content that are as their folder's record describes them.

    Args:
        listed: hashes in RECORD's form by path.
        below: the name of a folder; paths are compared from there on, where they lead through it.

    Returns:
        The first of them, by the path that is listed.
    """
    wanted = {_name_below(path, below): path for path in listed}
    equal: dict[str, Path] = {}
    for folder in folders:
        for name, file in recorded_files(folder).items():
            path = wanted.get(_name_below(name, below), "")
            is_new = path and path not in equal and file.stamp
            if is_new and _has_digest(file, listed[path]) and _is_as_recorded(folder / name, file):
                equal[path] = folder / name
    return equal


def _name_below(path: str, folder: str) -> str:
    return path.partition(f"/{folder}/")[2] or path


def _has_digest(file: StoredFile, digest: str) -> bool:
    sha256 = _SHA256.match(file.content)
    return sha256 is not None and record_digest("sha256", bytes.fromhex(sha256[0])) == digest


def _is_as_recorded(path: Path, file: StoredFile) -> bool:
    try:
        return stamp_of(path.lstat()) == file.stamp
    except OSError:
        return False


def _recorded_stamps(folder: Path) -> dict[tuple[int, ...], str]:
    """Return the contents by stamp that records of the folders next to one list.

    A file with a name in several folders gets another ctime with each, so the one that was made
    last knows its stamp: it read the file then.
    """
    return {
        file.stamp: file.content
        for record in folder.parent.glob(f"[!.]*/{_RECORD}")
        if record.parent != folder
        for file in recorded_files(record.parent).values()
        if file.stamp
    }


def describe_tree(
    folder: Path,
    known: Mapping[str, StoredFile],
    others: Callable[[], Mapping[tuple[int, ...], str]] = dict,
) -> dict[str, StoredFile]:
    """Describe every file and link in a folder; those with a known stamp aren't read.

    Args:
        known: the result of an earlier call, by path below the folder.
        others: returns contents by stamp of the same disk's files, where many bytes have another
            stamp.

    Raises:
        OSError: something can't be read.
    """
    clock = time.time_ns()
    stamps = {name: stamp for name, stamp in _walk(folder) if name != _RECORD}
    changed = [
        name for name, stamp in stamps.items() if name not in known or known[name].stamp != stamp
    ]
    tree = {name: known[name] for name in stamps.keys() - set(changed)}
    is_much = sum(stamps[name][_SIZE] for name in changed) > _LITTLE
    elsewhere = others() if is_much else {}
    for name in changed:
        if content := elsewhere.get(stamps[name]):
            tree[name] = StoredFile(content=content, stamp=stamps[name])
    unread = [name for name in changed if name not in tree]
    with ThreadPoolExecutor(_THREADS) as pool:
        contents = list(pool.map(lambda name: describe_file(folder / name), unread))
    for name, content in zip(unread, contents, strict=True):
        is_settled = stamps[name][-1] < clock - _TICK
        tree[name] = StoredFile(content=content, stamp=stamps[name] if is_settled else ())
    return tree


def digest_of_tree(tree: Mapping[str, StoredFile]) -> str:
    """Return the SHA-256 that `files.sha256_of_tree` computes of the same files."""
    # By folder, as `name.split("/")` would: no name holds a zero byte, and nothing sorts before it.
    names = sorted(tree, key=lambda name: name.replace("/", "\0"))
    lines = (f"{tree[name].content} {name}" for name in names)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _walk(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each file and link below a folder, with its stamp; ctime comes last."""
    starts = [""]
    while starts:
        start = starts.pop()
        with os.scandir(folder / start) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    starts.append(f"{start}{entry.name}/")
                    continue
                yield f"{start}{entry.name}", stamp_of(entry.stat(follow_symlinks=False))
