"""The commit that a wheel was built from, checked out beside this checkout for one build."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError
from cuwheel.paths import ROOT
from cuwheel.system.files import remove_tree
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def is_at_hand(commit: str) -> bool:
    """Whether one of this clone's own branches or tags holds a commit.

    A commit that merely lies among its objects may be anybody's: whoever proposes a change to a
    repository puts objects there. Its code would be run.
    """
    if not commit or not (ROOT / ".git").exists():
        return False
    try:
        found = _git("for-each-ref", "--count=1", "--format=%(refname)", f"--contains={commit}")
    except CommandFailedError:
        return False
    return bool(found.strip())


@contextlib.contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """A commit's files in a folder of their own, until the block ends.

    Raises:
        CommandFailedError: git can't check it out.
    """
    remove_tree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _git("worktree", "prune")
    _git("worktree", "add", "--detach", "--quiet", str(folder), commit)
    try:
        yield folder
    finally:
        remove_tree(folder)
        _git("worktree", "prune")


def projects_in(root: Path, projects: Sequence[Path]) -> tuple[Path, ...]:
    """The project folders of this checkout, in another one of it; others stay where they are."""
    return tuple(
        root / one.relative_to(ROOT) if one.is_relative_to(ROOT) else one for one in projects
    )


def _git(*words: str) -> str:
    """What git says.

    Raises:
        CommandFailedError: it fails, or isn't there.
    """
    # No hook of the clone is run: what is checked out is only read and built.
    quiet = ("-c", "core.hooksPath=/dev/null")
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/")}
    return run(["git", *quiet, "-C", str(ROOT), *words], env=env).output
