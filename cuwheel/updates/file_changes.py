"""Several files changed together: all of them, or, where anything goes wrong, none."""

from __future__ import annotations

import contextlib
import difflib
import os
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError, UsageError
from cuwheel.system.files import write_atomically
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


def read_if_there(path: Path) -> bytes | None:
    """A file's content; None where there is none."""
    return read_bytes(path) if path.is_file() else None


def replace_files(changes: Mapping[Path, bytes | None]) -> None:
    """Give files new content.

    Each is written atomically. An error, Ctrl-C or SIGTERM in between puts the earlier ones back;
    a machine that loses power can leave some of them new.

    Args:
        changes: content by file; None: it is removed.

    Raises:
        OSError: one can't be written; all are as they were.
    """
    before = {path: read_if_there(path) for path in changes}
    touched: list[Path] = []
    try:
        for path, content in changes.items():
            touched.append(path)
            _put(path, content)
    except BaseException:
        for path in touched:
            with contextlib.suppress(OSError):
                _put(path, before[path])
        raise


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, content)


def diff_of(
    before: Mapping[Path, bytes | None], after: Mapping[Path, bytes | None], root: Path
) -> Iterator[str]:
    """Lines of a unified diff, as `git diff` would show the changes.

    Args:
        before: content by file; None: there was none.
        after: likewise, of the same files.
        root: the folder that the names are relative to.
    """
    for path, new in after.items():
        name = path.relative_to(root).as_posix()
        old = before[path]
        yield from difflib.unified_diff(
            _lines(old),
            _lines(new),
            "/dev/null" if old is None else f"a/{name}",
            "/dev/null" if new is None else f"b/{name}",
            lineterm="",
        )


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines()


def refuse_uncommitted(paths: Iterable[Path], root: Path) -> None:
    """See that what would be changed is committed; outside a git repository nothing is known.

    Args:
        paths: the files.
        root: a folder that they are below.

    Raises:
        UsageError: one has changes that git doesn't have; the message names all.
    """
    env = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    env |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    names = [path.relative_to(root).as_posix() for path in paths]
    try:
        said = run(["git", "-C", root, "status", "--porcelain", "--", *names], env=env).output
    except CommandFailedError:
        return
    if said.strip():
        raise UsageError(
            "files that would be changed have changes that aren't committed",
            why="\n".join(line.strip() for line in said.splitlines()),
            fix="commit them (`git commit`) or stash them (`git stash`), so that the change can "
            "be reviewed separately; `--uncommitted` keeps them as they are",
        )
