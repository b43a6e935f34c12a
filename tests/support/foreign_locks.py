"""A flock(2) that answers as network disks do: that it can't lock, or that it has, on one machine.

Loaded into programs by the dynamic linker, so that they and all that they start see it.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE = """
#include <errno.h>
int flock(int file, int operation) {{
    errno = {error};
    return errno ? -1 : 0;
}}
"""


def foreign_flock(folder: Path, error: int = 0) -> dict[str, str]:
    """Variables with which programs get such a flock.

    Args:
        folder: where it is made.
        error: what it fails with; 0: it never fails, whoever else holds the lock.
    """
    source, library = folder / "flock.c", folder / "flock.so"
    source.write_text(_SOURCE.format(error=error))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library)}
