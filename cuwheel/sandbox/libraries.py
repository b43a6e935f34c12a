"""Shared libraries of a Python that lie outside of its prefix, as Spack and EasyBuild install them.

libpython, OpenSSL or SQLite may each have a prefix of their own, to which a path in the files leads
(`DT_RPATH`, `DT_RUNPATH`). A sandbox shows these very files, not what is beside them. Rules of the
search: ld.so(8).
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cuwheel.binaries.elf import ElfFormatError, read_elf
from cuwheel.sandbox.backends import Mount, is_of_system

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.binaries.elf import Elf

_EXTENSIONS = "lib*/python3.*/lib-dynload/*.so"
_ORIGIN = "$ORIGIN"


class _Place(NamedTuple):
    """A file or folder: on this machine, and in the sandbox."""

    real: Path
    inside: Path


class _Loaded(NamedTuple):
    """A file that the loader loads, and where those that loaded it have it look (`DT_RPATH`)."""

    place: _Place
    inherited: tuple[_Place, ...]


@functools.cache  # asked for each program that runs in a sandbox
def foreign_libraries(python: Path, inside: Path) -> tuple[Mount, ...]:
    """What a Python's programs and extension modules load from elsewhere, but from the system.

    Args:
        python: the interpreter, links followed.
        inside: where the sandbox has its prefix.
    """
    prefix = python.parent.parent
    if is_of_system(prefix):
        return ()
    interpreter = _Loaded(_Place(python, inside / python.relative_to(prefix)), ())
    _, paths = _needed(interpreter)
    files = sorted(prefix.glob(_EXTENSIONS))
    queue = [interpreter]
    queue += [_Loaded(_Place(one, inside / one.relative_to(prefix)), paths) for one in files]
    found = {loaded.place.inside: loaded.place.real for loaded in queue}
    for loaded in queue:  # it grows meanwhile
        names, paths = _needed(loaded)
        for place in names:
            if place.inside not in found:
                found[place.inside] = place.real
                queue.append(_Loaded(place, paths))
    return tuple(
        Mount(source=real.resolve(), target=target)
        for target, real in found.items()
        if not target.is_relative_to(inside) and not is_of_system(target)
    )


def _needed(loaded: _Loaded) -> tuple[list[_Place], tuple[_Place, ...]]:
    """The libraries that a file names and that aren't the system's; where they look in turn."""
    elf = _read(loaded.place.real)
    if elf is None:
        return [], loaded.inherited
    own = tuple(_folders(elf.search_path, loaded.place))
    searched = own if elf.runpath else (*own, *loaded.inherited)
    inherited = loaded.inherited if elf.runpath else searched
    return [place for name in elf.needed for place in _find(name, searched)], inherited


@functools.cache  # a build has its Python under two names
def _read(path: Path) -> Elf | None:
    try:
        with path.open("rb") as stream:
            return read_elf(stream)
    except (OSError, ElfFormatError):
        return None


def _folders(entries: tuple[str, ...], place: _Place) -> Iterator[_Place]:
    for entry in entries:
        real, inside = (
            Path(os.path.normpath(entry.replace("${ORIGIN}", _ORIGIN).replace(_ORIGIN, str(at))))
            for at in (place.real.resolve().parent, place.inside.parent)
        )
        if real.is_absolute():
            yield _Place(real, inside)


def _find(name: str, folders: tuple[_Place, ...]) -> list[_Place]:
    """The first of that name; none where the loader finds it in the system's folders."""
    for real, inside in folders:
        if os.access(real / name, os.R_OK) and (real / name).is_file():
            return [_Place(real / name, inside / name)]
    return []
