"""What `import` of a package imports in turn, by its modules' syntax trees."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from cuwheel.drafts.readers.finding import Finding, place_of
from cuwheel.system.parsed_files import read_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDERS = ("", "src", "python")  # where packages lie in a source


def read_runtime_imports(tree: Path, packages: tuple[str, ...]) -> tuple[Finding, ...]:
    """The foreign packages that importing these ones imports, each at the first place.

    Only what stands at the top of a module counts, as what stands in `try`, `if` or a function may
    never run.

    Args:
        tree: the source.
        packages: import names.
    """
    found: dict[str, Finding] = {}
    queue = [path for name in packages for path in _files_of(tree, name)]
    for path in queue:
        for name, line in _imports(path, tree):
            top = name.partition(".")[0]
            if top in packages:
                queue += [one for one in _files_of(tree, name) if one not in queue]
            elif top not in sys.stdlib_module_names:
                where = place_of(tree, path, line)
                found.setdefault(top, Finding(kind="runtime import", name=top, where=where))
    return tuple(found.values())


def _files_of(tree: Path, name: str) -> list[Path]:
    """The files that importing a module runs: its packages' and its own."""
    parts = name.split(".")
    found = []
    for folder in _FOLDERS:
        for count in range(1, len(parts) + 1):
            path = tree.joinpath(folder, *parts[:count])
            found += [
                one for one in (path / "__init__.py", path.with_suffix(".py")) if one.is_file()
            ]
    return found


def _imports(path: Path, tree: Path) -> Iterator[tuple[str, int]]:
    """Full names of what a module imports at its top, with the lines."""
    try:
        module = read_module(path)
    except (OSError, ValueError):
        return
    for node in module.body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*_package_of(path, tree, node.level), *filter(None, [node.module])]
            yield ".".join(base), node.lineno
            # Each may be a module too.
            yield from ((".".join([*base, alias.name]), node.lineno) for alias in node.names)


def _package_of(path: Path, tree: Path, level: int) -> list[str]:
    """The package that `level` dots mean in a module; nothing for none."""
    if not level:
        return []
    parts = path.relative_to(tree).parent.parts
    own = parts[1:] if parts[:1] and parts[0] in _FOLDERS else parts
    return list(own[: len(own) - level + 1])
