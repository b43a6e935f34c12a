"""Git checkouts: which commit a folder is of. Nothing in them is run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError
from cuwheel.system.process import run

if TYPE_CHECKING:
    from pathlib import Path


def commit_of(folder: Path) -> str:
    """The commit that is checked out, 40 hexadecimal digits; empty for a folder without git.

    Args:
        folder: the top of the checkout; a folder inside one has none of its own.
    """
    if not (folder / ".git").exists():
        return ""
    # Whoever owns it: a container's root asks of the caller's files, and nothing there is run.
    words = ["git", "-c", f"safe.directory={folder}", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        done = run(words, env={"PATH": os.environ.get("PATH", os.defpath)}, check=False)
    except CommandFailedError:  # the machine has no git
        return ""
    return done.output.strip() if done.status == 0 else ""
