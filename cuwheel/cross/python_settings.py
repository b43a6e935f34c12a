"""What a build's Python is told of the Python that the wheel is for.

`sysconfig` reads its build settings from a module whose name a variable gives (CPython,
`Lib/sysconfig`: `_PYTHON_SYSCONFIGDATA_NAME`), and the platform from another
(`_PYTHON_HOST_PLATFORM`); CPython's own cross builds use both. setuptools, wheel and
scikit-build-core ask `sysconfig`.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.platform import Platform
    from cuwheel.workspace.job import TargetRoot


_MODULE = "_cuwheel_target_sysconfig"
_HEADERS = "include"
# setuptools takes the headers' folder from these; where the build sees it, only the module knows.
_HEADERS_HERE = f"""
import os

_here = os.path.join(os.path.dirname(os.path.abspath(__file__)), {_HEADERS!r})
build_time_vars.update(INCLUDEPY=_here, CONFINCLUDEPY=_here)
"""


def write_python_settings(folder: Path, root: TargetRoot) -> None:
    """Fill an empty folder with the target's build settings and headers.

    The headers lie in one folder: Debian's `pyconfig.h` leads to another below `/usr/include`,
    where a cross compiler doesn't look.

    Args:
        folder: for them.
        root: with the Python that the wheel is for.
    """
    for headers in reversed(root.headers):
        shutil.copytree(headers, folder / _HEADERS, dirs_exist_ok=True)
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in sorted(root.settings.items()))
    text = f"build_time_vars = {{\n{lines}}}\n{_HEADERS_HERE}"
    (folder / f"{_MODULE}.py").write_text(text, encoding="utf-8")


def headers_of(folder: Path) -> Path:
    """Where `write_python_settings` has put the headers."""
    return folder / _HEADERS


def python_variables(folder: Path, platform: Platform) -> dict[str, str]:
    """What makes a Python of this machine build for the other one.

    Args:
        folder: from `write_python_settings`.
        platform: of the machines that the wheel is for.
    """
    return {
        "PYTHONPATH": str(folder),
        "_PYTHON_SYSCONFIGDATA_NAME": _MODULE,
        "_PYTHON_HOST_PLATFORM": platform.name.replace("_", "-", 1),
    }
