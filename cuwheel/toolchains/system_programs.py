"""The machine's programs without its compilers: links to what a build may use of the system."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cuwheel.system.compilers import SYSTEM_PATH

# Compilers, binutils and CUDA's programs, under plain names, with a version behind or a triplet in
# front of them. A build that calls one by such a name has to get the toolchain's, or none.
_COMPILERS = re.compile(
    r"(.+-)?(gcc|g\+\+|cpp|cc|c\+\+|c89|c99|gccgo|gfortran|tcc|ccache|sccache|distcc"
    r"|clang|clang\+\+|clang-c[lp]p?|flang|icc|icpc|icx|icpx|dpcpp|hipcc|nvc|nvc\+\+"
    r"|as|ld|ld\..+|gold|lld|mold|ar|nm|ranlib|strip|objcopy|objdump|readelf|gcc-(ar|nm|ranlib)"
    r"|nvcc|ptxas|fatbinary|cudafe\+\+|cicc|nvlink|bin2c|nvprune|cuobjdump|nvdisasm)"
    r"(-[0-9.]+)?"
)


def make_toolbox(folder: Path) -> Path:
    """Fill an empty folder with links to the system's programs, its compilers left out.

    Args:
        folder: to go on `PATH` instead of `/usr/bin` and `/bin`.

    Returns:
        The folder.
    """
    for path in SYSTEM_PATH.split(os.pathsep):
        for program in sorted(Path(path).iterdir()):
            link = folder / program.name
            if not _COMPILERS.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)
    return folder
