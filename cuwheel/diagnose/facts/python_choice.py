"""Which interpreter a person means: by path, by environment, by a conda environment's name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.system.process import which
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_NAMES = ("python3", "python")
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True, kw_only=True)
class ChosenPython:
    """An interpreter, or why there is none.

    Attributes:
        path: the program, links not followed; None where there is none.
        how: what led to it.
        fault: why there is none.
        fix: what to do then.
    """

    path: Path | None
    how: str
    fault: str = ""
    fix: str = ""

    @property
    def is_active(self) -> bool:
        """Whether it is the environment that the person has activated."""
        return self.how.startswith("$")


def find_environment(asked: str | None, environ: Mapping[str, str], start: Path) -> ChosenPython:
    """Find the interpreter of the environment to look at.

    Args:
        asked: what `--python` said: a program, the folder of an environment, or the name of a
            conda environment; None: the active environment's, else the `python3` on `PATH`.
        environ: of the caller.
        start: the folder that paths are relative to.
    """
    if asked is None:
        return _default(environ)
    path = start / Path(asked).expanduser()
    if path.is_dir():
        return _in_folder(path, f"--python {asked}")
    if path.exists():
        return ChosenPython(path=path, how=f"--python {asked}")
    folders = list(_conda_folders(environ))
    for folder in folders:
        if folder.name == asked and folder.is_dir():
            return _in_folder(folder, f"the conda environment {asked}")
    if os.sep not in asked and (found := which(asked, environ.get("PATH", os.defpath))):
        return ChosenPython(path=Path(found), how=f"{asked} on PATH")
    names = ", ".join(sorted({folder.name for folder in folders})) or "none"
    return ChosenPython(
        path=None,
        how=f"--python {asked}",
        fault=f"{asked} is neither a file, a folder, a program on PATH nor a conda environment "
        f"(found: {names})",
        fix="name an interpreter, the folder of an environment, or a conda environment",
    )


def _default(environ: Mapping[str, str]) -> ChosenPython:
    for name in _ACTIVE:
        if environ.get(name):
            return _in_folder(Path(environ[name]), f"${name}")
    for name in _NAMES:
        if found := which(name, environ.get("PATH", os.defpath)):
            return ChosenPython(path=Path(found), how=f"{name} on PATH")
    return ChosenPython(
        path=None,
        how="PATH",
        fault="there is no python3 on PATH, and no environment is active",
        fix="activate an environment, or name one with --python",
    )


def _in_folder(folder: Path, how: str) -> ChosenPython:
    for name in _NAMES:
        path = folder / "bin" / name
        if os.access(path, os.X_OK):
            return ChosenPython(path=path, how=how)
    link = next((path for name in _NAMES if (path := folder / "bin" / name).is_symlink()), None)
    if link:
        return ChosenPython(
            path=None,
            how=how,
            fault=f"{link} points to {os.readlink(link)}, which no longer exists",  # noqa: PTH115 - one step
            fix="create the environment again: the Python that it was created from was removed",
        )
    what = "has no bin/python" if folder.is_dir() else "does not exist"
    return ChosenPython(
        path=None,
        how=how,
        fault=f"the folder {folder} {what}",
        fix="name an interpreter or another environment with --python, or activate another one",
    )


def _conda_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where conda environments are: beside the active one, and those that conda has noted."""
    prefix = environ.get("CONDA_PREFIX")
    if prefix:
        active = Path(prefix)
        beside = active.parent if active.parent.name == "envs" else active / "envs"
        yield from sorted(beside.glob("*"))
    for folder in environ.get("CONDA_ENVS_PATH", "").split(os.pathsep):
        yield from sorted(Path(folder).glob("*")) if folder else ()
    home = Path(environ.get("HOME") or Path.home())
    try:
        lines = read_text(home / ".conda" / "environments.txt").splitlines()
    except OSError:
        lines = []
    yield from (Path(line.strip()) for line in lines if line.strip())
