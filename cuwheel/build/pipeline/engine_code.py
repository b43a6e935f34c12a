"""The engine's own code that a build runs: the modules that its stages import, transitively.

A change in it may change the wheel, so it is part of the rebuild key. Code that measures wheels or
chooses which to build isn't imported, and isn't part of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base.paths import ROOT, SCRIPT_FOLDERS
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.regular_files import read_text

_PACKAGE = "cuwheel"

# Imports, in functions too; those for the type checker alone never run.
_IMPORT = re.compile(
    r"^[ \t]*(?:from (cuwheel[\w.]*) import (\([^)]*\)|.*)|import (cuwheel[\w.]*))", re.MULTILINE
)
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t].*\n|\n)+", re.MULTILINE)
# `python -m cuwheel.build.toolchains.conda.link_process`, and a script's path:
# `script("build/sandbox/namespaces/enter.py")`.
_STARTED = re.compile(r'"(cuwheel(?:\.\w+)+)"')
_SCRIPT = re.compile(r'\bscript\("([\w/]+)/')


def code_of_builds(root: Path = ROOT) -> tuple[Path, ...]:
    """Return every file of the engine that the pipeline and its stages import, transitively.

    Of scripts all files of their folder count, as they call each other by path.
    """
    pipeline = root / _PACKAGE / "build" / "pipeline"
    due = [pipeline / "pipeline.py", *sorted((pipeline / "stages").glob("*.py"))]
    files: set[Path] = set()
    modules: set[str] = set()
    while due:
        path = due.pop()
        if path in files:
            continue
        files.add(path)
        if path.suffix == ".py":
            named = set(_imported(root, _FOR_TYPES.sub("", read_text(path)))) - modules
            modules |= named
            due.extend(file for module in named for file in _files_of(root, module))
    return tuple(sorted(files))


def digest_of_code(files: tuple[Path, ...], root: Path = ROOT) -> str:
    """Return the SHA-256 over names and contents."""
    lines = (f"{sha256_of_file(path)} {path.relative_to(root)}" for path in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _imported(root: Path, text: str) -> Iterator[str]:
    """Yield the names of what a module's text imports or starts: modules, and names in them."""
    for module, names, imported in _IMPORT.findall(text):
        yield module or imported
        if module and root.joinpath(*module.split(".")).is_dir():
            for name in re.findall(r"\w+", names):
                yield f"{module}.{name}"
    yield from _STARTED.findall(text)
    for folder in _SCRIPT.findall(text):
        yield f"{_PACKAGE}.{folder.replace('/', '.')}"


def _files_of(root: Path, module: str) -> Iterator[Path]:
    """Yield a module's file, those of the packages around it, and all files next to a script."""
    parts = module.split(".")
    path = root.joinpath(*parts)
    if not path.is_dir() and not path.with_suffix(".py").is_file():
        return  # a name in a module
    for depth in range(1, len(parts)):
        yield root.joinpath(*parts[:depth]) / "__init__.py"
    folder = path if path.is_dir() else path.parent
    if folder.relative_to(root / _PACKAGE).as_posix() in SCRIPT_FOLDERS:
        yield from (file for file in folder.iterdir() if file.is_file())
    else:
        yield path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
