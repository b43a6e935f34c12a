"""Unified diffs, applied exactly: every line at its place in the patch, or not at all.

unidiff parses the patch; the places of its lines are checked here. Text is handled as Latin-1,
which maps each byte to one character and back, so that a file in any encoding survives.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchedFile, PatchSet

from cuwheel.base import limits
from cuwheel.base.system.regular_files import read_bytes

_BYTES = "latin-1"
_NOWHERE = "/dev/null"  # in place of a file that doesn't exist, before or after
_NO_NEWLINE = "\\"  # unidiff's type of the line "\ No newline at end of file"
_EXECUTABLE = 0o111


@dataclass(kw_only=True)
class Patched:
    """The outcome of a patch on a tree, which is not touched before `write`.

    Attributes:
        contents: of each changed file, by its name in the patch; None: it is deleted.
    """

    tree: Path
    problems: list[str] = field(default_factory=list)
    contents: dict[str, bytes | None] = field(default_factory=dict)
    executable: dict[str, bool] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if it names no file at all: the diff is missing."""
        return not (self.contents or self.executable or self.problems)

    @property
    def has_effect(self) -> bool:
        """True if anything would be different afterwards."""
        changed = any(self.content(name) != self.original(name) for name in self.contents)
        return changed or any(
            is_set != bool(self.path(name).stat().st_mode & _EXECUTABLE)
            for name, is_set in self.executable.items()
            if self.path(name).is_file()
        )

    def path(self, name: str) -> Path:
        """Return the path of a file, from its name in the patch."""
        return self.tree / os.fsdecode(name.encode(_BYTES))

    def original(self, name: str) -> bytes | None:
        """Return the file as it is on disk; None when there is none."""
        path = self.path(name)
        return read_bytes(path, limit=limits.PATCHED_FILE) if path.is_file() else None

    def content(self, name: str) -> bytes | None:
        """Return the file as the patch has left it so far; None when there is none."""
        return self.contents[name] if name in self.contents else self.original(name)

    def write(self) -> None:
        """Change the tree.

        Raises:
            OSError: it can't be written.
        """
        for name, content in self.contents.items():
            path = self.path(name)
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        for name, is_set in self.executable.items():
            self.path(name).chmod(0o755 if is_set else 0o644)


def try_patch(patch: bytes, tree: Path) -> Patched:
    """Return the outcome of a patch, with all problems.

    Args:
        patch: the content of the patch file; its names have one folder in front, as git's `a/`.
        tree: the folder that those names are relative to.
    """
    patched = Patched(tree=tree)
    text = patch.decode(_BYTES)
    text = text if text.endswith("\n") else f"{text}\n"
    try:
        files = PatchSet(text)
    except UnidiffParseError as problem:
        patched.problems.append(f"it is not a valid unified diff: {_plain(str(problem))}")
        return patched
    patched.problems += _overlong_hunks(files, text.split("\n"))
    for file in files:
        _patch_file(file, patched)
    return patched


def _overlong_hunks(files: PatchSet, lines: list[str]) -> Iterator[str]:
    """Yield hunks that are followed by more lines like theirs: unidiff skips these as a comment."""
    for file in files:
        for number, hunk in enumerate(file, 1):
            last = max((line.diff_line_no or 0 for line in hunk), default=0)
            if lines[last].startswith(("+", "-", " ")) and not lines[last].startswith("-- "):
                is_next_file = lines[last].startswith("--- ") and lines[last + 1].startswith("+++ ")
                if not is_next_file:
                    yield f"{name_of_hunk(hunk, number, file.path)}: longer than its header says"


def _patch_file(file: PatchedFile, patched: Patched) -> None:
    is_new, is_gone = file.source_file == _NOWHERE, file.target_file == _NOWHERE
    name = name_in_tree(file.source_file if is_gone else file.target_file)
    before = after = None
    fault = _fault_of_entry(file) or _fault_of_name(name, patched)
    if not fault:
        before = patched.content(name)
        fault = _fault_of_file(file, before, is_new=is_new)
    if fault:
        patched.problems.append(f"{_plain(name or file.path)}: {fault}")
        return
    after, misfits = _apply(file, before or b"")
    patched.problems += misfits
    if is_gone and after and not misfits:
        patched.problems.append(
            f"{_plain(name)}: deleted, but it has more lines than the patch removes"
        )
    patched.contents[name] = None if is_gone else after
    if file.target_mode and file.target_mode != file.source_mode and not is_gone:
        patched.executable[name] = file.target_mode.endswith("755")


def name_in_tree(name: str) -> str:
    """Return a name of the patch without its first folder (`a/`, `b/`), as for `patch -p1`."""
    return name.partition("/")[2]


def _fault_of_entry(file: PatchedFile) -> str:
    """Return why this kind of change isn't supported; empty if it is."""
    names = [name for name in (file.source_file, file.target_file) if name != _NOWHERE]
    if file.is_binary_file:
        return "a binary change; only text is patched"
    if file.is_symlink or file.is_submodule:
        return "a symbolic link or submodule; only files are patched"
    if any(name.startswith('"') for name in names):
        return "a quoted name; make the patch with `git -c core.quotePath=off diff`"
    if any(name.startswith("/") for name in names):
        return "an absolute path; make the patch in the folder above: `diff -u a/x b/x`"
    if len({name_in_tree(name) for name in names}) > 1:
        return "a rename; make the patch with `git diff --no-renames`"
    return ""


def _fault_of_name(name: str, patched: Patched) -> str:
    path = PurePosixPath(name)
    if not name:
        return "names need a leading folder, such as git's a/ and b/"
    if path.is_absolute() or ".." in path.parts:
        return "leads outside of the source"
    chain = [patched.path(str(step)) for step in (path, *path.parents)]
    if any(step.is_symlink() for step in chain[:-1]):
        return "a symbolic link, or below one"
    if chain[0].is_dir() or any(step.is_file() for step in chain[1:]):
        return "a file where the source has a folder, or vice versa"
    return ""


def _fault_of_file(file: PatchedFile, before: bytes | None, *, is_new: bool) -> str:
    if before is None:
        return "" if is_new or file.is_added_file else "the source has no such file"
    if not is_new:
        return ""
    after = "".join(line for hunk in file for line in lines_of(hunk, without="-")).encode(_BYTES)
    if after == before:
        return "upstream already has this change: the file is there"
    return "the patch creates this file, but the source already has it"


def _apply(file: PatchedFile, before: bytes) -> tuple[bytes, list[str]]:
    """Return the file after all hunks that fit, and what is wrong with the others."""
    old = list(io.StringIO(before.decode(_BYTES)))  # ends lines at "\n" only
    new: list[str] = []
    misfits = []
    done = 0
    for number, hunk in enumerate(file, 1):
        expected, replacement = lines_of(hunk, without="+"), lines_of(hunk, without="-")
        start = hunk.source_start - 1 if expected else hunk.source_start
        end = start + len(expected)
        if not done <= start <= len(old) or old[start:end] != expected:
            misfits.append(
                f"{name_of_hunk(hunk, number, file.path)}: {_reject_reason(hunk, old, done)}"
            )
            continue
        new += old[done:start] + replacement
        done = end
    new += old[done:]
    if not misfits and any(not line.endswith("\n") for line in new[:-1]):
        misfits.append(f"{_plain(file.path)}: a line would be joined with the next one")
    return "".join(new).encode(_BYTES), misfits


def lines_of(hunk: Hunk, *, without: str) -> list[str]:
    """Return one side of a hunk: without `+` the old lines, without `-` the new ones."""
    lines: list[str] = []
    is_kept = False
    for line in hunk:
        if line.line_type == _NO_NEWLINE:
            lines[-1:] = [lines[-1].removesuffix("\n")] if is_kept else lines[-1:]
        elif line.line_type:  # empty: a blank line between two hunks
            is_kept = line.line_type != without
            lines += [line.value] if is_kept else []
    return lines


def _reject_reason(hunk: Hunk, old: list[str], done: int) -> str:
    """Return why a hunk doesn't fit, as near to the cause as is known."""
    expected, replacement = lines_of(hunk, without="+"), lines_of(hunk, without="-")
    start = max(hunk.source_start - 1, 0)
    has_new_lines = any(line.is_added for line in hunk)
    position = hunk.target_start - 1
    if replacement and replacement != expected:
        is_there = old[max(position, 0) : position + len(replacement)] == replacement
        if is_there or (has_new_lines and any(True for _ in positions(replacement, old))):
            return "upstream already has this change"
    if expected and start < done:
        return "it overlaps the hunk before it"
    elsewhere = next(positions(expected, old), None) if expected else None
    if elsewhere is not None:
        return f"its lines are not at line {start + 1} but at line {elsewhere + 1}"
    # The lines may have moved as well: compare where most of them are.
    blocks = SequenceMatcher(None, expected, old, autojunk=False).get_matching_blocks()
    near = max(blocks, key=lambda block: block.size)
    for number, line in enumerate(expected, near.b - near.a if near.size else start):
        if number >= len(old):
            return f"line {number + 1} should be {_quoted(line)}, but the file has {len(old)} lines"
        if number < 0 or old[number] != line:
            found = _quoted(old[number]) if number >= 0 else "before the file's first"
            return f"line {number + 1} should be {_quoted(line)}, but is {found}"
    return f"it adds lines after line {hunk.source_start}, but the file has {len(old)} lines"


def positions(lines: list[str], text: list[str], after: int = 0) -> Iterator[int]:
    """Yield every position of a run of lines in a text."""
    count = len(lines)
    for at in range(after, len(text) - count + 1):
        if text[at] == lines[0] and text[at : at + count] == lines:
            yield at


def name_of_hunk(hunk: Hunk, number: int, name: str) -> str:
    """Return a hunk's name for messages: `hunk 1 of setup.py (@@ -173,35 +173,6 @@)`."""
    old = f"-{hunk.source_start},{hunk.source_length}"
    new = f"+{hunk.target_start},{hunk.target_length}"
    return f"hunk {number} of {_plain(name)} (@@ {old} {new} @@)"


def _plain(text: str) -> str:
    """Return text of the patch in readable form."""
    return text.strip().encode(_BYTES, "replace").decode("utf-8", "backslashreplace")


def _quoted(line: str) -> str:
    """Return a line with all its characters visible."""
    return repr(line.encode(_BYTES).decode("utf-8", "backslashreplace"))
