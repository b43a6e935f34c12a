"""The first error of a compiler in a log, with its place and its command.

Forms of messages: GCC's and Clang's `file:line:column: error: …` (GNU Coding Standards, "Formatting
Error Messages"), nvcc's `file(line): error: …` (EDG), ptxas' `file, line n; error : …`, CMake's
`CMake Error at file:line (command):`.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from cuwheel.base.errors import FirstError
from cuwheel.base.system.regular_files import open_file
from cuwheel.check.explain.log_text import blocks, undecorated

_PLACED = re.compile(
    r"""(?:ptxas\s+)?(?P<file>[^\s:()'"][^:()'"]*)
    (?: :(?P<line>\d+):(?P<column>\d+:)?\s*(?:fatal\s)?error:
      | \((?P<line_nvcc>\d+)\):\s*(?:catastrophic\s)?error(?:\s[\#\w-]+)?:
      | ,\sline\s(?P<line_ptxas>\d+);\s(?:error|fatal)\s*:
    )\s*(?P<text>.*)""",
    re.VERBOSE,
)
_CMAKE = re.compile(r"CMake Error at (?P<file>[^:\s]+):(?P<line>\d+)")  # its text is below
# Without a place: errors of a program as a whole.
_BARE = re.compile(r"(?P<text>(?:nvcc|ptxas|nvlink|cicc)\s*(?:fatal|error)\s*:.*)")
_SIGNS = (b"error", b"Error", b"fatal")
_COMPILER = re.compile(r"(?:^|[\s/])(?:nvcc|g?cc|[gc]\+\+|clang(?:\+\+)?)(?:-\d+)?\s")
_STEP = re.compile(r"^\[\d+/\d+\] ")  # ninja's
_LOOKED_BACK = 200  # lines; parallel builds mix their output
_LONGEST = 160  # characters of a command that is shown whole


def first_compiler_error(log: Path) -> FirstError | None:
    """Return the first error in a log that names a file and a line, else the first of a compiler.

    Returns:
        None: no compiler reports an error.

    Raises:
        OSError: the log can't be read.
    """
    before: collections.deque[tuple[int, str]] = collections.deque(maxlen=_LOOKED_BACK)
    bare = None
    for number, raw in (lines := _lines(log)):
        line = undecorated(raw.decode("utf-8", "replace"))
        if any(sign in raw for sign in _SIGNS):
            if match := _PLACED.match(line):
                return _placed(match, before)
            if match := _CMAKE.match(line):
                detail = next((below.strip() for _, below in lines if below.strip()), b"")
                text = (
                    f"{match['file']}:{match['line']}: error: {detail.decode('utf-8', 'replace')}"
                )
                return FirstError(file=match["file"], line=match["line"], text=text, command="")
            if bare is None and (match := _BARE.match(line)):
                bare = FirstError(file="", line="", text=match["text"], command="")
        before.append((number, line))
    return bare


def _lines(log: Path) -> Iterator[tuple[int, bytes]]:
    with open_file(log) as stream:
        for block in blocks(stream):
            yield from enumerate(block.text[: block.fresh].splitlines(), block.number)


def _placed(match: re.Match[str], before: collections.deque[tuple[int, str]]) -> FirstError:
    file, line = match["file"].strip(), match["line"] or match["line_nvcc"] or match["line_ptxas"]
    return FirstError(
        file=file,
        line=line,
        text=f"{file}:{line}:{match['column'] or ''} error: {match['text']}",
        command=_command_of(file, before),
    )


def _command_of(file: str, before: collections.deque[tuple[int, str]]) -> str:
    """Return the nearest command above that compiles the file, shortened."""
    name = PurePosixPath(file).name
    for number, line in reversed(before):
        if name in line and _COMPILER.search(line):
            command = _STEP.sub("", line).strip()
            if len(command) <= _LONGEST:
                return command
            program = command.split()[0]
            return f"{program} … -c {file} … (line {number} of the log has all of it)"
    return ""
