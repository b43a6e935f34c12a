"""Folders that commands write into, in which nothing of the user's is replaced or removed.

A command writes into a folder that is absent or empty, or that has its marker,
`.cuwheel-folder.json`. The marker lists the files that the command has written, with their hashes:
only these are replaced and removed, and only while they hold what was written. While files change,
the marker lists the hashes before and after, so that the files of a killed run are still known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cuwheel.base.errors import FileAccessError, UsageError
from cuwheel.base.system.files import (
    PART,
    hash_of_stream,
    new_folder,
    remove_leftovers,
    remove_parts,
    remove_tree,
    sha256_of_tree,
    write_atomically,
)
from cuwheel.base.system.folders.staged_files import ASIDE, staged_files
from cuwheel.base.system.quantities import first_of
from cuwheel.base.system.regular_files import open_regular, read_json

MARKER = ".cuwheel-folder.json"
_FORMAT = 1  # of that file
_NOTE = "cuwheel replaces and removes only these files of this folder"
_SHOWN = 4  # names in a message
# Files of the user at the top of a folder that is served; a new file system has the last.
_SPARED = frozenset(
    {".git", ".gitattributes", ".gitignore", ".nojekyll", ".well-known", ".domains"}
    | {"CNAME", "robots.txt", "lost+found"}
)
_LOCKS = frozenset({".lock", ".release.lock", ".publish.lock", ".simple.lock"})

Listed = dict[str, tuple[str, ...]]  # SHA-256 that a file may have, by its path below the folder


@dataclass(frozen=True, kw_only=True)
class FolderKind:
    """Purpose of a folder.

    Attributes:
        what: for messages, `a site with a package index`.
        accepts: returns True for a file that may be in a folder without a marker.
        names: paths of files that are written; a marker that lists others was made by another
            program, to have them removed.
    """

    name: str
    what: str
    accepts: Callable[[Path], bool] = lambda _: False
    names: re.Pattern[str] = re.compile(r"(?!\.git/)[^\0]+")


def check_output(folder: Path, kind: FolderKind) -> None:
    """Raise an error where a command may not write into a folder, or can't; nothing is written.

    Raises:
        UsageError: it holds files that aren't the command's.
        FileAccessError: it is a file, or can't be written.
    """
    read_listed(folder, kind)
    check_writable(folder)


def check_output_file(path: Path, option: str, inputs: Iterable[Path] = ()) -> Path:
    """Return the file to write for an option, a link's target; raise UsageError where it must stay.

    Files are replaced, so a device, a folder or a wheel that was named by mistake would be lost.

    Args:
        inputs: files that the command reads.
    """
    target = path.resolve()
    if ".whl" in {path.suffix, target.suffix}:
        fault = "it is a wheel"
    elif target in {file.resolve() for file in inputs}:
        fault = "the command reads it"
    elif target.is_dir():
        fault = "it is a folder"
    elif target.exists() and not target.is_file():
        fault = "it is no regular file"
    elif path.name == "-":
        fault = "it names no file"
    else:
        return target
    raise UsageError(
        f"{option} can't be written to {path}", why=fault, fix=f"name a new file after {option}"
    )


def check_writable(folder: Path) -> None:
    """Create a temporary file in a folder, or in the nearest existing one above it.

    Raises:
        FileAccessError: it can't be written.
    """
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return
    except OSError as error:
        why = error.strerror or str(error)
    reason = f"refuses new files: {why}" if nearest.is_dir() else "is no folder"
    raise FileAccessError(
        f"{shown(folder)} can't be written",
        why=f"{shown(nearest)} {reason}",
        fix="use a folder of yours on a disk that can be written",
    )


def claim(folder: Path, kind: FolderKind) -> Listed:
    """Return the files that a command has written into a folder; mark an absent or empty folder.

    Raises UsageError where it holds files that aren't the command's.
    """
    listed = read_listed(folder, kind)
    if not os.path.lexists(folder / MARKER):
        folder.mkdir(parents=True, exist_ok=True)
        write_marker(folder, kind, listed)
    return listed


def write_marker(folder: Path, kind: FolderKind, listed: Mapping[str, Sequence[str]]) -> None:
    """Write the list of a command's files into its folder."""
    files = {name: list(listed[name]) for name in sorted(listed)}
    content = {"note": _NOTE, "format": _FORMAT, "kind": kind.name, "files": files}
    write_atomically(folder / MARKER, json.dumps(content, indent=0) + "\n")


def make_empty(folder: Path, kind: FolderKind, names: Iterable[str] | None = None) -> None:
    """Remove a command's files in a folder of intermediate files, which keeps its marker.

    Args:
        names: of the files that the command makes there, others stay; None: all are its own.
    """
    claim(folder, kind)
    known = None if names is None else {*names}
    for path in list(folder.iterdir()):
        if path.name != MARKER and (known is None or path.name in known or is_part(path.name)):
            remove_tree(path)


def is_part(name: str) -> bool:
    """Return True if a name is that of a file or folder that a killed writer left."""
    return name == ASIDE or (name.startswith(".") and name.endswith(PART))


def has_marker(folder: Path, kind: FolderKind) -> bool:
    """Return True if a folder has the marker of a kind."""
    return _listed(read_json(folder / MARKER), kind) is not None


def is_output(folder: Path) -> bool:
    """Return True if a folder has the marker of any kind."""
    content = read_json(folder / MARKER) or {}
    return content.get("format") == _FORMAT and isinstance(content.get("kind"), str)


def entries_of(folder: Path) -> list[str]:
    """Return the names in a folder, without usual files of users and killed writers' leftovers."""
    return [
        name
        for name in sorted(os.listdir(folder))  # noqa: PTH208 - no Path for each
        if not (name in _SPARED or is_part(name) or _is_empty_lock(folder / name))
    ]


def shown(path: Path | str) -> str:
    """Return a path for a message, escaped where it isn't printable."""
    text = str(path)
    return text if text.isprintable() else ascii(text)


def shown_names(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    return first_of([*map(shown, names)], _SHOWN)


def _is_empty_lock(path: Path) -> bool:
    if path.name not in _LOCKS:
        return False
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def read_listed(folder: Path, kind: FolderKind) -> Listed:
    """Read the list in the marker of a folder; empty where the folder is absent or empty.

    Raises:
        UsageError: it holds files that aren't the command's.
        FileAccessError: it is a file.
    """
    _check_place(folder, kind)
    if not folder.exists():
        return {}
    if os.path.lexists(folder / MARKER):
        listed = _listed(read_json(folder / MARKER), kind)
        if listed is None:
            raise _other_marker(folder, kind)
        return listed
    names = [name for name in entries_of(folder) if not kind.accepts(folder / name)]
    if not names:
        return {}
    raise UsageError(
        f"{shown(folder)} is not {kind.what}",
        why=f"it has no {MARKER} of one, and holds {shown_names(names)}, which would be "
        "mixed with what is written, or replaced by it",
        fix="use an empty or new folder, or move these files away if they aren't needed there",
    )


def _check_place(folder: Path, kind: FolderKind) -> None:
    """Raise an error where a folder can never be a command's own."""
    if os.path.lexists(folder) and not folder.is_dir():
        what = "is a link that leads nowhere" if not folder.exists() else "is not a folder"
        raise FileAccessError(
            f"{shown(folder)} {what}",
            why=f"{kind.what} is to be written there",
            fix="use another folder",
        )
    real = Path(os.path.realpath(folder))
    if real in {Path(real.anchor), Path(os.path.realpath(Path.home()))}:
        raise UsageError(
            f"{shown(folder)} can't be {kind.what}",
            why="it is the top folder of this machine or of your own files",
            fix="use a folder below it",
        )


def _other_marker(folder: Path, kind: FolderKind) -> UsageError:
    path = shown(folder / MARKER)
    content = read_json(folder / MARKER) or {}
    other = content.get("kind")
    if content.get("format") == _FORMAT and isinstance(other, str) and other != kind.name:
        return UsageError(
            f"{shown(folder)} is not {kind.what}",
            why=f"its marker says that it is a folder of another kind: {shown(other)}",
            fix="use another folder",
        )
    return UsageError(
        f"{path} can't be read",
        why="it lists the files that cuwheel may replace there, and it is damaged or of a newer "
        "cuwheel",
        fix="restore it, or write into a new folder",
    )


def _listed(content: Mapping[str, object] | None, kind: FolderKind) -> Listed | None:
    """Return a marker's list; None where it isn't one of this kind, or names files elsewhere."""
    if not content or content.get("format") != _FORMAT or content.get("kind") != kind.name:
        return None
    files = content.get("files")
    if not isinstance(files, dict):
        return None
    listed = {}
    for name, hashes in files.items():
        parts = PurePosixPath(name).parts
        is_below = bool(parts) and ".." not in parts and not name.startswith("/")
        if not is_below or not kind.names.fullmatch(name) or not isinstance(hashes, list):
            return None
        listed[name] = tuple(map(str, hashes))
    return listed


def write_files(
    folder: Path, kind: FolderKind, parts: Sequence[Mapping[str, bytes]], *, is_all: bool = True
) -> None:
    """Write files of a folder; each takes the place of its older one at once.

    Unchanged files aren't touched. Within a part deeper files come first: a page is there before
    another links to it.

    Args:
        parts: contents by path below the folder; one part is in place before the next.
        is_all: older files of the command that aren't in `parts` are removed.

    Raises:
        UsageError: the folder, or a file in the place of one of these, isn't the command's.
    """
    listed = claim(folder, kind)
    hashes = {name: hashlib.sha256(part[name]).hexdigest() for part in parts for name in part}
    stale = listed.keys() - hashes.keys() if is_all else frozenset()
    present = _read_places(folder, listed, {**dict.fromkeys(stale, ""), **hashes})
    for parent in {(folder / name).parent for name in hashes}:
        remove_parts(parent)  # of a killed writer
    changed = {name for name, digest in hashes.items() if present.get(name) != digest}
    after = {name: listed[name] for name in listed if name not in stale}
    after |= {name: (digest,) for name, digest in hashes.items()}
    if changed or stale:
        names = {**listed, **after}
        write_marker(
            folder,
            kind,
            {name: sorted({*listed.get(name, ()), *after.get(name, ())}) for name in names},
        )
        for part in parts:
            _write_part(folder, {name: part[name] for name in part if name in changed})
        for name in stale:
            (folder / name).unlink(missing_ok=True)
        parents = {folder / parent for name in stale for parent in Path(name).parents}
        for parent in sorted(parents - {folder}, key=lambda path: -len(path.parts)):
            with contextlib.suppress(OSError):  # it holds something else
                parent.rmdir()
    if changed or after != listed:
        write_marker(folder, kind, after)


@contextlib.contextmanager
def new_tree(folder: Path, kind: FolderKind, name: str) -> Iterator[Path]:
    """Fill a folder that replaces the one that a command wrote before.

    Raises UsageError where the folder in this place isn't what the command wrote.
    """
    listed, final, entry = claim(folder, kind), folder / name, f"{name}/"
    before = listed.get(entry, ())
    if final.is_symlink() or (final.exists() and hash_of_tree(final) not in before):
        raise _foreign_files(folder, [final], {name: before} if before else {})
    remove_leftovers(final)
    with new_folder(final) as aside:
        yield aside
        digest = hash_of_tree(aside)
        write_marker(folder, kind, {**listed, entry: (*before, digest)})
    write_marker(folder, kind, {**listed, entry: (digest,)})


def hash_of_tree(folder: Path) -> str:
    """Return the SHA-256 over a folder without the modules that a Python has compiled in it."""
    return sha256_of_tree(folder, skip=lambda path: "__pycache__" in path.parts)


def check_files(folder: Path, kind: FolderKind) -> None:
    """Raise UsageError where files that a command wrote into a folder were changed."""
    listed = read_listed(folder, kind)
    _read_places(folder, listed, dict.fromkeys(listed, ""))


def _read_places(folder: Path, listed: Listed, places: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of the files that are in some places now.

    Args:
        places: hash that a file is to get, by its path below the folder.
    """
    present: dict[str, str] = {}
    foreign: set[Path] = set()
    is_ours: dict[Path, bool] = {folder: True}
    for name, digest in places.items():
        path = folder / name
        if not _is_in_folders(path.parent, is_ours):
            foreign.add(path.parent)
            continue
        try:
            with open_regular(path) as stream:
                actual = hash_of_stream(stream)
        except FileNotFoundError:
            continue
        except OSError:  # a link, a folder, a FIFO, or it can't be read
            foreign.add(path)
            continue
        present[name] = actual
        if actual != digest and actual not in listed.get(name, ()):
            foreign.add(path)
    if foreign:
        raise _foreign_files(folder, sorted(foreign), listed)
    return present


def _is_in_folders(parent: Path, known: dict[Path, bool]) -> bool:
    """Return True if a folder, and all above it, are folders and no links, as far as they exist."""
    if parent not in known:
        try:
            is_folder = stat.S_ISDIR(parent.lstat().st_mode)
        except FileNotFoundError:
            is_folder = True
        except NotADirectoryError:
            is_folder = False
        known[parent] = is_folder and _is_in_folders(parent.parent, known)
    return known[parent]


def _foreign_files(folder: Path, paths: Sequence[Path], listed: Listed) -> UsageError:
    names = [str(path.relative_to(folder)) for path in paths]
    if edited := [name for name in names if name in listed]:
        why = "changed since cuwheel wrote it, and would be replaced or removed"
    else:
        why = f"not written by cuwheel ({MARKER} doesn't list it), and would be replaced"
    return UsageError(
        f"{shown(folder)} holds files of somebody else: {shown_names(edited or names)}",
        why=f"each of them is {why}; nothing was written",
        fix="move them to another place, or remove them, and run the same command again",
    )


def _write_part(folder: Path, pages: Mapping[str, bytes]) -> None:
    if not pages:
        return
    for parent in sorted({(folder / name).parent for name in pages}):
        parent.mkdir(parents=True, exist_ok=True)
    with staged_files(folder) as staged:
        for name in sorted(pages, key=lambda path: -path.count("/")):
            with staged.new_file(name) as stream:
                stream.write(pages[name])
