"""The checkout taken to what its branch holds at the remote, where that needs no merge."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError
from cuwheel.system.process import run

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.nightly.recorder import Recorder


_SHOWN = 5  # changed files that are named


def commit_of(checkout: Path) -> str:
    """The commit that is checked out; empty where the folder is no git repository."""
    return _ask(checkout, "rev-parse", "HEAD")


def update_checkout(checkout: Path, recorder: Recorder) -> bool:
    """Run `git pull --ff-only`; it refuses where local commits or changes are in the way.

    Args:
        checkout: its folder.
        recorder: runs it.

    Returns:
        Whether there is another commit now.
    """
    before = commit_of(checkout)
    command = ("git", "-C", str(checkout), "pull", "--ff-only", "--no-rebase")
    step = recorder.execute("update", command)
    after = commit_of(checkout)
    moved = f"{before[:12]} to {after[:12]}" if after != before else "nothing new"
    told = (step.detail or moved, _changes(checkout))
    recorder.add(dataclasses.replace(step, detail="; ".join(filter(None, told))))
    recorder.replace_run(commit=after)
    return after != before


def _changes(checkout: Path) -> str:
    """Files that differ from the commit: what is built isn't what the commit says."""
    lines = _ask(checkout, "status", "--porcelain").splitlines()
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return f"changed here: {', '.join(line[3:] for line in lines[:_SHOWN])}{more}" if lines else ""


def _ask(checkout: Path, *words: str) -> str:
    environ = {**os.environ, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = run(("git", "-C", str(checkout), *words), env=environ, check=False)
    except CommandFailedError:  # there is no git
        return ""
    return "" if done.status else done.output.rstrip()
