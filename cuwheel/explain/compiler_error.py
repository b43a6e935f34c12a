"""The first error of a compiler in a log, with its place and the command that was run.

Forms of messages: GCC's and Clang's `file:line:column: error: …` (GNU Coding Standards, "Formatting
Error Messages"), nvcc's `file(line): error: …` (EDG), ptxas' `file, line n; error : …`, CMake's
`CMake Error at file:line (command):`.
"""

from __future__ import annotations

import collections
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.errors import FirstError
from cuwheel.explain.log_text import blocks, undecorated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_PLACED = re.compile(
    r"""(?:ptxas\s+)?(?P<file>[^\s:()'"][^:()'"]*)
    (?: :(?P<line>\d+):(?P<column>\d+:)?\s*(?:fatal\s)?error:
      | \((?P<line_nvcc>\d+)\):\s*(?:catastrophic\s)?error(?:\s[\#\w-]+)?:
      | ,\sline\s(?P<line_ptxas>\d+);\s(?:error|fatal)\s*:
    )\s*(?P<text>.*)""",
    re.VERBOSE,
)
_CMAKE = re.compile(r"CMake Error at (?P<file>[^:\s]+):(?P<line>\d+)")  # its text stands below
# Without a place: of a program as a whole.
_BARE = re.compile(r"(?P<text>(?:nvcc|ptxas|nvlink|cicc)\s*(?:fatal|error)\s*:.*)")
_SIGNS = (b"error", b"Error", b"fatal")
_COMPILER = re.compile(r"(?:^|[\s/])(?:nvcc|g?cc|[gc]\+\+|clang(?:\+\+)?)(?:-\d+)?\s")
_STEP = re.compile(r"^\[\d+/\d+\] ")  # ninja's
_LOOKED_BACK = 200  # lines; of builds side by side, others' output stands between
_LONGEST = 160  # characters of a command that is shown whole


def first_compiler_error(log: Path) -> FirstError | None:
    """The first error in a log that names a file and a line, else the first of a compiler.

    Returns:
        None: no compiler has complained.

    Raises:
        OSError: the log can't be read.
    """
    before: collections.deque[tuple[int, str]] = collections.deque(maxlen=_LOOKED_BACK)
    bare = None
    lines = _lines(log)
    for number, raw in lines:
        line = undecorated(raw.decode("utf-8", "replace"))
        if any(sign in raw for sign in _SIGNS):
            if found := _PLACED.match(line):
                return _placed(found, before)
            if found := _CMAKE.match(line):
                said = next((below.strip() for _, below in lines if below.strip()), b"")
                text = f"{found['file']}:{found['line']}: error: {said.decode('utf-8', 'replace')}"
                return FirstError(file=found["file"], line=found["line"], text=text, command="")
            if bare is None and (found := _BARE.match(line)):
                bare = FirstError(file="", line="", text=found["text"], command="")
        before.append((number, line))
    return bare


def _lines(log: Path) -> Iterator[tuple[int, bytes]]:
    with log.open("rb") as stream:
        for block in blocks(stream):
            yield from enumerate(block.text[: block.fresh].splitlines(), block.number)


def _placed(found: re.Match[str], before: collections.deque[tuple[int, str]]) -> FirstError:
    file, line = found["file"].strip(), found["line"] or found["line_nvcc"] or found["line_ptxas"]
    return FirstError(
        file=file,
        line=line,
        text=f"{file}:{line}:{found['column'] or ''} error: {found['text']}",
        command=_command_of(file, before),
    )


def _command_of(file: str, before: collections.deque[tuple[int, str]]) -> str:
    """The nearest command above that compiles the file, as it can be read at a glance."""
    name = PurePosixPath(file).name
    for number, line in reversed(before):
        if name in line and _COMPILER.search(line):
            words = _STEP.sub("", line).strip()
            if len(words) <= _LONGEST:
                return words
            program = words.split()[0]
            return f"{program} … -c {file} … (line {number} of the log has all of it)"
    return ""
