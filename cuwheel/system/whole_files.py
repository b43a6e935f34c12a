"""Files that are read whole: none that is larger than a limit.

A lock, a patch, a log or a record comes from people whom nobody knows, or was spoilt by a full disk
or a program that never ends. What reads such a file line by line needs none of this, and what a
package's own code has written is for `regular_files`.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from cuwheel import limits

if TYPE_CHECKING:
    from pathlib import Path


def read_text(
    path: Path,
    *,
    limit: int = limits.TEXT,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> str:
    """The text of a file, its ends of lines as newlines.

    Args:
        path: of the file.
        limit: characters that it may have.
        encoding: of its text.
        errors: what becomes of bytes that aren't of that encoding; as `open` has it.

    Raises:
        OSError: it can't be read, or is larger.
        UnicodeDecodeError: `errors` is `strict`, and it isn't of that encoding.
    """
    with path.open(encoding=encoding, errors=errors) as stream:
        text = stream.read(limit + 1)
    if len(text) > limit:
        raise _too_large(path, limit)
    return text


def read_bytes(path: Path, *, limit: int = limits.TEXT) -> bytes:
    """The bytes of a file.

    Args:
        path: of the file.
        limit: bytes that it may have.

    Raises:
        OSError: it can't be read, or is larger.
    """
    with path.open("rb") as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise _too_large(path, limit)
    return content


def read_end(log: Path, *, limit: int = limits.LAST_OF_LOG) -> str:
    """The last of a log, of any length: from the first line on that begins in its last bytes.

    Args:
        log: the file.
        limit: bytes of it.

    Raises:
        OSError: it can't be read.
    """
    with log.open("rb") as stream:
        begin = max(0, stream.seek(0, os.SEEK_END) - limit)
        stream.seek(begin)
        content = stream.read(limit)
    _, end_of_line, rest = content.partition(b"\n")
    return (rest if begin and end_of_line else content).decode(errors="replace")


def _too_large(path: Path, limit: int) -> OSError:
    says = f"it has more than {limit >> 20} MiB, the limit for such a file"
    return OSError(errno.EFBIG, says, str(path))
