"""Apply a unified diff exactly: every line at its place, or not at all.

unidiff reads the patch; where its lines go is decided here. Text is handled as Latin-1, which maps
each byte to one character and back, so that a file in any encoding survives.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import unidiff

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BYTES = "latin-1"
_NOWHERE = "/dev/null"  # stands for the file that isn't there, before or after
_NO_NEWLINE = "\\"  # unidiff's type of the line "\ No newline at end of file"
_EXECUTABLE = 0o111


@dataclass(kw_only=True)
class Patched:
    """What a patch makes of a tree, which is not touched before `write`.

    Attributes:
        tree: the folder.
        problems: why it doesn't apply, one for each hunk or file.
        contents: of each changed file, by its name in the tree; None: it is deleted.
        executable: the changed files whose execute bits the patch sets or takes away.
    """

    tree: Path
    problems: list[str] = field(default_factory=list)
    contents: dict[str, bytes | None] = field(default_factory=dict)
    executable: dict[str, bool] = field(default_factory=dict)

    @property
    def has_effect(self) -> bool:
        """Whether anything would be different afterwards."""
        changed = any(self.content(name) != self.original(name) for name in self.contents)
        return changed or any(
            is_set != bool((self.tree / name).stat().st_mode & _EXECUTABLE)
            for name, is_set in self.executable.items()
            if (self.tree / name).is_file()
        )

    def original(self, name: str) -> bytes | None:
        """The file as it is on disk."""
        path = self.tree / name
        return path.read_bytes() if path.is_file() else None

    def content(self, name: str) -> bytes | None:
        """The file as the patch has left it so far; None when there is none."""
        return self.contents[name] if name in self.contents else self.original(name)

    def write(self) -> None:
        """Change the tree.

        Raises:
            OSError: it can't be written.
        """
        for name, content in self.contents.items():
            path = self.tree / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        for name, is_set in self.executable.items():
            (self.tree / name).chmod(0o755 if is_set else 0o644)


def try_patch(patch: bytes, tree: Path) -> Patched:
    """Find out what a patch makes of a tree.

    Args:
        patch: the content of the patch file, as git writes it: names begin with `a/` and `b/`.
        tree: the folder that those names are relative to.

    Returns:
        The outcome, with all problems.
    """
    patched = Patched(tree=tree)
    text = patch.decode(_BYTES)
    try:
        files = unidiff.PatchSet(text)
    except unidiff.UnidiffParseError as problem:
        patched.problems.append(f"it is no unified diff: {problem}".strip())
        return patched
    patched.problems += _lost_lines(files, text.split("\n"))
    for file in files:
        _patch_file(file, patched)
    return patched


def _lost_lines(files: unidiff.PatchSet, lines: Sequence[str]) -> Iterator[str]:
    """Lines after a hunk that look like part of it: unidiff takes them for a comment."""
    for file in files:
        for number, hunk in enumerate(file, 1):
            last = max(line.diff_line_no or 0 for line in hunk)
            after = lines[last] if last < len(lines) else ""
            if after.startswith(("+", "-", " ")) and not after.startswith(("--- ", "-- ")):
                yield f"{_called(hunk, number, file.path)}: it has more lines than its header says"


def _patch_file(file: unidiff.PatchedFile, patched: Patched) -> None:
    fault = _fault_of_entry(file)
    name = "" if fault else _name_in_tree(file)
    fault = fault or _fault_of_name(name, patched.tree)
    if fault:
        patched.problems.append(f"{_unquoted(file.path)}: {fault}")
        return
    before = patched.content(name)
    is_new, is_gone = file.source_file == _NOWHERE, file.target_file == _NOWHERE
    if is_new and before is not None:
        same = _joined(line for hunk in file for line in _side(hunk, "-")) == before
        known = "upstream already has this file" if same else "a file of this name is there already"
        patched.problems.append(f"{name}: the patch makes it, but {known}")
        return
    if before is None and not is_new:
        patched.problems.append(f"{name}: the source has no such file")
        return
    after = _apply(file, name, before or b"", patched.problems)
    if is_gone and after:
        patched.problems.append(f"{name}: the patch deletes it, but it has more lines than that")
        return
    patched.contents[name] = None if is_gone else after
    _note_mode(file, name, patched)
