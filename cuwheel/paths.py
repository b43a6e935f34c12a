"""Where things are: the cache, and the project folders that hold recipes, locks and patches.

Standard library only, and imported before the engine's own packages are there.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

# The folder that the package is in: a checkout, the copy that `cuwheel.laid_out` makes of an
# installed wheel, or the site-packages of that wheel. Only the first has recipes.
ROOT = Path(__file__).resolve().parent.parent
_ROOT_USER = 0


def default_cache() -> Path:
    """`CUWHEEL_CACHE`, else `cuwheel` in the user's cache folder (XDG base directories, Linux)."""
    chosen = os.environ.get("CUWHEEL_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches).absolute() / "cuwheel"


def is_checkout() -> bool:
    """Whether this cuwheel runs from its repository, or a copy of that; else it is installed."""
    return (ROOT / "recipes").is_dir() and not (ROOT / "cuwheel" / "envs").is_dir()


def find_project() -> Path | None:
    """The project that the working directory is in; None outside of any.

    A cuwheel that runs from its checkout has that one. For an installed one it is the nearest
    folder with `recipes/`, upwards from the working directory. Recipes are code: as git does with
    `safe.directory`, folders above are taken only where they are the user's own, or root's; the
    working directory itself also where it is another user's, but not where everybody can write it.
    """
    if is_checkout():
        return ROOT
    here = Path.cwd()
    for folder in (here, *here.parents):
        recipes = folder / "recipes"
        if recipes.is_dir() and (_is_own(recipes) or (folder == here and not _is_public(here))):
            return folder
    return None


def _is_own(folder: Path) -> bool:
    """Whether it is the user's or root's; of a link, which anybody can set, the link too."""
    owners = {folder.stat().st_uid, folder.lstat().st_uid}
    return owners <= {_ROOT_USER, os.getuid()}


def _is_public(folder: Path) -> bool:
    """Whether everybody can put something into it, as into /tmp."""
    return bool(folder.stat().st_mode & stat.S_IWOTH)


def project_folder() -> Path:
    """The folder that holds `work/`, `dist/` and `reports/`.

    The project; where there is none the first of `CUWHEEL_PROJECT`, else the working directory.
    """
    return find_project() or next(iter(_named_projects()), None) or Path.cwd()


def project_roots() -> tuple[Path, ...]:
    """Folders with `recipes/`, `envs/` and `patches/`, the first of which counts.

    Those in `CUWHEEL_PROJECT`, separated by `:`, so that recipes can be kept in several places;
    then the project that the working directory is in; then cuwheel's own folder, whose `envs/` has
    locks of toolchains and Pythons.
    """
    found = find_project()
    return tuple(dict.fromkeys((*_named_projects(), *([found] if found else ()), ROOT)))


def _named_projects() -> tuple[Path, ...]:
    named = os.environ.get("CUWHEEL_PROJECT", "").split(os.pathsep)
    return tuple(Path(name).expanduser().absolute() for name in named if name)


def find_python_lock(release: str) -> Path | None:
    """The conda lock of a Python (`3.12`) in the project folders; None where there is none."""
    return find_lock(f"python{release.replace('.', '')}/conda-lock.yml", project_roots())


def find_lock(name: str, roots: tuple[Path, ...]) -> Path | None:
    """The first file `envs/<name>` in the project folders; None where there is none."""
    return next((root / "envs" / name for root in roots if (root / "envs" / name).is_file()), None)


def given_path(text: str) -> Path:
    """A path from the command line, relative to where nox was started (nox changes the folder)."""
    return (_start() / Path(text).expanduser()).absolute()


def shown_path(path: Path) -> str:
    """A path as it is typed where nox was started: relative where it lies in that folder."""
    start = _start().absolute()
    return str(path.relative_to(start) if path.is_relative_to(start) else path)


def _start() -> Path:
    """The folder in which nox or cuwheel was started."""
    return Path(os.environ.get("CUWHEEL_INVOKED_FROM") or Path.cwd())
