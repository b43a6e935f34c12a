"""Locations: the package, and the project that the working directory is in.

Standard library only, and imported before the engine's own packages are there.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
# The folder that the package is in: a checkout, the copy that `cuwheel.bootstrap` makes of an
# installed wheel, or the site-packages of that wheel. Only the first has recipes.
ROOT = PACKAGE.parent
_ROOT_USER = 0

# Folders of scripts that other interpreters run by path: standard library, Python 3.9, and nothing
# of cuwheel but each other and `base/free_memory.py`.
SCRIPT_FOLDERS = (
    "build/compile/launcher",
    "build/compile/memory_gate",
    "build/finish/smoke/probes",
    "build/pipeline/probes",
    "build/sandbox/namespaces",
    "check/diagnose/probes",
    "lab/perf/runner",
    "publish/rebuild/signing",
)


def script(name: str) -> Path:
    """Return the path of a file of the package that another interpreter runs or reads by path."""
    return PACKAGE / name


def is_script(path: Path) -> bool:
    """Return True if a file of the package, or a path below it, is run by other interpreters."""
    name = path.relative_to(PACKAGE) if path.is_absolute() else path
    return name.parent.as_posix() in SCRIPT_FOLDERS


def is_checkout() -> bool:
    """Return True if this cuwheel runs from its repository or a copy; else it is installed."""
    return (ROOT / "recipes").is_dir() and not (ROOT / "cuwheel" / "envs").is_dir()


def find_project() -> Path | None:
    """Return the project that the working directory is in; None outside of any.

    For a cuwheel that runs from its checkout, that is the checkout. For an installed one it is the
    nearest folder with `recipes/`, upwards from the working directory. Recipes are code: as git
    does with `safe.directory`, folders above count only where they are the user's own, or root's;
    the working directory itself also where it is another user's, but not where everybody can write
    it.
    """
    if is_checkout():
        return ROOT
    here = Path.cwd()
    for folder in (here, *here.parents):
        recipes = folder / "recipes"
        if not recipes.is_dir():
            continue
        is_public = here.stat().st_mode & stat.S_IWOTH  # as /tmp
        if _is_own(recipes) or (folder == here and not is_public):
            return folder
    return None


def _is_own(folder: Path) -> bool:
    """Return True if it is the user's or root's; of a link, which anybody can set, the link too."""
    return {folder.stat().st_uid, folder.lstat().st_uid} <= {_ROOT_USER, os.getuid()}


def find_python_lock(release: str, roots: tuple[Path, ...]) -> Path | None:
    """Return the conda lock of a Python (`3.12`) in the project folders, or None."""
    return find_lock(f"python{release.replace('.', '')}/conda-lock.yml", roots)


def find_lock(name: str, roots: tuple[Path, ...]) -> Path | None:
    """Return the first file `envs/<name>` in the project folders, or None."""
    return next((root / "envs" / name for root in roots if (root / "envs" / name).is_file()), None)
