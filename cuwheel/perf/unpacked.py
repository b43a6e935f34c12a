"""A wheel unpacked into a folder beside an environment, where it has to find others' libraries.

Where it is installed, rpaths such as `$ORIGIN/../nvidia/cu13/lib` lead from its package to another
one's. The folder gets links at the ends of such paths, and nothing else of these packages: their
modules still come from the environment, since a folder without `__init__.py` hides none (PEP 420).
The loader doesn't shorten `lib/..`, so that what lies behind a link finds its own neighbours.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.binaries.elf import is_elf, read_elf
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDERS = "import json, sys; print(json.dumps(sys.path))"


def link_neighbours(folder: Path, python: Path) -> None:
    """Let a wheel's libraries find those of an environment's packages, as their rpaths ask.

    Args:
        folder: that the wheel was unpacked into.
        python: the environment's interpreter.

    Raises:
        CommandFailedError: it can't be run.
        ElfFormatError: a library of the wheel is damaged.
    """
    folder = folder.resolve()
    missing = {path for path in _searched(folder) if not (folder / path).exists()}
    if not missing:
        return
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    said = run([python, "-c", _FOLDERS], env=env).output
    sites = [Path(path) for path in json.loads(said.splitlines()[-1]) if path]
    for path in sorted(missing):
        target = next((site / path for site in sites if (site / path).is_dir()), None)
        if target:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(target)


def _searched(folder: Path) -> Iterator[Path]:
    """The folders in which its libraries look for others, relative to it."""
    for path in folder.rglob("*.so*"):
        with path.open("rb") as stream:
            entries = read_elf(stream).search_path if is_elf(stream) else ()
        for entry in entries:
            place = entry.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(path.parent))
            found = Path(os.path.normpath(place))
            if found.is_relative_to(folder):
                yield found.relative_to(folder)
