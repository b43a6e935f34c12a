"""Libraries of another kind of machine that a recipe `needs`: out of its root folder.

A cross compiler brings its own C library and headers. Before the root's own they would be mixed, so
a build is given what the compiler doesn't have itself, in a folder of its own.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
from typing import TYPE_CHECKING

from cuwheel.cross.library_folders import library_folders
from cuwheel.system.files import sha256_of_file
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.model.platform import Platform
    from cuwheel.workspace.job import TargetRoot


_HEADERS, _LIBRARIES = "include", "lib"
_LINKED = ("lib*.so", "lib*.a")  # what a linker looks for
_OF_PYTHON = ("python3*", "libpython3*")  # the build is told of them by `python_settings`
_MOST_LINKS = 40  # from one name to the file, as the kernel allows (path_resolution(7))
_STANZA = r"(?m)^Package: {name}\n(?:.+\n)*"
_CHANGE = re.compile(r"\S+ \((?P<version>[^)]+)\)")  # the first line of a Debian changelog


def package_version(root: Path, name: str) -> str:
    """The version of a Debian package in a root folder; empty where it isn't there.

    dpkg's own list says it where the folder is a whole system's. What `dpkg-deb -x` has unpacked
    has no list, but each package has its changelog there (Debian Policy, 12.7).

    Args:
        root: the folder.
        name: `libfftw3-dev`.
    """
    status = root / "var" / "lib" / "dpkg" / "status"
    if status.is_file():
        found = re.search(_STANZA.format(name=re.escape(name)), f"{read_text(status)}\n")
        fields = dict(re.findall(r"(?m)^([\w-]+): (.*)$", found[0])) if found else {}
        if fields.get("Status", "").endswith(" installed"):
            return str(fields.get("Version", ""))
    folder = root / "usr" / "share" / "doc" / name
    for log in (*sorted(folder.glob("changelog.Debian.*.gz")), folder / "changelog.Debian.gz"):
        real = _inside(root, log)
        if real and real.is_file():
            with gzip.open(real, "rt", encoding="utf-8", errors="replace") as lines:
                if line := _CHANGE.match(lines.readline()):
                    return line["version"]
    return ""


def write_libraries(folder: Path, root: TargetRoot, platform: Platform) -> None:
    """Fill an empty folder with headers and libraries of a root folder.

    Args:
        folder: for them.
        root: where they are.
        platform: of its machine; what its cross compiler has itself is left out.
    """
    for name, path in _files(root, platform):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def libraries_digest(root: TargetRoot, platform: Platform) -> str:
    """SHA-256 over what `write_libraries` would write, names and content."""
    lines = (f"{name} {sha256_of_file(path)}" for name, path in _files(root, platform))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def header_folder(folder: Path) -> Path:
    """Where `write_libraries` has put the headers."""
    return folder / _HEADERS


def library_folder(folder: Path) -> Path:
    """Where it has put the libraries."""
    return folder / _LIBRARIES


def _files(root: TargetRoot, platform: Platform) -> Iterator[tuple[str, Path]]:
    """Each file's name below the folder, and where it is; sorted."""
    found = {**_headers(root, platform), **_libraries(root, platform)}
    yield from sorted(found.items())


def _headers(root: TargetRoot, platform: Platform) -> dict[str, Path]:
    own = {path.name for path in platform.cross_headers.glob("*")} | {platform.triplet}
    found: dict[str, Path] = {}
    base = root.folder / "usr" / "include"
    for folder in (base / platform.triplet, base):
        for entry in folder.glob("*"):
            if entry.name not in own and not entry.match(_OF_PYTHON[0]):
                paths = entry.rglob("*") if entry.is_dir() else (entry,)
                named = {f"{_HEADERS}/{path.relative_to(folder)}": path for path in paths}
                found |= _real_files(root.folder, named)
    return found


def _libraries(root: TargetRoot, platform: Platform) -> dict[str, Path]:
    """Each under the name that the linker looks for, and under its own."""
    own = {path.name for path in platform.cross_libraries.glob("*")}
    found: dict[str, Path] = {}
    for folder in library_folders(root, platform):
        if not folder.is_relative_to(root.folder):
            continue
        paths = [path for pattern in _LINKED for path in folder.glob(pattern)]
        kept = [path for path in paths if path.name not in own and not path.match(_OF_PYTHON[1])]
        real = _real_files(root.folder, {f"{_LIBRARIES}/{path.name}": path for path in kept})
        for name, path in real.items():
            found.setdefault(name, path)
            found.setdefault(f"{_LIBRARIES}/{path.name}", path)
    return found


def _real_files(root: Path, named: dict[str, Path]) -> dict[str, Path]:
    real = ((name, _inside(root, path)) for name, path in named.items())
    return {name: path for name, path in real if path and path.is_file()}


def _inside(root: Path, path: Path) -> Path | None:
    """The file that a path of a root folder leads to there; None: it leads out, or round."""
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            real = path.resolve()
            return real if real.is_relative_to(root) else None
        link = path.readlink()
        path = root / link.relative_to("/") if link.is_absolute() else path.parent / link
    return None
