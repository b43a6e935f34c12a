"""The engine's own code that a build runs: what its stages reach, read from the sources.

A change in it may change the wheel, so the rebuild key counts it. What measures wheels, or says
which to build, isn't reached and doesn't count.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from cuwheel.paths import ROOT
from cuwheel.system.files import sha256_of_file
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PACKAGE = "cuwheel"
_SCRIPTS = "standalone"  # the room of scripts that others run by path

# Imports, in functions too; those for the type checker alone are never run.
_IMPORT = re.compile(
    r"^[ \t]*(?:from (cuwheel[\w.]*) import (\([^)]*\)|.*)|import (cuwheel[\w.]*))", re.MULTILINE
)
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t].*\n|\n)+", re.MULTILINE)
# `python -m cuwheel.conda.link_process`, and a script's path: `script("namespaces/enter.py")`.
_STARTED = re.compile(r'"(cuwheel(?:\.\w+)+)"')
_SCRIPT = re.compile(r'\bscript\("(\w+)/')


def code_of_builds(root: Path = ROOT) -> tuple[Path, ...]:
    """Every file of the engine that the pipeline and its stages reach, however far.

    Of scripts all that lie in one folder count, as they call each other by path.

    Args:
        root: the folder that the engine's package is in.
    """
    package = root / _PACKAGE
    due = [package / "pipeline.py", *sorted((package / "stages").glob("*.py"))]
    found: set[Path] = set()
    while due:
        path = due.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            due.extend(_reached(root, _FOR_TYPES.sub("", read_text(path))))
    return tuple(sorted(found))


def digest_of_code(files: tuple[Path, ...], root: Path = ROOT) -> str:
    """SHA-256 over names and contents."""
    lines = (f"{sha256_of_file(path)} {path.relative_to(root)}" for path in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _reached(root: Path, text: str) -> Iterator[Path]:
    """The files that a module's text names."""
    for module, names, imported in _IMPORT.findall(text):
        yield from _files_of(root, module or imported)
        if module and root.joinpath(*module.split(".")).is_dir():
            for name in re.findall(r"\w+", names):
                yield from _files_of(root, f"{module}.{name}")
    for module in _STARTED.findall(text):
        yield from _files_of(root, module)
    for folder in _SCRIPT.findall(text):
        yield from _files_of(root, f"{_PACKAGE}.{_SCRIPTS}.{folder}")


def _files_of(root: Path, module: str) -> Iterator[Path]:
    """A module's file, those of the packages around it, and of a script all in its folder."""
    parts = module.split(".")
    path = root.joinpath(*parts)
    if not path.is_dir() and not path.with_suffix(".py").is_file():
        return  # a name in a module
    for depth in range(1, len(parts)):
        yield root.joinpath(*parts[:depth]) / "__init__.py"
    if parts[1:2] == [_SCRIPTS] and len(parts) > len((_PACKAGE, _SCRIPTS)):
        folder = path if path.is_dir() else path.parent
        yield from (file for file in folder.iterdir() if file.is_file())
    else:
        yield path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
