"""A reader of what the finished package imports as soon as it is imported itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuwheel.base.system.regular_files import read_module
from cuwheel.build.drafts.readers.facts import SourceFact, place_of

_MOST_FILES = 200
_ROOTS = ("", "src", "python")  # folders below which a source's own packages lie


def read_package_imports(tree: Path, packages: Iterable[str]) -> Iterator[SourceFact]:
    """Yield others' modules that the packages import outside of `try`, `if` and functions."""
    queue = [file for name in packages for file in _files(tree, name)]
    for path in queue:
        try:
            statements = read_module(path).body
        except (OSError, ValueError):
            continue
        for node in statements:
            names = list(_imported(tree, path, node))
            files = dict.fromkeys(file for name in names for file in _files(tree, name))
            queue += [file for file in files if file not in queue and len(queue) < _MOST_FILES]
            for first in dict.fromkeys(name.partition(".")[0] for name in names):
                if first not in sys.stdlib_module_names and not _files(tree, first):
                    where = place_of(tree, path, node.lineno)
                    yield SourceFact(kind="import of package", name=first, where=where)


def _imported(tree: Path, path: Path, node: ast.stmt) -> Iterator[str]:
    """Yield the full names of what a statement imports; a name of a module may be one too."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = path.relative_to(tree).parts[: -node.level] if node.level else ()
        own = parents[1:] if parents and parents[0] in _ROOTS else parents
        base = ".".join((*own, *((node.module,) if node.module else ())))
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _files(tree: Path, name: str) -> list[Path]:
    """Return the file of a module of the tree, and those of the packages that it is in."""
    parts = name.split(".")
    stems = [
        tree.joinpath(root, *parts[:depth]) for root in _ROOTS for depth in range(1, len(parts) + 1)
    ]
    files = [file for stem in stems for file in (stem.with_suffix(".py"), stem / "__init__.py")]
    return [file for file in files if file.is_file()]
