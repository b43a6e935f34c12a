"""A flock(2) that answers as network disks do: that it can't lock, or that it has, on one machine.

Loaded into programs by the dynamic linker, so that they and all that they start see it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = """
#include <errno.h>
int flock(int file, int operation) {{
    errno = {error};
    return errno ? -1 : 0;
}}
"""


def foreign_flock(folder: Path, error: int = 0) -> dict[str, str]:
    """Variables with which programs get such a flock, and their own folder for temporary files.

    In that of others they would take each one's for abandoned, and remove it.

    Args:
        folder: where it is made.
        error: what it fails with; 0: it never fails, whoever else holds the lock.
    """
    source, library = folder / "flock.c", folder / "flock.so"
    source.write_text(_SOURCE.format(error=error))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return {"LD_PRELOAD": str(library), "TMPDIR": str(temporary)}
