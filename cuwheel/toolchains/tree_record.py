"""What a folder consists of, and whether it still does: by reading only what may have changed.

Reading all of a toolchain takes seconds on every run, so the record of a folder holds beside the
content of each file what lstat(2) says of it: mode, inode number, size, time of the last change of
its content (mtime) and of anything about it (ctime). A file of which all that is as recorded is
taken to hold what it held; any other is read again.

Why this notices what happens to files: writing, truncating, chmod, rename, link and utime all set
ctime to the clock's time, and no call sets it to another one, so a file that is changed and given
its old size and mtime again differs in ctime. A file that replaced another has its own inode
number. Added and missing files show in the names, which are listed every time.

A change within one tick of the clock leaves ctime as it was (git's documents name this problem:
technical/racy-git). A file that was touched so shortly before it was recorded is therefore read
again the next time.

It doesn't notice what the file system itself doesn't: a bit that flips on a disk, writes to the
disk's device, a file touched while the clock showed the old time again. For that, nothing is taken
from the record but the names: `describe_tree(folder, {}, …)`.
"""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.system.files import describe_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_TICK = (
    1_000_000_000  # ns; the kernel's own are 10 ms at most, a file server's clock may be coarser
)
_THREADS = 4  # hashlib lets go of the interpreter lock


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """What was known of a file or link.

    Attributes:
        content: SHA-256 and execute bit, or the link's target: `files.describe_file`.
        stamp: what lstat said before it was read; empty where that can't show a change.
    """

    content: str
    stamp: tuple[int, ...]


def describe_tree(
    folder: Path, known: Mapping[str, FileRecord], *, skip: Callable[[str], bool]
) -> dict[str, FileRecord]:
    """Describe every file and link in a folder; those that are as known aren't read.

    Args:
        folder: the tree.
        known: what an earlier call gave; by path below the folder.
        skip: given such a path, returns whether it is left out.

    Raises:
        OSError: something can't be read.
    """
    clock = time.time_ns()
    stamps = {name: stamp for name, stamp in _walk(folder) if not skip(name)}
    changed = [
        name for name, stamp in stamps.items() if name not in known or known[name].stamp != stamp
    ]
    with ThreadPoolExecutor(_THREADS) as pool:
        contents = list(pool.map(lambda name: describe_file(folder / name), changed))
    tree = {name: known[name] for name in stamps.keys() - set(changed)}
    for name, content in zip(changed, contents, strict=True):
        is_settled = stamps[name][-1] < clock - _TICK
        tree[name] = FileRecord(content=content, stamp=stamps[name] if is_settled else ())
    return tree


def digest_of_tree(tree: Mapping[str, FileRecord]) -> str:
    """The SHA-256 that `files.sha256_of_tree` gives of the same files."""
    # By folder, as `name.split("/")` would: no name holds a zero byte, and nothing sorts before it.
    names = sorted(tree, key=lambda name: name.replace("/", "\0"))
    lines = (f"{tree[name].content} {name}" for name in names)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _walk(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each file and link below a folder, with its stamp; ctime comes last."""
    starts = [""]
    while starts:
        start = starts.pop()
        with os.scandir(folder / start) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    starts.append(f"{start}{entry.name}/")
                    continue
                status = entry.stat(follow_symlinks=False)
                stamp = (
                    status.st_mode,
                    status.st_ino,
                    status.st_size,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                )
                yield f"{start}{entry.name}", stamp
