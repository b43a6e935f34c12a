"""Libraries of another kind of machine that a recipe `needs`, from its root folder.

A cross compiler has its own C library and headers. The root's own would be mixed with them, so a
build gets a folder with the files that the compiler doesn't have.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.regular_files import copy_regular, open_file, read_text
from cuwheel.build.recipe.platform import Platform
from cuwheel.build.workspace.job import TargetRoot

HEADERS, LIBRARIES = "include", "lib"  # folders that `write_libraries` fills
_TRUSTED = ("lib64", "usr/lib64", "lib", "usr/lib")  # ld.so(8): searched after all others
_LINKED = ("lib*.so", "lib*.a")  # names that a linker searches
_OF_PYTHON = ("python3*", "libpython3*")  # the build gets them from `target_root`
_MOST_LINKS = 40  # from one name to the file, as the kernel allows (path_resolution(7))
_STANZA = r"(?m)^Package: {name}\n(?:.+\n)*"
_CHANGE = re.compile(r"\S+ \((?P<version>[^)]+)\)")  # the first line of a Debian changelog


def package_version(root: Path, name: str) -> str:
    """Return the version of a Debian package, `libfftw3-dev`, in a root folder; empty without it.

    It is in dpkg's own list if the folder is a whole system's. Without a list, as `dpkg-deb -x`
    unpacks packages, each has its changelog there (Debian Policy, 12.7).
    """
    status = root / "var" / "lib" / "dpkg" / "status"
    if status.is_file():
        stanza = re.search(_STANZA.format(name=re.escape(name)), f"{read_text(status)}\n")
        fields = dict(re.findall(r"(?m)^([\w-]+): (.*)$", stanza[0])) if stanza else {}
        if fields.get("Status", "").endswith(" installed"):
            return str(fields.get("Version", ""))
    folder = root / "usr" / "share" / "doc" / name
    for log in (*sorted(folder.glob("changelog.Debian.*.gz")), folder / "changelog.Debian.gz"):
        real = _inside(root, log)
        if real and real.is_file():
            with (
                open_file(real) as stream,
                gzip.open(stream, "rt", encoding="utf-8", errors="replace") as lines,
            ):
                if line := _CHANGE.match(lines.readline()):
                    return line["version"]
    return ""


def write_libraries(folder: Path, root: TargetRoot, platform: Platform) -> None:
    """Fill an empty folder with a root's headers and libraries that the cross compiler lacks."""
    for name, path in _files(root, platform).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_regular(path, target)


def libraries_digest(root: TargetRoot, platform: Platform) -> str:
    """Return the SHA-256 of what `write_libraries` would write, names and content."""
    files = sorted(_files(root, platform).items())
    lines = (f"{name} {sha256_of_file(path)}" for name, path in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def library_folders(root: TargetRoot, platform: Platform) -> tuple[Path, ...]:
    """Return folders of libraries that a linker for that machine searches, as paths of this one.

    Args:
        root: of the machine; folders in its `/etc/ld.so.conf` come first.
        platform: of the machine. The folder of its cross compiler on Debian (`libgomp.so.1`, which
            a small root needn't have) comes last.
    """
    # Builds for this machine, and commands that only check a target, don't need it.
    from auditwheel.lddtree import parse_ld_so_conf  # noqa: PLC0415

    folder = root.folder
    configured = parse_ld_so_conf(f"{folder}/etc/ld.so.conf", root=f"{folder}/")
    trusted = (folder / name for name in _TRUSTED)
    folders = dict.fromkeys((*map(Path, configured), *trusted, platform.cross_libraries))
    return tuple(filter(Path.is_dir, folders))


def _files(root: TargetRoot, platform: Platform) -> dict[str, Path]:
    """Return the root's files by their names below the folder."""
    return {**_headers(root, platform), **_libraries(root, platform)}


def _headers(root: TargetRoot, platform: Platform) -> dict[str, Path]:
    of_compiler = {path.name for path in platform.cross_headers.glob("*")} | {platform.triplet}
    headers: dict[str, Path] = {}
    base = root.folder / "usr" / "include"
    for folder in (base / platform.triplet, base):
        for entry in folder.glob("*"):
            if entry.name not in of_compiler and not entry.match(_OF_PYTHON[0]):
                paths = entry.rglob("*") if entry.is_dir() else (entry,)
                named = {f"{HEADERS}/{path.relative_to(folder)}": path for path in paths}
                headers |= _real_files(root.folder, named)
    return headers


def _libraries(root: TargetRoot, platform: Platform) -> dict[str, Path]:
    """Return each library under the name that the linker searches, and under its own."""
    of_compiler = {path.name for path in platform.cross_libraries.glob("*")}
    libraries: dict[str, Path] = {}
    for folder in library_folders(root, platform):
        if not folder.is_relative_to(root.folder):
            continue
        named = {
            f"{LIBRARIES}/{path.name}": path
            for pattern in _LINKED
            for path in folder.glob(pattern)
            if path.name not in of_compiler and not path.match(_OF_PYTHON[1])
        }
        for name, path in _real_files(root.folder, named).items():
            libraries.setdefault(name, path)
            libraries.setdefault(f"{LIBRARIES}/{path.name}", path)
    return libraries


def _real_files(root: Path, named: dict[str, Path]) -> dict[str, Path]:
    real = ((name, _inside(root, path)) for name, path in named.items())
    return {name: path for name, path in real if path and path.is_file()}


def _inside(root: Path, path: Path) -> Path | None:
    """Return the file that a path of a root folder leads to; None: outside of it, or a loop."""
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            real = path.resolve()
            return real if real.is_relative_to(root) else None
        link = path.readlink()
        path = root / link.relative_to("/") if link.is_absolute() else path.parent / link
    return None
