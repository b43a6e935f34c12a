"""Reading of files: regular ones only, so that no reader waits for ever, and up to a limit.

In a folder of wheels, in a build's leftovers and on a command line, a name may be that of a FIFO,
a device, a link to another user's file, or a file larger than memory.
`tests/support/lint/file_readers.py` (a part of `nox -s lint`) checks that nothing else opens files.

- `open_file`, `read_text`, `read_bytes`: files of cuwheel's own or from the command line; links are
  followed.
- `open_regular`, `read_regular`: files that a package's code may have written; a link is refused.
- `open_within`: files in a folder from outside; a link must stay in that folder.
"""

from __future__ import annotations

import ast
import errno
import io
import json
import os
import re
import shutil
import stat
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from cuwheel.base import limits
from cuwheel.base.errors import IrregularFileError

_DEEPEST = 1000  # levels of a syntax tree, as Python's recursion limit
_IRREGULAR = "it is not a regular file"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def open_file(path: Path | str) -> BinaryIO:
    """Open a file for reading, following links."""
    return os.fdopen(open_descriptor(path), "rb")


def open_regular(path: Path | str) -> BinaryIO:
    """Open a file for reading; a link is refused."""
    return os.fdopen(open_descriptor(path, os.O_NOFOLLOW), "rb")


def open_within(path: Path, folder: Path) -> BinaryIO:
    """Open a file of a folder from outside; a link that leads out of the folder is refused.

    Raises:
        OSError: as `open_file`; or it lies elsewhere.
    """
    real = path.resolve(strict=True)
    if not real.is_relative_to(folder.resolve()):
        why = f"it is a link that leads out of {folder}"
        raise IrregularFileError(errno.ELOOP, why, str(path))
    return open_regular(real)


def open_descriptor(path: Path | str, flags: int = 0) -> int:
    """Open a file for reading, also as the `opener` of `io.FileIO` and `open`."""
    # Without O_NONBLOCK, opening a FIFO waits for its writer.
    reading = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        number = os.open(path, reading | flags)
    except OSError as problem:
        if problem.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        why = "it is a link" if problem.errno == errno.ELOOP else _IRREGULAR
        raise IrregularFileError(problem.errno, why, str(path)) from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise IrregularFileError(errno.EINVAL, _IRREGULAR, str(path))
    return number


def copy_regular(source: Path | str, target: Path | str) -> None:
    """Copy the bytes of a file; also a `copy_function` for `shutil.copytree`."""
    with open_file(source) as stream, open(target, "wb") as written:  # noqa: PTH123 - also a text
        shutil.copyfileobj(stream, written)


def read_regular(path: Path, *, limit: int) -> bytes:
    """Read a file of at most `limit` bytes; raises OSError."""
    with open_regular(path) as stream:
        # Not the limit at once, which would allocate as much memory.
        size = min(limit, os.fstat(stream.fileno()).st_size)
        content = stream.read(size + 1)
        if len(content) > size:  # it grew, or the file system reports 0
            content += stream.read(limit - size)
    if len(content) > limit:
        raise too_large(path, limit)
    return content


def too_large(path: Path, limit: int) -> OSError:
    """Return the error for a file of more than `limit` bytes."""
    why = f"it has more than {limit >> 20} MiB, the limit for such a file"
    return OSError(errno.EFBIG, why, str(path))


def read_json(path: Path) -> dict[str, Any] | None:
    """Read the JSON object in a file of cuwheel's.

    None where the file isn't there, was cut off by a crash or a full disk, isn't UTF-8, is too
    large or nested too deeply, or holds something else: callers go on as without the file.
    """
    try:
        content = parse_json(read_regular(path, limit=limits.JSON))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def parse_json(text: str | bytes, *, is_own: bool = False) -> Any:
    """Parse a JSON text; raises ValueError.

    One from outside may hold neither NaN nor half of a character, which can't be printed. One that
    a script of cuwheel's has written (`is_own`) may, as names of files aren't always UTF-8.
    """
    content = text if isinstance(text, str) else text.decode("utf-8-sig")
    try:
        value = json.loads(content, parse_constant=None if is_own else _refuse_constant)
        if not is_own and _SURROGATE.search(content):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON (RFC 8259)")


def is_regular(path: Path) -> bool:
    """Return True if a regular file is there; a link is none."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def read_text(
    path: Path,
    *,
    limit: int = limits.TEXT,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> str:
    """Read a text of at most `limit` characters, its ends of lines as newlines."""
    with io.TextIOWrapper(open_file(path), encoding=encoding, errors=errors) as stream:
        text = stream.read(limit + 1)
    if len(text) > limit:
        raise too_large(path, limit)
    return text


def read_bytes(path: Path, *, limit: int = limits.TEXT) -> bytes:
    """Read a file of at most `limit` bytes."""
    with open_file(path) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise too_large(path, limit)
    return content


def read_end(log: Path, *, limit: int = limits.LAST_OF_LOG) -> str:
    """Read the last `limit` bytes of a log of any length, from the first whole line on."""
    with open_file(log) as stream:
        begin = max(0, stream.seek(0, os.SEEK_END) - limit)
        stream.seek(begin)
        content = stream.read(limit)
    _, end_of_line, rest = content.partition(b"\n")
    return (rest if begin and end_of_line else content).decode(errors="replace")


def read_toml(path: Path) -> dict[str, Any]:
    """Read the table in a TOML file; bytes that are no UTF-8 are replaced; raises ValueError."""
    import tomli  # noqa: PLC0415 - not there yet where cuwheel.bootstrap runs

    try:
        return tomli.loads(read_text(path, errors="replace"))
    except RecursionError as problem:
        raise ValueError(str(problem)) from None


def read_module(path: Path) -> ast.Module:
    """Parse a Python file; raises ValueError."""
    try:
        tree = parse_module(read_bytes(path, limit=limits.PYTHON))
    except SyntaxError as problem:
        raise ValueError(str(problem)) from problem
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):  # from 3.14 on Python parses what it can't walk
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise ValueError("it is nested too deeply")


def parse_module(content: bytes, minor: int | None = None) -> ast.Module:
    """Parse Python code, as this Python or an older 3.`minor` does as far as `ast` knows.

    Deep nesting exhausts a parser's stack: with Python 3.10 `ast` may even end the process. A tree
    may be too deep for recursion.

    Raises:
        SyntaxError: that Python doesn't compile it.
        ValueError: it is nested too deeply, or holds a zero byte.
    """
    version = None if minor is None else (3, minor)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in texts
            return ast.parse(content, feature_version=version)
    except (MemoryError, RecursionError) as problem:
        raise ValueError(f"it is nested too deeply: {problem}") from None


def compile_fault(content: bytes) -> SyntaxError | None:
    """Return why this Python refuses code that its parser reads: `return` outside of a function.

    The compiler copies what is in `finally` to each way out of the block, so that a few lines could
    fill memory: it gets that as `else`, of which there is one copy.
    """
    try:
        code = _without_finally(parse_module(content)) if b"finally" in content else content
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "", "exec", dont_inherit=True)
    except SyntaxError as problem:
        return problem
    except (ValueError, MemoryError, RecursionError):
        return None
    return None


def _without_finally(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if final := getattr(node, "finalbody", None):
            place = {"lineno": final[0].lineno, "col_offset": 0}
            handler = ast.ExceptHandler(type=None, name=None, body=[ast.Pass(**place)], **place)
            node.handlers = node.handlers or [handler]  # type: ignore[attr-defined]
            node.orelse, node.finalbody = [*node.orelse, *final], []  # type: ignore[attr-defined]
    return tree
