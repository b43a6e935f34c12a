"""The engine of an installed wheel, laid out in the cache as a checkout has it.

Installed, the package lies in a `site-packages` among others, which must not get into the locked
environment; and a tool's own environment (uvx, pipx) may be removed while a build still runs. So
what builds run is a copy, `<cache>/engine/cuwheel-<version>-<digest>/` with `cuwheel/` and `envs/`,
made once and named by its contents. Standard library only: bootstrap calls it.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from cuwheel.paths import ROOT
from cuwheel.system.in_use import hold
from cuwheel.version import __version__

_PACKAGE = Path(__file__).parent
_LOCKS = _PACKAGE / "envs"  # pyproject.toml puts them there in the wheel
_OWN_FOLDER = 0o755  # its owner may write it, and remove what is in it


def engine_root(folder: Path) -> Path:
    """The folder that holds `cuwheel/` and `envs/`, and nothing that others can import.

    Args:
        folder: where a copy is made, if this cuwheel was installed from a wheel.

    Returns:
        The checkout that this module belongs to, else the copy.

    Raises:
        OSError: the copy can't be written.
    """
    return _lay_out(folder) if _LOCKS.is_dir() else ROOT


def _lay_out(folder: Path) -> Path:
    final = folder / f"cuwheel-{__version__}-{_digest()}"
    folder.mkdir(parents=True, exist_ok=True)
    hold(final, with_children=True)  # before it is looked at: from now on nobody removes it
    if final.is_dir():
        return final
    with tempfile.TemporaryDirectory(prefix=".cuwheel-", dir=folder) as aside:
        made = Path(aside, final.name)
        shutil.copytree(_PACKAGE, made / _PACKAGE.name)  # with times, so that bytecode stays valid
        for parent, _, _ in os.walk(made / _PACKAGE.name):  # copied from a store nobody may write
            Path(parent).chmod(_OWN_FOLDER)
        (made / _PACKAGE.name / _LOCKS.name).rename(made / _LOCKS.name)
        compileall.compile_dir(made, quiet=2)  # where the installer hasn't: uv doesn't
        try:
            made.rename(final)
        except OSError:
            if not final.is_dir():  # another run was faster
                raise
    return final


def _digest() -> str:
    """16 hexadecimal digits over every file, and over the Python that compiles them."""
    found = hashlib.sha256(sys.implementation.cache_tag.encode())
    for path in sorted(_files()):
        found.update(f"{path.relative_to(_PACKAGE)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _files() -> list[Path]:
    found = []
    for parent, folders, names in os.walk(_PACKAGE):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [Path(parent, name) for name in names]
    return found
