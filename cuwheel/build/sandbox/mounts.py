"""What a sandbox holds of the machine: every list of mounts but a build's own folders.

System folders, GPUs, and the prefix of an interpreter or compiler: a folder with `bin` and `lib`.
That may be in a person's home folder, or in `~/.local`, next to keys and settings: of such a prefix
only the parts that programs live in are shown.

libpython, OpenSSL or SQLite of a Python may each have a prefix of their own, as Spack and EasyBuild
install them, to which a path in the files leads (`DT_RPATH`, `DT_RUNPATH`). These very files are
shown, not their neighbours. Rules of the search: ld.so(8).
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cuwheel.base.formats.binaries.elf import Elf, ElfFormatError, read_elf
from cuwheel.base.paths import script
from cuwheel.base.system.regular_files import open_file

_HOSTS = script("build/sandbox/namespaces/hosts")
# Folders with programs of the system, without people's files and other disks. Folders named `lib…`
# are added. Nix and Guix keep theirs in a folder of their own.
_SYSTEM = {"bin", "etc", "gnu", "nix", "opt", "sbin", "sys", "usr"}
# NVIDIA's, and Windows' for Linux in it.
_GPU_DEVICES = ("nvidia*", "dxg")
_PARTS = ("bin", "include", "lib", "lib64", "libexec", "*-linux-gnu")
_EXTENSIONS = "lib*/python3.*/lib-dynload/*.so"
_ORIGIN = "$ORIGIN"


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A file or folder that a sandbox holds.

    Attributes:
        source: the file or folder on this machine; the text of a link.
        kind: `read`, `write` and `device` show the machine's own, `link` is a symbolic link,
            `cover` hides a file or folder that is there behind an empty one.
    """

    source: Path
    target: Path
    kind: str = "read"


def is_of_system(path: Path) -> bool:
    """Return True if every sandbox holds an absolute path of the machine."""
    top = path.parts[1:2]
    return not top or top[0] in _SYSTEM or top[0].startswith("lib")


def system_mounts() -> list[Mount]:
    """Return the system's folders in the machine's root; links (`/bin` to `usr/bin`) as links."""
    mounts = []
    for path in sorted(Path("/").iterdir()):
        if not is_of_system(path):
            continue
        if path.is_symlink():
            mounts.append(Mount(source=path.readlink(), target=path, kind="link"))
        elif path.is_dir():
            mounts.append(Mount(source=path, target=path))
    # An `/etc/hosts` with the sandbox's host name, which no network can resolve there: JAX with
    # several processes looks it up (Gloo, gloo/transport/tcp/device.cc).
    hosts = Path("/etc/hosts")
    if hosts.is_file() and not hosts.is_symlink():  # a link's target may not be there to mount on
        mounts.append(Mount(source=_HOSTS, target=hosts))
    if os.geteuid() == 0:
        # Passwords and keys. Searched each time: locks and copies of them come and go.
        closed = closed_to_others("/etc")
        mounts += [Mount(source=path, target=path, kind="cover") for path in closed]
    return mounts


def closed_to_others(folder: str) -> Iterator[Path]:
    """Yield files that others can't read and folders that they can't enter; 1,000 in 30 ms.

    What goes away meanwhile is left out.
    """
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                mode = entry.stat(follow_symlinks=False).st_mode
                needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
                if stat.S_ISLNK(mode):
                    continue
                if mode & needed != needed:
                    yield Path(entry.path)
                elif stat.S_ISDIR(mode):
                    yield from closed_to_others(entry.path)


def gpu_mounts() -> tuple[Mount, ...]:
    """Return the devices of this machine's GPUs; none where it has none."""
    paths = [path for name in _GPU_DEVICES for path in sorted(Path("/dev").glob(name))]
    return tuple(Mount(source=path, target=path, kind="device") for path in paths)


def prefix_mounts(prefix: Path, target: Path) -> Iterator[Mount]:
    """Mount a prefix, for reading."""
    home = Path.home().resolve()
    if home.is_relative_to(prefix) or prefix == home / ".local":
        for part in sorted(part for name in _PARTS for part in prefix.glob(name)):
            yield Mount(source=part, target=target / part.name)
    else:
        yield Mount(source=prefix, target=target)


def interpreter_mounts(python: Path) -> Iterator[Mount]:
    """Mount a Python at its absolute path, with the links that lead to it and its libraries."""
    prefix = python.resolve().parent.parent
    if not is_of_system(prefix):
        yield from prefix_mounts(prefix, prefix)
    yield from foreign_libraries(python.resolve(), prefix)
    link = python
    while link.parent.parent.resolve() != prefix and link.is_symlink():
        target = Path(os.path.normpath(link))
        if not is_of_system(target):
            yield Mount(source=link.readlink(), target=target, kind="link")
        link = link.parent / link.readlink()
    # The last may name the prefix by a link too, as uv's and pyenv's short names of releases do. No
    # link is made of that one: other mounts may lie below it.
    named = Path(os.path.normpath(link.parent.parent))
    is_alias = named != prefix and named.resolve() == prefix
    if is_alias and not is_of_system(named):
        yield from prefix_mounts(prefix, named)


class _Located(NamedTuple):
    """A file or folder: on this machine, and in the sandbox."""

    real: Path
    inside: Path


class _Loaded(NamedTuple):
    """A file that the loader loads, and the inherited search path (`DT_RPATH`)."""

    place: _Located
    inherited: tuple[_Located, ...]


@functools.cache  # called for each program that runs in a sandbox
def foreign_libraries(python: Path, inside: Path) -> tuple[Mount, ...]:
    """Return the libraries outside of its prefix and the system that a Python loads."""
    prefix = python.parent.parent
    if is_of_system(prefix):
        return ()
    interpreter = _Loaded(_Located(python, inside / python.relative_to(prefix)), ())
    _, paths = _needed(interpreter)
    files = sorted(prefix.glob(_EXTENSIONS))
    queue = [interpreter]
    queue += [_Loaded(_Located(file, inside / file.relative_to(prefix)), paths) for file in files]
    libraries = {loaded.place.inside: loaded.place.real for loaded in queue}
    for loaded in queue:  # it grows meanwhile
        needed, paths = _needed(loaded)
        for place in needed:
            if place.inside not in libraries:
                libraries[place.inside] = place.real
                queue.append(_Loaded(place, paths))
    return tuple(
        Mount(source=real.resolve(), target=target)
        for target, real in libraries.items()
        if not target.is_relative_to(inside) and not is_of_system(target)
    )


def _needed(loaded: _Loaded) -> tuple[list[_Located], tuple[_Located, ...]]:
    """Return the libraries that a file needs but the system's, and their search path."""
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
        with open_file(path) as stream:
            return read_elf(stream)
    except (OSError, ElfFormatError):
        return None


def _folders(entries: tuple[str, ...], place: _Located) -> Iterator[_Located]:
    for entry in entries:
        real, inside = (
            Path(os.path.normpath(entry.replace("${ORIGIN}", _ORIGIN).replace(_ORIGIN, str(at))))
            for at in (place.real.resolve().parent, place.inside.parent)
        )
        if real.is_absolute():
            yield _Located(real, inside)


def _find(name: str, folders: tuple[_Located, ...]) -> list[_Located]:
    """Return the first of that name; none where the loader finds it in the system's folders."""
    for real, inside in folders:
        if os.access(real / name, os.R_OK) and (real / name).is_file():
            return [_Located(real / name, inside / name)]
    return []
