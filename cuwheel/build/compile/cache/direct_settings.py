"""Settings of the launcher's direct mode for one build, and the folder with its objects.

The launcher reads the package's own files (`build/compile/launcher/direct_mode.py`); all else that
a compile can read doesn't change during a build, so it is hashed once, here. docs/adr/0016.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base.system.compilers import output_of
from cuwheel.build.compile.cache.compile_cache import DIRECT_FOLDER, CompileCache
from cuwheel.build.compile.environment import BuildInputs
from cuwheel.build.sandbox.path_map import PathMap

_SEARCH_STARTS, _SEARCH_ENDS = "search starts here:", "End of search list."
# Folders of a build that `_identity` covers, and those in which it may make headers.
_PINNED = ("cuda", "toolkit", "environment", "packages", "launcher")
_SCRATCH = ("tmp", "resources")


def direct_settings(
    inputs: BuildInputs, path_map: PathMap, cache: CompileCache, fingerprint: str
) -> dict[str, object]:
    """Return those attributes of the launcher's settings that its direct mode reads.

    Returns:
        Nothing where the toolkit isn't pinned: then its headers have no digest.
    """
    cxx = inputs.machine.host_compiler
    has_direct_mode = bool(cache.program.name) and cache.has_direct_mode
    if not has_direct_mode or not inputs.toolchain.pinned or cxx is None:
        return {}
    system = _searched_by(cxx)
    if not system:
        return {}
    inside = {
        path.name: str(path.fixed if path_map.is_sandboxed else path.real.resolve())
        for path in path_map.named
    }
    pinned = [inside[name] for name in inside if name in _PINNED or name.startswith("python/")]
    # Python and a conda toolchain know their own files by the path that they were installed at.
    pinned += map(str, (_python_headers(inputs), inputs.toolchain.home.resolve(), *system))
    scratch = [inside[name] for name in _SCRATCH if name in inside]
    # A sandbox has the folder for temporary files at this path too (`build.paths`).
    scratch += ["/tmp"] if path_map.is_sandboxed else []  # noqa: S108
    return {
        "objects": path_map.inside(str(cache.folder / DIRECT_FOLDER)),
        "identity": _identity(inputs, fingerprint, system),
        "pinned": tuple(dict.fromkeys(pinned)),
        "tree": inside["source"],
        "scratch": tuple(scratch),
    }


def _identity(inputs: BuildInputs, fingerprint: str, system: list[Path]) -> str:
    """Return SHA-256 over compilers, toolkit, packages, and all headers of the system."""
    parts = [fingerprint, inputs.python.fingerprint]
    home = inputs.toolchain.home.resolve()  # covered by the fingerprint
    for folder in (_python_headers(inputs), *system):
        if not folder.is_relative_to(home):
            parts.append(str(folder))
            parts += sorted(_stamps(folder, set()))
    text = "\n".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()


def _python_headers(inputs: BuildInputs) -> Path:
    return inputs.python.base_python.resolve().parent.parent / "include"


def _stamps(folder: Path, visited: set[Path]) -> Iterator[str]:
    """Yield names, sizes and times of all files: a replaced file has another time."""
    visited.add(folder)
    for parent, folders, names in os.walk(folder):
        for name in folders:
            linked = Path(parent, name)
            if linked.is_symlink():
                target = linked.resolve()
                yield f"{linked} -> {target}"
                if target not in visited:
                    yield from _stamps(target, visited)
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - ten thousand of them
            with contextlib.suppress(OSError):
                status = os.stat(path)  # noqa: PTH116
                yield f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _searched_by(cxx: Path) -> list[Path]:
    """Return the folders in which a C++ compiler searches for headers by default."""
    output = output_of(cxx, "-x", "c++", "-E", "-v", os.devnull)
    listed = output.rpartition(_SEARCH_STARTS)[2].partition(_SEARCH_ENDS)[0].split("\n")
    return list(dict.fromkeys(Path(line.strip()).resolve() for line in listed if line.strip()))
