"""What the machine's own package manager has installed, on Debian and what comes from it."""

from __future__ import annotations

import os

from cuwheel.errors import CommandFailedError
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import run, which


def installed_version(name: str) -> str:
    """The version of an installed package; empty where it isn't installed, or nobody knows.

    Args:
        name: `libfftw3-dev`.
    """
    query = which("dpkg-query", SYSTEM_PATH)
    if query is None:
        return ""
    asked = [query, "-W", "-f", "${db:Status-Status} ${Version}", name]
    try:
        status, _, version = run(asked, env={"PATH": os.defpath}).output.strip().partition(" ")
    except CommandFailedError:
        return ""
    return version if status == "installed" else ""
