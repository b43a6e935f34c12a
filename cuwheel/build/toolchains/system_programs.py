"""The machine's programs, linked without its compilers for builds, and its Debian packages."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.process import run, which
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.workspace import Workspace

# Compilers, binutils and CUDA's programs, under plain names, with a version after or a triplet
# before them. A build that calls one by such a name has to get the toolchain's, or none.
_COMPILERS = re.compile(
    r"(.+-)?(gcc|g\+\+|cpp|cc|c\+\+|c89|c99|gccgo|gfortran|tcc|ccache|sccache|distcc"
    r"|clang|clang\+\+|clang-c[lp]p?|flang|icc|icpc|icx|icpx|dpcpp|hipcc|nvc|nvc\+\+"
    r"|as|ld|ld\..+|gold|lld|mold|ar|nm|ranlib|strip|objcopy|objdump|readelf|gcc-(ar|nm|ranlib)"
    r"|nvcc|ptxas|fatbinary|cudafe\+\+|cicc|nvlink|bin2c|nvprune|cuobjdump|nvdisasm)"
    r"(-[0-9.]+)?"
)


def obtain_toolbox(workspace: Workspace) -> Path:
    """Return a folder of links, for `PATH` instead of `/usr/bin` and `/bin`.

    A thousand links take longer to make than to check, so builds share the folder.
    """
    programs: dict[str, Path] = {}  # the first of a name counts
    for folder in map(Path, SYSTEM_PATH.split(os.pathsep)):
        for program in folder.iterdir():
            if not _COMPILERS.fullmatch(program.name):
                programs.setdefault(program.name, program)
    lines = "\n".join(f"{name} {path}" for name, path in sorted(programs.items()))
    key = hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()

    def fill(links: Path) -> dict[str, str]:
        for name, path in programs.items():
            (links / name).symlink_to(path)
        return {}

    folder = workspace.cache / "toolboxes" / key[:16]
    return obtain(folder, fill, workspace).folder


def installed_version(name: str) -> str:
    """Return the version of a Debian package, `libfftw3-dev`; empty: not installed."""
    query = which("dpkg-query", SYSTEM_PATH)
    if query is None:
        return ""
    argv = [query, "-W", "-f", "${db:Status-Status} ${Version}", name]
    try:
        status, _, version = run(argv, env={"PATH": os.defpath}).output.strip().partition(" ")
    except CommandFailedError:
        return ""
    return version if status == "installed" else ""
