"""Git checkouts: their commit, the files that git tracks, and changes; nothing in them is run.

A checkout may be a stranger's. So git gets no settings of the user, looks for no other repository,
and is called only with commands that read the index and trees: none of them starts a hook, a
filter, a file system monitor or a transport (gitattributes(5), "filter"; git-config(1)). Contents
of files are compared by computing their ids here.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from cuwheel.base import limits
from cuwheel.base.errors import CommandFailedError
from cuwheel.base.fetch.retry import slow_factor
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.process import inherited, run
from cuwheel.base.system.regular_files import open_regular, read_regular

_MOST_FILES = 20_000  # of git's own that are checked
_CHUNK = 1 << 20  # bytes
_SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.excludesFile=/dev/null")
_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone fetches what it lacks (git(1))
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_ENTRY = re.compile(
    r"(?P<mode>\d{6}) (?:\w+ )?(?P<id>[0-9a-f]{40,64})(?: \d)?\t(?P<name>.+)", re.DOTALL
)
_LINK, _SUBMODULE = "120000", "160000"  # modes
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:(?P<sha256>[0-9a-f]{64})"
)
_POINTER_SIZE = 1024  # bytes; git-lfs's specification, "The Pointer"
_MOST_READ = 100  # changed files for which the committed content may be a pointer


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A source folder that git tracks, compared with its commit.

    Attributes:
        commit: that is checked out; empty: there is none yet.
        changes: files that differ from it, are missing, or are only staged; submodules likewise.
        pointers: files that are pointers of git-lfs in place of their content.
    """

    commit: str
    changes: tuple[str, ...]
    untracked: tuple[str, ...]
    pointers: tuple[str, ...]


class _Entry(NamedTuple):
    """A line of git's index or of a tree."""

    mode: str
    id: str


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout's top, 40 hexadecimal digits; empty for any other folder."""
    return _commit_of(folder, folder) if _is_top(folder) and not _is_blocking(folder) else ""


def tracked_files(folder: Path) -> tuple[Path, ...] | None:
    """Return the files that git tracks in a folder, relative to it, those of submodules too.

    Returns:
        None: it is in no checkout, git tracks nothing in it, or git can't read it.
    """
    index = _index_of(folder)
    return tuple(map(Path, _on_disk(folder, index))) if index else None


def read_checkout(folder: Path) -> Checkout | None:
    """Compare the files that git tracks with the commit; None as for `tracked_files`."""
    index, top = _index_of(folder), _top_of(folder)
    if not index or top is None:
        return None
    tree = _entries(_git(top, folder, "ls-tree", "-r", "-z", "HEAD"))
    changes: list[str] = sorted(tree.keys() - index.keys())
    pointers: list[str] = []
    for name, entry in index.items():
        if entry.mode == _SUBMODULE:
            changes += _submodule_changes(folder / name, name, entry, pointers)
            continue
        if _is_pointer(folder / name):
            pointers.append(name)
        if tree.get(name) != entry or not _is_same(folder, name, entry):
            changes.append(name)
    lfs = set(_contents_of_lfs(top, folder, [tree.get(name) for name in changes[:_MOST_READ]]))
    changed = [name for name in changes if not lfs or _digest(folder / name) not in lfs]
    others = _git(top, folder, "ls-files", "--others", "--directory", "-z") or ""
    return Checkout(
        commit=_commit_of(top, folder),
        changes=tuple(sorted(changed)),
        untracked=tuple(sorted(filter(None, others.split("\0")))),
        pointers=tuple(sorted(pointers)),
    )


def _submodule_changes(
    folder: Path, name: str, entry: _Entry, pointers: list[str]
) -> Iterator[str]:
    inner = read_checkout(folder) if _is_top(folder) and not folder.is_symlink() else None
    if inner is None:
        yield f"{name} (the submodule is missing)"
        return
    if inner.commit != entry.id:
        yield f"{name} (the submodule is at another commit)"
    pointers += [f"{name}/{pointer}" for pointer in inner.pointers]
    yield from (f"{name}/{change}" for change in inner.changes)


def _on_disk(folder: Path, index: dict[str, _Entry]) -> Iterator[str]:
    """Yield names of the index that are in the folder and behind no link, also of submodules."""
    for name, entry in index.items():
        path = folder / name
        if not os.path.lexists(path) or _is_behind_link(folder, name):
            continue
        if entry.mode != _SUBMODULE:
            yield name
        elif _is_top(path) and not path.is_symlink():
            yield from (f"{name}/{inner}" for inner in _on_disk(path, _index_of(path)))


def _index_of(folder: Path) -> dict[str, _Entry]:
    top = _top_of(folder)
    if top is None or _is_blocking(top):
        return {}
    return _entries(_git(top, folder, "ls-files", "--stage", "-z"))


def _entries(text: str | None) -> dict[str, _Entry]:
    """Return entries by name, without names that lead out of the folder or into git's own."""
    entries = {}
    for match in filter(None, map(_ENTRY.fullmatch, (text or "").split("\0"))):
        name = PurePosixPath(match["name"])
        if not name.is_absolute() and {"..", ".git"}.isdisjoint(map(str.lower, name.parts)):
            entries[match["name"]] = _Entry(match["mode"], match["id"])
    return entries


def _is_behind_link(folder: Path, name: str) -> bool:
    parents = [*PurePosixPath(name).parents][:-1]
    return any((folder / parent).is_symlink() for parent in parents)


def _top_of(folder: Path) -> Path | None:
    folder = folder.absolute()
    return next((path for path in (folder, *folder.parents) if _is_top(path)), None)


def _is_top(folder: Path) -> bool:
    git = folder / ".git"  # a file in worktrees and submodules
    return git.is_dir() or git.is_file()


def _is_blocking(top: Path) -> bool:
    """Return True if one of git's files is a FIFO or a device: git would wait for its writer."""
    for path in itertools.islice(_files_of_git(top), _MOST_FILES):
        with contextlib.suppress(OSError):  # a link that leads nowhere
            mode = os.stat(path).st_mode  # noqa: PTH116 - as scandir has it
            if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
                return True
    return False


def _files_of_git(top: Path) -> Iterator[str]:
    for repository in _repositories(top):
        with contextlib.suppress(OSError):
            yield from map(str, repository.iterdir())
        for name in ("refs", "objects", "info"):
            for base, _, files in os.walk(repository / name):
                yield from (os.path.join(base, file) for file in files)  # noqa: PTH118 - of thousands


def _repositories(top: Path) -> Iterator[Path]:
    """Yield git's folder, and the one that worktrees share (gitrepository-layout(5))."""
    git = top / ".git"
    if git.is_file():
        git = top / _first_line(git).removeprefix("gitdir: ")
    yield git
    if common := _first_line(git / "commondir"):
        yield git / common


def _first_line(path: Path) -> str:
    try:
        content = read_regular(path, limit=_CHUNK).replace(b"\0", b"\n")
        return os.fsdecode(content.partition(b"\n")[0])
    except OSError:
        return ""


def _commit_of(top: Path, folder: Path) -> str:
    return (_git(top, folder, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip()


def _git(top: Path, folder: Path, *argv: str) -> str | None:
    """Run git in a folder; None: it isn't installed, or can't read the repository."""
    settings = [option for setting in _SETTINGS for option in ("-c", setting)]
    # With --git-dir any user's repository is read, and its own core.worktree doesn't count.
    command = ["git", f"--git-dir={top / '.git'}", f"--work-tree={top}", *settings, *argv]
    env = {**_VARIABLES, **inherited(), "HOME": "/nonexistent"}
    limit = limits.GIT * slow_factor()
    try:
        process = run(
            command, env=env, cwd=folder, check=False, timeout=limit, error_log=Path(os.devnull)
        )
    except CommandFailedError:  # the machine has no git
        return None
    return process.output if process.status == 0 else None


def _is_same(folder: Path, name: str, entry: _Entry) -> bool:
    """Return True if a file equals its entry of git's index: kind, execute bit and content."""
    path = folder / name
    if not os.path.lexists(path) or _is_behind_link(folder, name):
        return False
    if path.is_symlink():
        content = os.fsencode(path.readlink())
        return entry.mode == _LINK and _blob_id([content], len(content), entry.id) == entry.id
    if not path.is_file() or entry.mode != f"100{'755' if path.stat().st_mode & 0o100 else '644'}":
        return False
    if _blob_id(_chunks(path), path.stat().st_size, entry.id) == entry.id:
        return True
    text = read_regular(path, limit=_CHUNK) if path.stat().st_size <= _CHUNK else b""
    plain = text.replace(b"\r\n", b"\n")  # as gitattributes(5) `eol` checks them out
    return plain != text and _blob_id([plain], len(plain), entry.id) == entry.id


def _blob_id(chunks: Iterator[bytes] | list[bytes], size: int, like: str) -> str:
    """Return git's id of a content: SHA-1, or SHA-256 if the repository uses that."""
    name = "sha256" if len(like) == hashlib.sha256().digest_size * 2 else "sha1"
    digest = hashlib.new(name, b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    with open_regular(path) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _is_pointer(path: Path) -> bool:
    is_small = path.is_file() and not path.is_symlink() and path.stat().st_size < _POINTER_SIZE
    return is_small and _POINTER.match(read_regular(path, limit=_POINTER_SIZE)) is not None


def _contents_of_lfs(top: Path, folder: Path, entries: list[_Entry | None]) -> Iterator[str]:
    """Yield the SHA-256 that committed git-lfs pointers name."""
    for entry in filter(None, entries):
        size = _git(top, folder, "cat-file", "-s", entry.id) or ""
        if size.strip().isdecimal() and int(size) < _POINTER_SIZE:
            text = _git(top, folder, "cat-file", "blob", entry.id) or ""
            if match := _POINTER.match(text.encode()):
                yield match["sha256"].decode()


def _digest(path: Path) -> str:
    return sha256_of_file(path) if path.is_file() and not path.is_symlink() else ""
