"""Whether patches still fit a source that they weren't made for: as they are, moved, or no more.

A build applies patches exactly (`patches`). Here one is looked for elsewhere in its files too, and
written again for the place where it was found; or its result is there already.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from cuwheel import limits
from cuwheel.sources.patches import lines_of, name_in_tree, name_of_hunk, quoted, try_patch
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from unidiff.patch import Hunk, PatchedFile

State = Literal["applies", "offset", "obsolete", "broken"]

_BYTES = "latin-1"  # as `patches` reads files: each byte is a character
_NOWHERE = "/dev/null"
_HEADER = re.compile(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")


@dataclass(frozen=True, kw_only=True)
class PatchHealth:
    """Whether one patch fits a source to which the patches before it were applied.

    Attributes:
        file: the patch.
        state: `applies`; `offset`: its lines stand elsewhere in their files; `obsolete`: the source
            has the change; `broken`: neither.
        details: of `offset`, how far each hunk moved; of `broken`, what is wrong with which hunk.
        content: the patch as it applies exactly; of `obsolete` and `broken`, as it was.
    """

    file: str
    state: State
    details: tuple[str, ...]
    content: bytes


def check_patches(patches: Mapping[str, bytes], tree: Path) -> tuple[PatchHealth, ...]:
    """Try patches one after the other; those that fit change the tree.

    Args:
        patches: content by file name, in the order in which they apply.
        tree: a copy of the source, for this alone.
    """
    return tuple(_check(file, content, tree) for file, content in patches.items())


def _check(file: str, content: bytes, tree: Path) -> PatchHealth:
    exact = try_patch(content, tree)
    if not exact.problems and exact.has_effect:
        exact.write()
        return PatchHealth(file=file, state="applies", details=(), content=content)
    try:
        files = PatchSet(content.decode(_BYTES))
    except UnidiffParseError:
        return PatchHealth(
            file=file, state="broken", details=tuple(exact.problems), content=content
        )
    moved = _Moved(files, tree, forward=True)
    if moved.is_found:
        rewritten = moved.rewritten(content)
        again = try_patch(rewritten, tree)
        if not again.problems and again.has_effect:
            again.write()
            details = tuple(moved.details())
            return PatchHealth(file=file, state="offset", details=details, content=rewritten)
    if _Moved(files, tree, forward=False).is_found:
        return PatchHealth(file=file, state="obsolete", details=(), content=content)
    details = tuple(_misfits(files, tree)) or tuple(exact.problems) or ("it has no effect",)
    return PatchHealth(file=file, state="broken", details=details, content=content)


def _misfits(files: PatchSet, tree: Path) -> Iterator[str]:
    """What each hunk that fits nowhere misses."""
    for file in files:
        path = tree / name_in_tree(file.source_file)
        if not path.is_file() or path.is_symlink():
            continue
        text = list(io.StringIO(read_bytes(path, limit=limits.PATCHED_FILE).decode(_BYTES)))
        for number, hunk in enumerate(file, 1):
            wanted = lines_of(hunk, without="+")
            if not wanted or next(_positions(wanted, text, 0), None) is not None:
                continue
            name = name_of_hunk(hunk, number, file.path)
            if next(_positions(lines_of(hunk, without="-"), text, 0), None) is not None:
                yield f"{name}: upstream already has this part of the patch"
                continue
            yield f"{name}: {_lost(wanted, text)}"


def _lost(wanted: list[str], text: list[str]) -> str:
    """Which lines of a hunk its file no longer has, and where the others stand."""
    blocks = SequenceMatcher(None, wanted, text, autojunk=False).get_matching_blocks()
    there = {at + one for at, _, size in blocks for one in range(size)}
    lost = [line for number, line in enumerate(wanted) if number not in there]
    near = max(blocks, key=lambda block: block.size)
    if not lost:
        return f"its lines are no longer consecutive; the first are at line {near.b + 1}"
    rest = f"; the rest is near line {near.b + 1}" if there else ""
    return f"{len(lost)} of its {len(wanted)} lines are gone, first {quoted(lost[0])}{rest}"


class _Moved:
    """Where the hunks of a patch stand in a tree: what it expects, or what it leaves."""

    def __init__(self, files: PatchSet, tree: Path, *, forward: bool) -> None:
        self._files = files
        self._tree = tree
        self._forward = forward
        self._places: dict[int, tuple[Hunk, int]] = {}  # first line of the hunk → place
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
        text = list(io.StringIO(read_bytes(path, limit=limits.PATCHED_FILE).decode(_BYTES)))
        if after == _NOWHERE:  # all of the file, not a part
            return lines_of(file[0], without=self._gone) == text if len(file) else not text
        return len(file) > 0 and self._find_hunks(file, text)

    def _find_hunks(self, file: PatchedFile, text: list[str]) -> bool:
        done = shift = 0
        for hunk in file:
            wanted = lines_of(hunk, without=self._gone)
            nominal = (hunk.source_start if self._forward else hunk.target_start) - bool(wanted)
            places = list(_positions(wanted, text, done)) if wanted else []
            if not places:
                return False
            place = min(places, key=lambda at: abs(at - nominal - shift))
            shift, done = place - nominal, place + len(wanted)
            self._places[_first_line(hunk)] = (hunk, shift)
        return True

    @property
    def _gone(self) -> str:
        """The lines that aren't looked for."""
        return "+" if self._forward else "-"

    def details(self) -> Iterator[str]:
        """How far each hunk has moved."""
        for file in self._files:
            for number, hunk in enumerate(file, 1):
                _, shift = self._places.get(_first_line(hunk), (hunk, 0))
                if shift:
                    way = "down" if shift > 0 else "up"
                    yield f"{name_of_hunk(hunk, number, file.path)}: {abs(shift)} lines {way}"

    def rewritten(self, content: bytes) -> bytes:
        """The patch with the line numbers of the places that were found; nothing else changes."""
        lines = content.decode(_BYTES).split("\n")
        for file in self._files:
            grown = 0
            for hunk in file:
                _, shift = self._places.get(_first_line(hunk), (hunk, 0))
                start = hunk.source_start + shift
                # An empty side is named by the line before it (GNU diffutils, "Detailed Unified").
                target = start + grown + (hunk.target_length > 0) - (hunk.source_length > 0)
                header = (
                    f"@@ -{_span(start, hunk.source_length)} "
                    f"+{_span(target, hunk.target_length)} @@"
                )
                at = _first_line(hunk) - 2
                lines[at] = _HEADER.sub(header, lines[at], count=1)
                grown += hunk.target_length - hunk.source_length
        return "\n".join(lines).encode(_BYTES)


def _positions(wanted: list[str], text: list[str], after: int) -> Iterator[int]:
    """Every place where a run of lines stands."""
    count = len(wanted)
    for at in range(after, len(text) - count + 1):
        if text[at] == wanted[0] and text[at : at + count] == wanted:
            yield at


def _first_line(hunk: Hunk) -> int:
    """Number of the line behind the hunk's header, in the patch."""
    return int(hunk[0].diff_line_no or 0)


def _span(start: int, length: int) -> str:
    return f"{start}" if length == 1 else f"{start},{length}"
