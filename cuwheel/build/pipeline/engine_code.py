"""The engine's own code that a build runs: the modules that its stages import, transitively.

A change in it may change the wheel, so it is part of the rebuild key. Code that measures wheels or
chooses which to build isn't imported, and isn't part of it.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cuwheel.base.paths import ROOT, SCRIPT_FOLDERS
from cuwheel.base.system.files import sha256_of_file, stamp_of
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
    is_package = functools.cache(lambda module: root.joinpath(*module.split(".")).is_dir())
    while due:
        path = due.pop()
        if path in files:
            continue
        files.add(path)
        if path.suffix == ".py":
            named = set(_named(_read_imports(path, stamp_of(path.stat())), is_package)) - modules
            modules |= named
            due.extend(file for module in named for file in _files_of(root, module))
    return tuple(sorted(files))


def digest_of_code(files: tuple[Path, ...], root: Path = ROOT) -> str:
    """Return the SHA-256 over names and contents."""
    lines = (f"{sha256_of_file(path)} {path.relative_to(root)}" for path in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@functools.cache  # a build reads the same files three times
def _read_imports(path: Path, _stamp: tuple[int, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what a module imports or starts: a module, and the names that it takes of it."""
    text = _FOR_TYPES.sub("", read_text(path))
    found = [
        (module or imported, tuple(re.findall(r"\w+", names)))
        for module, names, imported in _IMPORT.findall(text)
    ]
    started = [*_STARTED.findall(text)]
    started += [f"{_PACKAGE}.{folder.replace('/', '.')}" for folder in _SCRIPT.findall(text)]
    return (*found, *((module, ()) for module in started))


def _named(
    imports: Iterable[tuple[str, tuple[str, ...]]], is_package: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the names of modules, and of what is taken of packages: perhaps a module."""
    for module, names in imports:
        yield module
        if names and is_package(module):
            yield from (f"{module}.{name}" for name in names)


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
