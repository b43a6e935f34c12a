"""Atomic installation, which survives a kill.

Before any change, a journal in the environment lists the files to write, and has copies of those
that will go. At the end it is renamed, and removed last. The next installation undoes any journal:
the process that wrote it no longer runs, since it would hold the lock. A journal that can't be read
is never removed: only it has the copies.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import itertools
import json
import os
import re
import shlex
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import InstallError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree, sha256_of_file, write_atomically
from cuwheel.base.system.folders.output_folder import is_part, shown_names
from cuwheel.base.system.regular_files import is_regular, open_regular, read_json
from cuwheel.check.diagnose.facts.environment import PythonEnvironment
from cuwheel.publish.install.contents import (
    Snapshot,
    changed_files,
    start_files,
    take_snapshot,
    without_inode,
)
from cuwheel.publish.install.placement import scheme_folder

_JOURNAL = "journal.json"
_UV_PART = re.compile(r"\.tmp[A-Za-z0-9]{6}")  # a file that uv renames once it is written
_FINISHED = "finished.json"  # its name once nothing is to be undone any more
_SAVED = "saved"
_LONGEST = 3600.0  # seconds that an installation takes
_SHOWN = 5  # files that an error names


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """The state of an environment before it is changed."""

    environment: PythonEnvironment
    folder: Path
    planned: frozenset[Path]
    replaced: frozenset[Path]
    saved: Mapping[Path, Path]
    before: Snapshot

    def restore(self) -> None:
        """Restore the environment; raise an InstallError if some of it can't be."""
        with contextlib.suppress(OSError):
            new, other = changed_files(self.before, self._now())
            _remove(new)
            for path in other:
                _make_again(path, self.before[str(path)])
            _put_back({path: copy for path, copy in self.saved.items() if path in other})
            edited = {path: copy for path, copy in self.saved.items() if not _is_same(path, copy)}
            _put_back(edited)
        if differences := self._differences():
            count = len(differences) - _SHOWN
            more = f"; and {count} more" if count > 0 else ""
            raise InstallError(
                f"{self.environment.prefix} could not be restored completely",
                why="; ".join(differences[:_SHOWN]) + more,
                fix="remove the files that are left, and install the packages again that own the "
                f"others, or make the environment anew; copies are in {self.folder}",
            )
        _finish(self.folder)

    def check_others(self, shared: Collection[Path]) -> None:
        """Raise an error if the installer changed other files.

        Args:
            shared: files of the replaced package that others have too; they are put back first.

        Raises:
            InstallError: it changed others.
        """
        gone = (path for path in shared if not os.path.lexists(path))
        _put_back({path: self.saved[path] for path in gone if path in self.saved})
        _, other = changed_files(self._comparable(self.before), self._comparable(self._now()))
        allowed = self.planned | self.replaced
        allowed |= {parent for path in self.replaced for parent in path.parents}
        if foreign := [path for path in other if path not in allowed]:
            raise InstallError(
                f"the installer changed other files of {self.environment.prefix}",
                why=", ".join(map(str, foreign[:_SHOWN])),
                fix="don't install this wheel; ask its publisher why it changes other packages",
            )

    def _now(self) -> Snapshot:
        return take_snapshot(self.environment, self.folder)

    def _comparable(self, snapshot: Snapshot) -> Snapshot:
        return without_inode(snapshot, self.saved)

    def _differences(self) -> list[str]:
        now = self._now()
        new, other = changed_files(self._comparable(self.before), self._comparable(now))
        other += [path for path, copy in self.saved.items() if not _is_same(path, copy)]
        changed = [f"{path} is not what it was" for path in dict.fromkeys(other)]
        return [*(f"{path} is left" for path in new), *changed]


@contextlib.contextmanager
def changing(
    environment: PythonEnvironment, *, planned: Iterable[Path], replaced: Iterable[Path]
) -> Iterator[Transaction]:
    """Change an environment in the block; restore it if the block raises.

    Raises:
        InstallError: the environment can't be written, or not be put back.
    """
    with _locked(environment):
        if os.path.lexists(environment.journal):  # it holds copies of files
            raise InstallError(
                f"another installation into {environment.prefix} was interrupted meanwhile",
                why=f"{environment.journal} is there again",
                fix="run the same command again, which first undoes what it did",
            )
        try:
            transaction = _begin(environment, frozenset(planned), frozenset(replaced))
        except BaseException:  # a full disk: nothing was changed yet
            remove_tree(environment.journal)
            raise
        try:
            yield transaction
        except BaseException:
            transaction.restore()
            raise
        _finish(transaction.folder)


@contextlib.contextmanager
def _locked(environment: PythonEnvironment) -> Iterator[None]:
    """Keep other installations out of an environment by a lock of its folder."""
    prefix = environment.prefix
    site = scheme_folder(environment, "platlib")
    for folder in (prefix, site):
        if not os.access(folder, os.W_OK):
            raise InstallError(
                f"nothing can be installed into {prefix}",
                why=f"{folder} can't be written",
                fix="name an environment of your own with --python: python3 -m venv DIR makes one",
            )
    lock = os.open(prefix, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a disk that locks nothing
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _begin(
    environment: PythonEnvironment, planned: frozenset[Path], replaced: frozenset[Path]
) -> Transaction:
    folder = environment.journal
    (folder / _SAVED).mkdir(parents=True, mode=0o700)
    before = take_snapshot(environment, folder)
    existing = [path for path in sorted(replaced | planned) if os.path.lexists(path)]
    saved = {}
    for number, path in enumerate(dict.fromkeys([*existing, *start_files(environment)])):
        saved[path] = folder / _SAVED / str(number)
        shutil.copy2(path, saved[path], follow_symlinks=False)
    new = {path for path in planned if not os.path.lexists(path)}
    new |= {parent for path in new for parent in path.parents if not parent.exists()}
    journal = {
        "new": list(map(str, sorted(new))),
        "saved": {str(path): str(saved[path]) for path in existing},
    }
    write_atomically(folder / _JOURNAL, json.dumps(journal))
    return Transaction(
        environment=environment,
        folder=folder,
        planned=planned,
        replaced=replaced,
        saved=saved,
        before=before,
    )


def needs_recovery(environment: PythonEnvironment) -> bool:
    """Return True if an installation into an environment was killed, or runs."""
    return os.path.lexists(environment.journal)


def recover(environment: PythonEnvironment, console: Console) -> None:
    """Undo a killed installation; wait for a running one.

    Files that another installer changed later stay as they are.

    Raises:
        InstallError: the environment can't be written, or the journal isn't one of cuwheel's.
    """
    folder = environment.journal
    with _locked(environment):
        _wait_for_uv(environment.prefix)
        journal = _read_journal(environment)
        if journal:
            new, saved = journal
            fact = f"an installation into {environment.prefix} was interrupted"
            if _is_overtaken([*new, *saved], (folder / _JOURNAL).stat().st_mtime):
                console.warn(f"{fact}, and its files were changed later: they stay as they are")
            else:
                _remove(new)
                _put_back(saved)
                console.warn(f"{fact}; the files before it were put back")
        _finish(folder)


def _finish(folder: Path) -> None:
    """Let all changes stay as they are, and remove the journal's folder."""
    with contextlib.suppress(FileNotFoundError):
        (folder / _JOURNAL).replace(folder / _FINISHED)
    for path in [path for path in folder.iterdir() if path.name != _FINISHED]:
        remove_tree(path)
    remove_tree(folder)


def _wait_for_uv(prefix: Path) -> None:
    """Wait until the uv of a killed run, which holds a lock of its own, has ended."""
    with contextlib.suppress(OSError), open_regular(prefix / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def _read_journal(environment: PythonEnvironment) -> tuple[list[Path], dict[Path, Path]] | None:
    """Return new and saved files, these with copies; None: there is nothing to undo.

    Any wheel could have brought such a file by another installer, so its content isn't trusted.
    """
    folder = environment.journal
    try:
        if folder.is_symlink() or not folder.is_dir():
            raise ValueError("it is no folder")  # noqa: TRY301 - one place reports
        if os.path.lexists(folder / _JOURNAL):
            return _parsed_journal(environment)
        if not is_regular(folder / _FINISHED):
            _check_is_begun(folder)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        why = str(error) if type(error) is ValueError else f"its {_JOURNAL} can't be understood"
    else:
        return None
    numbers = itertools.count(1)
    aside = (environment.prefix / f"cuwheel-install-{number}" for number in numbers)
    free = next(path for path in aside if not os.path.lexists(path))
    raise InstallError(
        f"{folder} is no record of an installation that cuwheel could undo",
        why=why,
        fix=f"move it away: `mv {shlex.join((str(folder), str(free)))}`, then run the same command "
        f"again; keep it, as {_SAVED}/ in it may have the only copies of files that an interrupted "
        f"installation replaced, and {_JOURNAL} where they belong; nothing was changed",
    )


def _parsed_journal(environment: PythonEnvironment) -> tuple[list[Path], dict[Path, Path]]:
    folder = environment.journal
    journal = read_json(folder / _JOURNAL) or {}
    new = [Path(name) for name in [*journal["new"]]]
    saved = {Path(name): Path(copy) for name, copy in journal["saved"].items()}
    names = [copy.name for copy in saved.values()]
    copies = ((name, folder / _SAVED / name) for name in names)
    if lost := [name for name, path in copies if not (path.is_symlink() or is_regular(path))]:
        raise ValueError(f"the copies {', '.join(lost[:_SHOWN])} are missing")
    are_inside = all(copy.parent == folder / _SAVED for copy in saved.values())
    if not are_inside or not all(_is_inside(path, environment) for path in (*new, *saved)):
        raise ValueError(
            "it names files outside of the environment, which may have been moved or copied since"
        )
    return new, saved


def _check_is_begun(folder: Path) -> None:
    """Raise a ValueError if a folder has more than an installation begins with."""
    others = [path for path in folder.iterdir() if path.name != _SAVED and not is_part(path.name)]
    others += [path for path in folder.glob(f"{_SAVED}/*") if not path.name.isdecimal()]
    if others:
        raise ValueError(f"it has no {_JOURNAL}, but {shown_names([path.name for path in others])}")


def _is_inside(path: Path, environment: PythonEnvironment) -> bool:
    """Return True if wheels can be installed at a path, links of its folders followed."""
    real = Path(os.path.realpath(path.parent)) / path.name
    names = ("data", "purelib", "platlib", "scripts", "include")
    roots = (environment.prefix, *(scheme_folder(environment, name) for name in names))
    return (
        path.is_absolute()
        and ".." not in path.parts
        and any(real.is_relative_to(os.path.realpath(root)) for root in roots)
    )


def _is_overtaken(paths: Iterable[Path], begun: float) -> bool:
    """Return True if files were written long after an installation began that was killed.

    Folders don't count: an import puts `__pycache__` into them.
    """
    times = [path.lstat().st_ctime for path in paths if path.is_symlink() or path.is_file()]
    return max(times, default=0.0) > begun + _LONGEST


def _remove(paths: Iterable[Path]) -> None:
    """Remove files with their bytecode, what a killed uv left, and folders that become empty."""
    for path in sorted(paths, key=lambda path: len(path.parts), reverse=True):
        if not path.is_dir() or path.is_symlink():
            _forget_bytecode(path)
            path.unlink(missing_ok=True)
            continue
        remove_tree(path / "__pycache__")
        for part in path.iterdir():
            if _UV_PART.fullmatch(part.name) and is_regular(part):
                part.unlink()
        if not any(path.iterdir()):
            path.rmdir()


def _forget_bytecode(path: Path) -> None:
    """Remove the bytecode of a module; Python knows a stale one by time and size alone."""
    if path.suffix == ".py":
        for compiled in path.parent.glob(f"__pycache__/{glob.escape(path.stem)}.*.pyc"):
            compiled.unlink(missing_ok=True)


def _put_back(saved: Mapping[Path, Path]) -> None:
    for path in sorted(saved, key=lambda path: path.suffix == ".pyc"):
        _forget_bytecode(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.cuwheel-restored")
        shutil.copy2(saved[path], aside, follow_symlinks=False)
        aside.replace(path)


def _make_again(path: Path, before: tuple[int, ...] | str) -> None:
    """Restore a removed folder or link: a snapshot has all of it."""
    if isinstance(before, str) and before and not os.path.lexists(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(before)
    elif len(before) == 1 and isinstance(before[0], int):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(stat.S_IMODE(before[0]))


def _is_same(path: Path, copy: Path) -> bool:
    try:
        if path.lstat().st_mode != copy.lstat().st_mode:
            return False
        if path.is_symlink():
            return path.readlink() == copy.readlink()
        return sha256_of_file(path) == sha256_of_file(copy)
    except OSError:
        return False
