"""The user's list of trusted project folders: recipes are Python.

Standard library only: the console script checks it before anything of a project is read. nox has
run a folder's noxfile already, so its sessions need no check.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.spelling import is_console_script

# The project that this run's first process could use: its jobs on other machines may have another
# home.
TRUSTED_VARIABLE = "CUWHEEL_TRUSTED"
_LIMIT = 1 << 20  # bytes of the list


def trust_file(environ: Mapping[str, str]) -> Path:
    """Return the user's list: `cuwheel/trusted-projects.json` below `XDG_STATE_HOME`."""
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - Path.expanduser raises
    return Path(state).absolute() / "cuwheel" / "trusted-projects.json"


def is_trusted(folder: Path, environ: Mapping[str, str]) -> bool:
    """Return True if the recipes in a folder may run.

    That is where nox started this command, where `CUWHEEL_PROJECT` names the folder, and where the
    user's list has it, if it is still the same folder of the same owner, and can't be written by
    everybody.
    """
    real = os.path.realpath(folder)
    named = environ.get("CUWHEEL_PROJECT", "").split(os.pathsep)
    if not is_console_script(environ) or environ.get(TRUSTED_VARIABLE) == real:
        return True
    if any(name and os.path.realpath(Path(name).expanduser()) == real for name in named):
        return True
    return _read(environ).get(real, "") == _identity(real) != ""


def change_trust(folder: Path, environ: Mapping[str, str], *, trusts: bool) -> None:
    """Add a folder to the list, or remove it."""
    real = os.path.realpath(folder)
    known = {path: identity for path, identity in _read(environ).items() if path != real}
    if trusts:
        known[real] = _identity(real)
    path = trust_file(environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")
    aside.replace(path)


def is_public(folder: Path) -> bool:
    """Return True if everybody can write into a project, or into its recipes."""
    return any(
        path.is_dir() and path.stat().st_mode & stat.S_IWOTH
        for path in (folder, folder / "recipes")
    )


def _identity(real: str) -> str:
    """Return number and owner of a folder; empty where it can't be trusted."""
    try:
        status = os.stat(real)  # noqa: PTH116 - a text
        recipes = os.stat(os.path.join(real, "recipes"))  # noqa: PTH116, PTH118 - likewise
    except OSError:
        return ""
    if (status.st_mode | recipes.st_mode) & stat.S_IWOTH:
        return ""
    return f"{status.st_ino}:{status.st_uid}:{recipes.st_uid}"


def _read(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the list; empty where there is none, or none of this user's."""
    try:
        number = os.open(trust_file(environ), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as stream:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or status.st_uid not in {0, os.getuid()}:
                return {}
            known = json.loads(stream.read(_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return {str(k): str(v) for k, v in known.items()} if isinstance(known, dict) else {}
