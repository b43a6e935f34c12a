"""Files of an environment: their owners, their comparison with a wheel's, and snapshots of all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from cuwheel.base import limits
from cuwheel.base.errors import InstallError
from cuwheel.base.formats.wheel.archive import open_wheel
from cuwheel.base.formats.wheel.record import RecordFormatError, record_rows
from cuwheel.base.system.files import hash_of_stream
from cuwheel.base.system.regular_files import open_regular, read_regular
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.publish.install.placement import WRITTEN, Placement, place, scheme_folder

_CHUNK = 1 << 20  # bytes
_REWRITTEN = b"#!python"  # installers write their interpreter into such scripts
Snapshot = dict[str, tuple[int, ...] | str]
_BYTECODE = "__pycache__"
_SMALL = 1 << 20  # bytes of a start file or a script that is worth a copy


def is_installed(wheel: Path, project: str, environment: PythonEnvironment) -> bool:
    """Return True if an environment has the bytes of a wheel, and no other version."""
    there = environment.distributions.get(project)
    if there is None:
        return False
    placement = place(wheel, environment)
    with open_wheel(wheel) as opened:
        if there.metadata.name != opened.dist_info or placement.faults:
            return False
    return not missing_bytes(placement)


def missing_bytes(placement: Placement) -> tuple[Path, ...]:
    """Return the files of a wheel that aren't installed as they are in it.

    Scripts of `.data/scripts` may have another first line, which installers write.
    """
    members = [file for file in placement.files if file.member]
    missing: list[Path] = []
    if not members:
        return ()
    with open_wheel(members[0].wheel) as wheel:
        for file in members:
            if ".dist-info/" in file.member and file.path.name in WRITTEN:
                continue
            try:
                with wheel.archive.open(file.member) as expected, open_regular(file.path) as actual:
                    is_same = hash_of_stream(expected) == hash_of_stream(actual)
            except OSError:
                is_same = False
            if not (is_same or _is_rewritten(wheel.archive.open(file.member), file.path)):
                missing.append(file.path)
    return tuple(missing)


def _is_rewritten(expected: IO[bytes], path: Path) -> bool:
    """Return True if a file is a script of which an installer has changed only the first line."""
    with expected:
        if expected.read(len(_REWRITTEN)) != _REWRITTEN:
            return False
        expected.readline()
        rest = expected.read(limits.MEMBER)
    try:
        content = read_regular(path, limit=limits.MEMBER)
    except OSError:
        return False
    return content.startswith(b"#!") and content.endswith(rest)


def owners_of(environment: PythonEnvironment) -> dict[Path, frozenset[str]]:
    """Return the projects whose RECORDs name each file."""
    owners: dict[Path, set[str]] = {}
    for name, distribution in environment.distributions.items():
        with contextlib.suppress(OSError, ValueError):  # without a RECORD it owns nothing
            for path in named_files(distribution):
                owners.setdefault(path, set()).add(name)
    return {path: frozenset(names) for path, names in owners.items()}


def named_files(distribution: Distribution) -> tuple[Path, ...]:
    """Return the files that a distribution's RECORD names, links of their folders followed.

    Raises:
        OSError: it has none, or it can't be read.
        ValueError: it is no table, or no UTF-8.
    """
    text = read_regular(distribution.metadata / "RECORD", limit=limits.RECORD).decode()
    folders: dict[str, str] = {}
    files = []
    for name, _, _ in record_rows(text):
        parent, last = os.path.split(os.path.normpath(distribution.site / name))
        if parent not in folders:
            folders[parent] = os.path.realpath(parent)
        files.append(Path(folders[parent], last))
    return tuple(files)


def replaced_files(environment: PythonEnvironment, project: str) -> tuple[Path, ...]:
    """Return the files of an installed project; none if it isn't installed.

    Raises:
        InstallError: its own files are unknown: it has no RECORD that can be read, or one that
            names files elsewhere.
    """
    there = environment.distributions.get(project)
    if there is None:
        return ()
    prefix = Path(os.path.realpath(environment.prefix))
    places = (prefix, Path(os.path.realpath(there.site)))
    try:
        files = named_files(there)
        outside = [path for path in files if not any(map(path.is_relative_to, places))]
        if not outside:
            return files
        lack, why = "has a RECORD that can't be right", f"it names {outside[0]}"
    except (OSError, UnicodeDecodeError, RecordFormatError) as problem:
        missing = isinstance(problem, (FileNotFoundError, NotADirectoryError))
        lack = "has no RECORD" if missing else "has a RECORD that can't be read"
        why = (
            f"{there.metadata} doesn't say which files are its own; this is so for packages "
            "of conda or the system, and for old eggs"
        )
    raise InstallError(
        f"{project} {there.version} {lack}, so it couldn't be restored",
        why=why,
        fix="remove it with the tool that installed it (conda remove, apt remove, pip "
        "uninstall), or name another environment with --python: python3 -m venv DIR "
        "creates one",
    )


def take_snapshot(environment: PythonEnvironment, skipped: Path) -> Snapshot:
    """Return mode, size, time and inode of files, targets of links, and modes of folders.

    Without bytecode, which any program of the environment writes.
    """
    files: Snapshot = {}
    names = ("purelib", "platlib", "scripts", "include")
    roots = filter(Path.is_dir, (scheme_folder(environment, name) for name in names))
    share = Path(os.path.realpath(environment.prefix)) / "share"
    for root in dict.fromkeys((*roots, share)):
        for path in _walk(str(root), str(skipped)):
            files[path] = _describe(path)
    for name in os.listdir(environment.prefix):  # noqa: PTH208 - names only
        path = str(environment.prefix / name)
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            files[path] = _describe(path)
    return files


def changed_files(before: Snapshot, now: Snapshot) -> tuple[list[Path], list[Path]]:
    """Return the new files, and those that are gone or changed."""
    new = [Path(name) for name in now if name not in before]
    other = [Path(name) for name, what in before.items() if now.get(name) != what]
    return new, other


def start_files(environment: PythonEnvironment) -> Iterator[Path]:
    """Yield the files that an environment starts with: scripts, `pyvenv.cfg`, `*.pth`."""
    folders = {scheme_folder(environment, name) for name in ("purelib", "platlib", "scripts")}
    for folder in (environment.prefix, *filter(Path.is_dir, folders)):
        for path in sorted(folder.iterdir()):
            is_file = path.is_file() and not path.is_symlink()
            if is_file and path.stat().st_size <= _SMALL:
                yield path


def _walk(root: str, skipped: str) -> Iterator[str]:
    for parent, folders, names in os.walk(root):
        entered = [
            name
            for name in folders
            if name != _BYTECODE and os.path.join(parent, name) != skipped  # noqa: PTH118
        ]
        folders[:] = entered
        yield from (os.path.join(parent, name) for name in (*names, *entered))  # noqa: PTH118


def _describe(path: str) -> tuple[int, ...] | str:
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(path)  # noqa: PTH115 - of thousands
    except FileNotFoundError:  # another program removes it just now
        return ""
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode,)
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)


def without_inode(snapshot: Mapping[str, tuple[int, ...] | str], paths: Iterable[Path]) -> Snapshot:
    """Return a snapshot without the inodes of some files, which are restored as copies."""
    copied = set(map(str, paths))
    return {
        name: what[:-1] if name in copied and isinstance(what, tuple) else what
        for name, what in snapshot.items()
    }
