"""The Pythons that cuwheel promises to run in, as far as this machine has them."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import InterpreterNotFoundError
from cuwheel.system.pythons import find_python
from tests.support.requirements import lack

if TYPE_CHECKING:
    from cuwheel.system.pythons import Interpreter

_IN_USR = ("/usr/bin/python3", "/usr/local/bin/python3")
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


def find_old_python(release: str) -> Path | None:
    """A Python that is too old for cuwheel; pyenv's shims may run nothing."""
    versions = Path.home() / ".pyenv" / "versions"
    found = (*versions.glob(f"{release}.*/bin/python"), shutil.which(f"python{release}"))
    return next((Path(one) for one in found if one), None)
