"""Files that a package's code may have written: opened so that nothing lies in wait there.

A name may stand for a FIFO, at which a reader waits for ever, for a link to a file that isn't the
package's, or for more than memory holds. Whoever reads what a build, a hook or an import has left
does it here.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import TYPE_CHECKING, Any, BinaryIO

from cuwheel import limits

if TYPE_CHECKING:
    from pathlib import Path


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, if it is one.

    Raises:
        OSError: it isn't there, can't be read, or is a link, a folder, a FIFO, a socket, a device.
    """
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(number, "rb")


def read_regular(path: Path, *, limit: int) -> bytes:
    """What a file holds.

    Args:
        path: of the file.
        limit: bytes that it may have.

    Raises:
        OSError: as `open_regular`; or it is larger.
    """
    with open_regular(path) as stream:
        # Not the limit at once: that is memory which the system would have to give and take back.
        size = min(limit, os.fstat(stream.fileno()).st_size)
        content = stream.read(size + 1)
        if len(content) > size:  # it grew, or is one of those whose size is 0
            content += stream.read(limit - size)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit >> 20} MiB", str(path))
    return content


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object that a file of ours holds.

    None where there is none: the file isn't there, was cut off by a crash or a full disk, isn't
    UTF-8, is too large or nested without end, or holds something else. Whoever reads a record does
    then what is done without one.
    """
    try:
        content = json.loads(read_regular(path, limit=limits.JSON).decode())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def is_regular(path: Path) -> bool:
    """Whether a file is there, and no link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
