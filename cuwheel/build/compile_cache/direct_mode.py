"""What the launcher's direct mode has to know of a build, and the folder with its objects.

The launcher looks at the package's own files (`standalone/launcher/direct_mode.py`); what else a
compile can read doesn't change during a build, so it is looked at once, here. docs/adr/0016.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.build.compile_cache.folders import DIRECT_FOLDER
from cuwheel.errors import CommandFailedError
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.build.compile_cache.choice import CacheChoice
    from cuwheel.build.environment import BuildInputs
    from cuwheel.sandbox.path_map import PathMap

_SEARCH_STARTS, _SEARCH_ENDS = "search starts here:", "End of search list."
# Folders of a build whose content `_identity` stands for, and those in which it may make headers.
_PINNED = ("cuda", "toolkit", "environment", "packages", "launcher")
_SCRATCH = ("tmp", "resources")


def direct_settings(
    inputs: BuildInputs, path_map: PathMap, choice: CacheChoice, fingerprint: str
) -> dict[str, object]:
    """Those attributes of the launcher's settings that its direct mode reads.

    Args:
        inputs: of the build.
        path_map: where the build has its folders.
        choice: its compile cache; without one there is no direct mode.
        fingerprint: of all that compiles.

    Returns:
        Nothing where the toolkit isn't pinned: then its headers are known by nothing.
    """
    cxx = inputs.machine.host_compiler
    has_direct_mode = bool(choice.cache.name) and choice.has_direct_mode
    if not has_direct_mode or not inputs.toolchain.pinned or cxx is None:
        return {}
    system = _searched_by(cxx)
    if not system:
        return {}
    inside = {one.name: _path_inside(path_map, one.name, one.real) for one in path_map.named}
    pinned = [inside[name] for name in inside if name in _PINNED or name.startswith("python/")]
    # Python and a conda toolchain know their own files by the path that they were installed at.
    own = (_python_headers(inputs), inputs.toolchain.home.resolve(), *system)
    pinned += map(str, own)
    scratch = [inside[name] for name in _SCRATCH if name in inside]
    # A sandbox has the folder for temporary files at this path too (`build.paths`).
    scratch += ["/tmp"] if path_map.is_sandboxed else []  # noqa: S108
    return {
        "objects": path_map.inside(str(choice.paths.cache_folder / DIRECT_FOLDER)),
        "identity": _identity(inputs, fingerprint, system),
        "pinned": tuple(dict.fromkeys(pinned)),
        "tree": inside["source"],
        "scratch": tuple(scratch),
    }


def _path_inside(path_map: PathMap, name: str, real: Path) -> str:
    """A folder's real path, as the build sees it."""
    fixed = next(one.fixed for one in path_map.named if one.name == name)
    return str(fixed if path_map.is_sandboxed else real.resolve())


def _identity(inputs: BuildInputs, fingerprint: str, system: list[Path]) -> str:
    """SHA-256 that stands for compilers, toolkit, packages, and all headers of the system."""
    parts = [fingerprint, inputs.python.fingerprint]
    home = inputs.toolchain.home.resolve()  # known by the fingerprint
    folders = (one for one in (_python_headers(inputs), *system) if not one.is_relative_to(home))
    for folder in folders:
        parts.append(str(folder))
        parts += sorted(_stamps(folder, set()))
    text = "\n".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()


def _python_headers(inputs: BuildInputs) -> Path:
    return inputs.python.base_python.resolve().parent.parent / "include"


def _stamps(folder: Path, seen: set[Path]) -> Iterator[str]:
    """Names, sizes and times of all files: a file that is another was changed at another time."""
    seen.add(folder)
    for parent, folders, names in os.walk(folder):
        for name in folders:
            linked = Path(parent, name)
            if linked.is_symlink():
                target = linked.resolve()
                yield f"{linked} -> {target}"
                if target not in seen:
                    yield from _stamps(target, seen)
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - ten thousand of them
            with contextlib.suppress(OSError):
                status = os.stat(path)  # noqa: PTH116
                yield f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _searched_by(cxx: Path) -> list[Path]:
    """The folders in which a C++ compiler searches for headers by itself."""
    words = [str(cxx), "-x", "c++", "-E", "-v", os.devnull]
    try:
        said = run(words, env={"PATH": SYSTEM_PATH, "LC_ALL": "C"}).output
    except CommandFailedError:
        return []
    listed = said.rpartition(_SEARCH_STARTS)[2].partition(_SEARCH_ENDS)[0].split("\n")
    return list(dict.fromkeys(Path(line.strip()).resolve() for line in listed if line.strip()))
