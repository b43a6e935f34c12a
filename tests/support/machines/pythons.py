"""The Pythons that cuwheel promises to run in, as far as this machine has them."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
from pathlib import Path

from cuwheel.base.errors import InterpreterNotFoundError
from cuwheel.base.system.pythons import Interpreter, _pyenv_root, find_python, starts
from tests.support.requirements import lack

_IN_USR = ("/usr/bin/python3", "/usr/local/bin/python3")
# The current folder is no place of modules; Python 3.10 has no such option, and -s changes nothing.
SAFE_PATH = "-P" if sys.version_info >= (3, 11) else "-s"
RELEASES = ("3.10", "3.11", "3.12", "3.13", "3.14")


def python_in_usr(proves: str) -> Interpreter:
    """A Python of the distribution or of an image; skips the test where there is none.

    Args:
        proves: as for `requirements.lack`.
    """
    found = next((path for path in _IN_USR if Path(path).exists()), "")
    if not found:
        lack("system-python", f"there is no {' or '.join(_IN_USR)}", proves)
    return find_python(found, os.environ)


@functools.cache
def pythons() -> tuple[Interpreter, ...]:
    """One of each release that this machine has and that runs."""
    found = []
    for release in RELEASES:
        with contextlib.suppress(InterpreterNotFoundError):
            found.append(find_python(release, os.environ))
    return tuple(found)


def find_release(release: str) -> Path | None:
    """Return a Python of a release, `3.8`, that runs; pyenv's shims may run nothing."""
    versions = _pyenv_root(os.environ, Path.home()) / "versions"
    candidates = (*versions.glob(f"{release}.*/bin/python"), shutil.which(f"python{release}"))
    return next((Path(path) for path in candidates if path and starts(path, os.environ)), None)
