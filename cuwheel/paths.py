"""Where things are: the cache, and the project folders that hold recipes, locks and patches.

Standard library only, and imported before the engine's own packages are there.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def default_cache() -> Path:
    """`CUWHEEL_CACHE`, else `cuwheel` in the user's cache folder (XDG base directories, Linux)."""
    chosen = os.environ.get("CUWHEEL_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches).absolute() / "cuwheel"


def project_roots() -> tuple[Path, ...]:
    """Folders with `recipes/`, `envs/` and `patches/`: those in `CUWHEEL_PROJECT`, then our own.

    `CUWHEEL_PROJECT` names one or more folders, separated by `:`, so that recipes can be kept
    outside this repository.
    """
    named = os.environ.get("CUWHEEL_PROJECT", "").split(os.pathsep)
    return (*(Path(name).expanduser().absolute() for name in named if name), ROOT)


def find_python_lock(release: str) -> Path | None:
    """The conda lock of a Python (`3.12`) in the project folders; None where there is none."""
    return find_lock(f"python{release.replace('.', '')}/conda-lock.yml", project_roots())


def find_lock(name: str, roots: tuple[Path, ...]) -> Path | None:
    """The first file `envs/<name>` in the project folders; None where there is none."""
    return next((root / "envs" / name for root in roots if (root / "envs" / name).is_file()), None)


def given_path(text: str) -> Path:
    """A path from the command line, relative to where nox was started (nox changes the folder)."""
    start = Path(os.environ.get("CUWHEEL_INVOKED_FROM", Path.cwd()))
    return (start / Path(text).expanduser()).absolute()
