"""Source folders: copied without leftovers of builds, equal on every machine; their changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import SourceError
from cuwheel.base.system.files import describe_file, sha256_of_tree
from cuwheel.base.system.folders.output_folder import is_output
from cuwheel.base.system.quantities import first_of, plural
from cuwheel.build.inputs.checkouts import Checkout, commit_of, read_checkout, tracked_files

_LEFT_OUT = {".git", ".hg", ".svn", "__pycache__"}
# Only at the top: deeper in the tree a package may have a folder `build` of its own.
_LEFT_OUT_AT_TOP = {"build", "dist", ".nox", ".tox", ".venv"}
_SHOWN = 10  # bad entries that the message names
_LISTED = 3  # changed files that are named of each kind
_COMMIT = 12  # characters of a commit

# The times of a zip file, and so of a wheel: 1980 to 2107 ("APPNOTE.TXT - .ZIP File Format
# Specification", 4.4.6). A day is left on both sides for time zones.
_EARLIEST = 315_619_200  # 1980-01-02, seconds since 1970
_LATEST = 4_354_732_800  # 2107-12-30

# `SOURCE_DATE_EPOCH` of every source that is a folder. Times of files follow from when they were
# checked out, unpacked or copied; the time of a commit is gone where there is no `.git`.
FOLDER_EPOCH = _EARLIEST


def is_left_out(name: Path) -> bool:
    """Return True if a path in a tree is no source: version control, caches, builds."""
    return (
        not _LEFT_OUT.isdisjoint(name.parts)
        or not _LEFT_OUT_AT_TOP.isdisjoint(name.parts[:1])
        or any(part.endswith(".egg-info") for part in name.parts)
    )


def copy_source(tree: Path, to: Path, *, without: Collection[Path] = ()) -> None:
    """Copy a tree's sources into a folder: what git tracks, else without leftovers of builds.

    Args:
        to: the folder; made if it doesn't exist.
        without: folders and files that aren't copied, such as a work folder inside the tree.

    Raises:
        SourceError: a link leads outside the tree, or something is no file, folder or link.
    """
    for name in _checked_sources(tree, without):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / name, to / name, follow_symlinks=False)


def identify(tree: Path, *, without: Collection[Path] = ()) -> str:
    """Return the SHA-256 of a source tree's names, modes and contents.

    Raises:
        SourceError: as `copy_source`.
    """
    names = set(_checked_sources(tree, without))
    return sha256_of_tree(tree, skip=lambda name: name not in names)


def _checked_sources(tree: Path, without: Collection[Path]) -> list[Path]:
    """Return every file and link that is source, sorted: of a git checkout what git tracks."""
    tracked = tracked_files(tree)
    if tracked is None:
        names = sorted(_sources(tree, without))
    else:
        inside = {folder.relative_to(tree) for folder in without if folder.is_relative_to(tree)}
        names = sorted(name for name in tracked if inside.isdisjoint(name.parents))
    faults = [f"{name} {fault}" for name in names if (fault := _fault_of(tree, name))]
    if faults:
        raise SourceError(
            f"{tree} could not be copied",
            why=first_of(faults, _SHOWN, "; "),
            fix="remove them, or replace the link with a copy of the file",
        )
    return names


def _sources(tree: Path, without: Collection[Path]) -> Iterator[Path]:
    """Yield every file and link that is source, relative to the tree.

    Work folders and folders of wheels of earlier builds are left out, with their lock files.
    """
    for base, folders, files in os.walk(tree):
        folder = Path(base)
        links = [name for name in folders if (folder / name).is_symlink()]
        outputs = {name for name in folders if name not in links and is_output(folder / name)}
        folders[:] = [
            name
            for name in folders
            if name not in links
            and name not in outputs
            and folder / name not in without
            and not is_left_out((folder / name).relative_to(tree))
        ]
        locks = {f"{name}.lock" for name in outputs}
        names = [
            (folder / name).relative_to(tree) for name in (*links, *files) if name not in locks
        ]
        yield from (name for name in names if not is_left_out(name) and tree / name not in without)


def _fault_of(tree: Path, name: Path) -> str:
    path = tree / name
    if not path.is_symlink():
        return "" if path.is_file() else "is not a file, folder or link"
    target = path.readlink()
    # Not Path.resolve, which raises for links that lead to each other.
    is_inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(tree))
    return "" if is_inside and not target.is_absolute() else f"leads outside of it, to {target}"


def fit_for_zip(epoch: int) -> int:
    """Return the nearest time, seconds since 1970, that zip can express in every time zone."""
    return min(max(epoch, _EARLIEST), _LATEST)


def normalize_tree(tree: Path, epoch: int) -> None:
    """Give everything in a tree one time, seconds since 1970, and modes 644 or 755."""
    for base, folders, files in os.walk(tree, topdown=False):
        for name in (*files, *folders):
            _normalize_entry(Path(base) / name, epoch)
    _normalize_entry(tree, epoch)


def _normalize_entry(path: Path, epoch: int) -> None:
    if not path.is_symlink():
        is_executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if is_executable else 0o644)
    os.utime(path, (epoch, epoch), follow_symlinks=False)


@dataclass(frozen=True, kw_only=True)
class SourceState:
    """The files of a source folder, with their descriptions.

    Attributes:
        commit: that git has checked out there, short; empty: it is no git repository.
    """

    folder: str
    commit: str
    files: tuple[tuple[str, str], ...]


def read_revision(folder: Path) -> tuple[str, str, tuple[str, ...]]:
    """Return the commit of a source folder, a description of its changes, and warnings.

    The commit has 40 hexadecimal digits; it is empty where there is none.
    """
    checkout = read_checkout(folder)
    if checkout is None and (folder / ".git").exists():
        warning = (
            f"{folder} has a .git, but git isn't installed, can't read it, or tracks nothing: all "
            "of its files are taken, ignored ones too"
        )
        return "", "a folder, with a .git that tracks nothing", (warning,)
    if checkout is None:
        return "", "a folder, not under version control", ()
    short = checkout.commit[:_COMMIT]
    words = f"commit {short}" if short else "no commit yet"
    changes = _listed("changed", checkout.changes) if checkout.changes else "unchanged"
    return checkout.commit, f"{words}, {changes}", tuple(_warnings(folder, checkout))


def _warnings(folder: Path, checkout: Checkout) -> Iterator[str]:
    others = [name for name in checkout.untracked if not is_left_out(Path(name))]
    if others:
        yield (
            f"left out of the source, since git doesn't track it: {_listed('in all', others)}; "
            f"`git -C {folder} add -f FILE` takes it"
        )
    if checkout.pointers:
        yield (
            f"git-lfs pointers instead of contents: {_listed('in all', checkout.pointers)}; "
            f"`git -C {folder} lfs pull` fetches them"
        )
    if missing := [name for name in checkout.changes if name.endswith("is missing)")]:
        yield (
            f"not in the source: {', '.join(missing[:_LISTED])}; "
            f"`git -C {folder} submodule update --init --recursive` fetches it"
        )


def read_source_state(folder: Path, *, without: Collection[Path] = ()) -> SourceState:
    """Read the files of a source folder.

    Raises:
        SourceError: as `copy_source`.
    """
    names = _checked_sources(folder, without)
    files = tuple((str(name), describe_file(folder / name)) for name in names)
    return SourceState(folder=str(folder), commit=commit_of(folder)[:_COMMIT], files=files)


def describe_source_change(old: SourceState, new: SourceState) -> str:
    """Describe what differs between two states; empty: nothing."""
    before, now = dict(old.files), dict(new.files)
    both = before.keys() & now.keys()
    kinds = {
        "changed": sorted(name for name in both if before[name] != now[name]),
        "new": sorted(now.keys() - both),
        "gone": sorted(before.keys() - both),
    }
    changes = [_listed(kind, names) for kind, names in kinds.items() if names]
    if old.commit != new.commit:
        changes.insert(0, f"commit {old.commit or 'none'} -> {new.commit or 'none'}")
    if changes and old.folder != new.folder:
        changes.insert(0, f"{new.folder} instead of {old.folder}")
    return "; ".join(changes)


def _listed(kind: str, names: Sequence[str]) -> str:
    """Return `2 files changed: setup.py, src/a.cu`."""
    return f"{plural(len(names), 'file')} {kind}: {first_of(names, _LISTED)}"
