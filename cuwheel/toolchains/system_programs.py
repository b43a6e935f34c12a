"""The machine's programs without its compilers: links to what a build may use of the system."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.toolchains.store import obtain

if TYPE_CHECKING:
    from cuwheel.workspace.workspace import Workspace

# Compilers, binutils and CUDA's programs, under plain names, with a version behind or a triplet in
# front of them. A build that calls one by such a name has to get the toolchain's, or none.
_COMPILERS = re.compile(
    r"(.+-)?(gcc|g\+\+|cpp|cc|c\+\+|c89|c99|gccgo|gfortran|tcc|ccache|sccache|distcc"
    r"|clang|clang\+\+|clang-c[lp]p?|flang|icc|icpc|icx|icpx|dpcpp|hipcc|nvc|nvc\+\+"
    r"|as|ld|ld\..+|gold|lld|mold|ar|nm|ranlib|strip|objcopy|objdump|readelf|gcc-(ar|nm|ranlib)"
    r"|nvcc|ptxas|fatbinary|cudafe\+\+|cicc|nvlink|bin2c|nvprune|cuobjdump|nvdisasm)"
    r"(-[0-9.]+)?"
)


def obtain_toolbox(workspace: Workspace) -> Path:
    """A folder of links to the system's programs, its compilers left out.

    A thousand links take longer to make than to look at, so builds share the folder.

    Args:
        workspace: its cache holds the folder.

    Returns:
        The folder, to go on `PATH` instead of `/usr/bin` and `/bin`.
    """
    programs = _system_programs()
    lines = "\n".join(f"{name} {path}" for name, path in sorted(programs.items()))
    key = hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
    folder = workspace.cache / "toolboxes" / key[:16]

    def fill(aside: Path) -> dict[str, str]:
        for name, path in programs.items():
            (aside / name).symlink_to(path)
        return {}

    return obtain(folder, fill, console=workspace.console, checked=workspace.checked).folder


def _system_programs() -> dict[str, Path]:
    """Programs by name; the first of a name on the system's `PATH` counts."""
    found: dict[str, Path] = {}
    for folder in SYSTEM_PATH.split(os.pathsep):
        for program in Path(folder).iterdir():
            if not _COMPILERS.fullmatch(program.name):
                found.setdefault(program.name, program)
    return found
