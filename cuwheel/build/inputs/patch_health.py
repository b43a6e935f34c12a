"""The health of patches on a source that they weren't made for: exact, moved, obsolete or broken.

A build applies patches exactly (`patches`). Here one is searched elsewhere in its files too, and
rewritten for the place where it was found; or its result is there already.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchedFile, PatchSet

from cuwheel.base import limits
from cuwheel.base.system.regular_files import read_bytes
from cuwheel.build.inputs.patches import (
    lines_of,
    name_in_tree,
    name_of_hunk,
    positions,
    try_patch,
)

State = Literal["applies", "offset", "obsolete", "broken"]

_BYTES = "latin-1"  # as `patches` reads files: each byte is a character
_NOWHERE = "/dev/null"
_NO_EFFECT = "it has no effect"
_HEADER = re.compile(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")


@dataclass(frozen=True, kw_only=True)
class PatchHealth:
    """The health of a patch on a source to which the patches before it were applied.

    Attributes:
        state: `applies`; `offset`: its lines are elsewhere in their files; `obsolete`: the source
            has the change; `broken`: neither.
        details: of `offset`, how far each hunk moved; of `broken`, what is wrong with which hunk.
        content: the patch as it applies exactly; of `obsolete` and `broken`, as it was.
    """

    file: str
    state: State
    details: tuple[str, ...]
    content: bytes


def check_patches(patches: Mapping[str, bytes], tree: Path) -> tuple[PatchHealth, ...]:
    """Try patches one after the other; those that fit change the tree."""
    return tuple(_check(file, content, tree) for file, content in patches.items())


def _check(file: str, content: bytes, tree: Path) -> PatchHealth:
    def health(state: State, *details: str, content: bytes = content) -> PatchHealth:
        return PatchHealth(file=file, state=state, details=details, content=content)

    exact = try_patch(content, tree)
    if not exact.problems and exact.has_effect:
        exact.write()
        return health("applies")
    try:
        files = PatchSet(content.decode(_BYTES))
    except UnidiffParseError:
        return health("broken", *exact.problems)
    moved = _Moved(files, tree, forward=True)
    if moved.is_found:
        rewritten = moved.rewrite(content)
        again = try_patch(rewritten, tree)
        if not again.problems and again.has_effect:
            again.write()
            return health("offset", *moved.details(), content=rewritten)
    if _Moved(files, tree, forward=False).is_found:
        return health("obsolete")
    return health("broken", *(exact.problems or [_NO_EFFECT]))


class _Moved:
    """The places of a patch's hunks in a tree: of their lines before it, or after it."""

    def __init__(self, files: PatchSet, tree: Path, *, forward: bool) -> None:
        self._files = files
        self._tree = tree
        self._forward = forward
        self._absent = "+" if forward else "-"  # the lines that aren't searched
        self._shifts: dict[int, int] = {}  # by first line of the hunk
        self.is_found = bool(files) and all(map(self._find_file, files))

    def _find_file(self, file: PatchedFile) -> bool:
        before, after = file.source_file, file.target_file
        if not self._forward:
            before, after = after, before
        name = name_in_tree(after if before == _NOWHERE else before)
        path = self._tree / name
        if before == _NOWHERE:
            return bool(name) and not path.exists()
        if not name or not path.is_file() or path.is_symlink():
            return False
        content = read_bytes(path, limit=limits.PATCHED_FILE)
        text = list(io.StringIO(content.decode(_BYTES)))
        if after == _NOWHERE:  # all of the file, not a part
            return lines_of(file[0], without=self._absent) == text if len(file) else not text
        return len(file) > 0 and self._find_hunks(file, text)

    def _find_hunks(self, file: PatchedFile, text: list[str]) -> bool:
        done = shift = 0
        for hunk in file:
            lines = lines_of(hunk, without=self._absent)
            nominal = (hunk.source_start if self._forward else hunk.target_start) - bool(lines)
            places = list(positions(lines, text, done)) if lines else []
            if not places:
                return False
            place = min(places, key=lambda at: abs(at - nominal - shift))
            shift, done = place - nominal, place + len(lines)
            self._shifts[_first_line(hunk)] = shift
        return True

    def details(self) -> Iterator[str]:
        """Yield how far each hunk has moved."""
        for file in self._files:
            for number, hunk in enumerate(file, 1):
                if shift := self._shifts.get(_first_line(hunk), 0):
                    way = "down" if shift > 0 else "up"
                    yield f"{name_of_hunk(hunk, number, file.path)}: {abs(shift)} lines {way}"

    def rewrite(self, content: bytes) -> bytes:
        """Return the patch with the line numbers of the places; nothing else changes."""
        lines = content.decode(_BYTES).split("\n")
        for file in self._files:
            grown = 0
            for hunk in file:
                start = hunk.source_start + self._shifts.get(_first_line(hunk), 0)
                # An empty side is named by the line before it (GNU diffutils, "Detailed Unified").
                target = start + grown + (hunk.target_length > 0) - (hunk.source_length > 0)
                source_span = _span(start, hunk.source_length)
                header = f"@@ -{source_span} +{_span(target, hunk.target_length)} @@"
                at = _first_line(hunk) - 2
                lines[at] = _HEADER.sub(header, lines[at], count=1)
                grown += hunk.target_length - hunk.source_length
        return "\n".join(lines).encode(_BYTES)


def _first_line(hunk: Hunk) -> int:
    """Return the number of the line after the hunk's header, in the patch."""
    return int(hunk[0].diff_line_no or 0)


def _span(start: int, length: int) -> str:
    return f"{start}" if length == 1 else f"{start},{length}"
