"""Source trees on disk: copied without what a build left there, equal on every machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import SourceError
from cuwheel.system.files import describe_file, sha256_of_tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


_LEFT_OUT = {".git", ".hg", ".svn", "__pycache__"}
# Only at the top: deeper down, a package may well have a folder that is called `build`.
_LEFT_OUT_AT_TOP = {"build", "dist", ".nox", ".tox", ".venv"}
_SHOWN = 10  # bad entries that the message names

# The times that a zip file can hold, and so a wheel: 1980 to 2107 ("APPNOTE.TXT - .ZIP File Format
# Specification", 4.4.6). A day is left on both sides for time zones.
_EARLIEST = 315_619_200  # 1980-01-02, seconds since 1970
_LATEST = 4_354_732_800  # 2107-12-30

# `SOURCE_DATE_EPOCH` of every source that is a folder. Times of files follow from when they were
# checked out, unpacked or copied; the time of a commit is gone where there is no `.git`.
FOLDER_EPOCH = _EARLIEST


def is_left_out(name: Path) -> bool:
    """Whether a path, relative to a source tree, is no source: version control, caches, builds."""
    return (
        not _LEFT_OUT.isdisjoint(name.parts)
        or not _LEFT_OUT_AT_TOP.isdisjoint(name.parts[:1])
        or any(part.endswith(".egg-info") for part in name.parts)
    )


def copy_source(tree: Path, to: Path, *, without: Collection[Path] = ()) -> None:
    """Copy the files and links of a source tree into a folder, without litter.

    Args:
        tree: the source.
        to: the folder; made if it isn't there.
        without: folders that aren't copied, such as a work folder inside the tree.

    Raises:
        SourceError: a link leads outside the tree, or something is no file, folder or link.
    """
    for name in _checked_sources(tree, without):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / name, to / name, follow_symlinks=False)


def identify(tree: Path, *, without: Collection[Path] = ()) -> str:
    """What a source tree is: SHA-256 of names, modes and contents.

    Args:
        tree: the source.
        without: folders that don't count.

    Raises:
        SourceError: as `copy_source`.
    """
    names = set(_checked_sources(tree, without))
    return sha256_of_tree(tree, skip=lambda name: name not in names)


def describe_sources(tree: Path, *, without: Collection[Path] = ()) -> dict[str, str]:
    """Each file of a source tree, with what it is.

    Args:
        tree: the source.
        without: folders that don't count.

    Raises:
        SourceError: as `copy_source`.
    """
    return {str(name): describe_file(tree / name) for name in _checked_sources(tree, without)}


def _checked_sources(tree: Path, without: Collection[Path]) -> list[Path]:
    """Every file and link that is source, sorted.

    Raises:
        SourceError: a link leads outside the tree, or something is no file, folder or link.
    """
    names = sorted(_sources(tree, without))
    faults = [f"{name} {fault}" for name in names if (fault := _fault_of(tree, name))]
    if faults:
        more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise SourceError(
            f"{tree} could not be copied",
            why="; ".join(faults[:_SHOWN]) + more,
            fix="remove them, or replace the link with a copy of the file",
        )
    return names


def _sources(tree: Path, without: Collection[Path]) -> Iterator[Path]:
    """Every file and link that is source, relative to the tree."""
    for base, folders, files in os.walk(tree):
        here = Path(base)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [
            name
            for name in folders
            if name not in links
            and here / name not in without
            and not is_left_out((here / name).relative_to(tree))
        ]
        names = [(here / name).relative_to(tree) for name in (*links, *files)]
        yield from (name for name in names if not is_left_out(name))


def _fault_of(tree: Path, name: Path) -> str:
    path = tree / name
    if not path.is_symlink():
        return "" if path.is_file() else "is not a file, folder or link"
    target = path.readlink()
    is_inside = path.resolve().is_relative_to(tree.resolve())
    return "" if is_inside and not target.is_absolute() else f"leads outside of it, to {target}"


def fit_for_zip(epoch: int) -> int:
    """The nearest time, seconds since 1970, that the zip format can express in every time zone."""
    return min(max(epoch, _EARLIEST), _LATEST)


def normalize_tree(tree: Path, epoch: int) -> None:
    """Give everything in a tree one time stamp, and modes 644 or 755.

    Args:
        tree: the folder, which is settled too.
        epoch: seconds since 1970.
    """
    for base, folders, files in os.walk(tree, topdown=False):
        for name in (*files, *folders):
            _normalize_entry(Path(base) / name, epoch)
    _normalize_entry(tree, epoch)


def _normalize_entry(path: Path, epoch: int) -> None:
    if not path.is_symlink():
        is_executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if is_executable else 0o644)
    os.utime(path, (epoch, epoch), follow_symlinks=False)
