"""Modules of other folders that are imported instead of the installed ones, or of Python's own."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cuwheel.base.system.regular_files import open_file, parse_module, read_bytes
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.gpu_packages import needs_gpu
from cuwheel.check.diagnose.facts.installed_files import STRAY, Shadow, module_files, modules_of


def find_shadows(
    distribution: Distribution, environment: PythonEnvironment, start: Path
) -> Iterator[Shadow]:
    """Yield modules of other folders that come before the distribution's own.

    Args:
        start: the folder that the user works in.
    """
    if distribution.site not in environment.sites:
        return
    started = environment.started  # imported before the working folder counts
    installed = (*environment.shadowed, *environment.distributions.values())
    sites = {owner.site for owner in installed}
    here = [] if start in environment.sites else [start]
    before = [*here, *environment.sites[: environment.sites.index(distribution.site)]]
    others = dict(_others_with(distribution, before, installed))
    folders = [entry for entry in before if entry not in sites]
    suffixes = ("/__init__.py", ".py", *environment.suffixes)
    places = [
        (module, entry, f"{module}{suffix}")
        for module in modules_of(distribution)
        for entry in folders
        for suffix in suffixes
    ]
    # A module or package hides a folder without `__init__.py` from any place.
    everywhere = (*here, *environment.sites)
    places += [
        (name, entry, file)
        for name in _namespaces(distribution)
        for entry in everywhere
        for file in (f"{name}.py", *([f"{name}/__init__.py"] * (entry != distribution.site)))
    ]
    places += [
        (module, entry, f"{module}{suffix}")
        for entry, modules in others.items()
        for module in modules
        for suffix in suffixes
    ]
    shadows: dict[str, Shadow] = {}
    for module, entry, file in places:
        is_too_late = entry in here and module in started
        if module not in shadows and not is_too_late and _has_file(entry, file):
            shadows[module] = Shadow(
                distribution=distribution.name,
                module=module,
                path=entry / file,
                entry=entry,
                is_start=entry in here,
            )
    yield from shadows.values()


def _others_with(
    distribution: Distribution, before: Iterable[Path], installed: Iterable[Distribution]
) -> Iterator[tuple[Path, set[str]]]:
    """Yield earlier folders where another project has modules of the same name: onnxruntime.

    Only of those that need a GPU: the other one may be a build without it.
    """
    there = [own for own in installed if own.site in {*before}]
    if not there or not needs_gpu(distribution):
        return
    modules = set(modules_of(distribution))
    for entry in before:
        owners = [own for own in there if own.site == entry]
        if all(own.name != distribution.name for own in owners):
            names = (set(modules_of(own)) for own in owners)
            yield entry, modules & set[str]().union(*names)


def find_standard_shadows(
    environment: PythonEnvironment, start: Path, loaded: Collection[str]
) -> Iterator[Shadow]:
    """Yield files that come before modules of the standard library which an import needs.

    Args:
        start: the folder that the user works in.
        loaded: names of the top-level modules of imports.
    """
    library, before = environment.scheme.get("stdlib"), _entries_before(environment, start)
    if library is None:
        return
    here = [] if start in environment.sites else [start]
    names = [name for name in loaded if _is_module_of(library, name)]
    for name in names:
        files = [f"{name}{suffix}" for suffix in ("/__init__.py", ".py", *environment.suffixes)]
        places = ((entry, file) for entry in before for file in files)
        for entry, file in places:
            if _has_file(entry, file):
                path, is_start = entry / file, entry in here
                yield Shadow(
                    distribution="", module=name, path=path, entry=entry, is_start=is_start
                )
                break


def find_late_shadows(
    environment: PythonEnvironment,
    start: Path,
    owners: Iterable[Distribution],
    loaded: Collection[str],
) -> Iterator[Shadow]:
    """Yield files that hide modules of Python which packages import, but not at their own import.

    Args:
        start: the folder that the user works in.
        owners: the packages, of which the source is read where a file has such a name.
        loaded: names of the top-level modules of imports.
    """
    entries = _entries_before(environment, start)
    names = {name for entry in entries for name in _modules_in(entry)}
    names -= {*loaded, *environment.started}
    hidden = {shadow.module: shadow for shadow in find_standard_shadows(environment, start, names)}
    for owner in owners if hidden else ():
        for file in module_files(owner):
            folders = file.path.relative_to(owner.site).parts
            is_searched = file.path.suffix == ".py" and STRAY.isdisjoint(folders)
            for name in _imports_of(file.path, hidden) if is_searched and hidden else ():
                yield replace(hidden.pop(name), user=file.path)


def _entries_before(environment: PythonEnvironment, start: Path) -> list[Path]:
    """Return the folders that come before Python's own modules."""
    library = environment.scheme.get("stdlib")
    if library not in environment.sites:
        return []
    here = [] if start in environment.sites else [start]
    entries = environment.sites[: environment.sites.index(library)]
    return [*here, *(entry for entry in entries if entry.parent != library.parent)]  # its archive


def _modules_in(entry: Path) -> Iterator[str]:
    """Yield the names of the modules in a folder."""
    with contextlib.suppress(OSError):
        yield from (file.name.partition(".")[0] for file in os.scandir(entry))


def _imports_of(path: Path, names: Collection[str]) -> set[str]:
    """Return which of these modules a file imports, wherever it does."""
    try:
        content = read_bytes(path)
        if not any(name.encode() in content for name in names):
            return set()
        tree = parse_module(content)
    except (OSError, SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    for node in _nodes_that_run(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found.intersection(names)


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those of type checkers, and of a module that is started as a program."""
    queue = [tree]
    for node in queue:
        if isinstance(node, ast.If) and re.search("TYPE_CHECKING|__main__", ast.dump(node.test)):
            queue += node.orelse
            continue
        yield node
        queue += ast.iter_child_nodes(node)


def _is_module_of(library: Path, name: str) -> bool:
    files = (library / f"{name}.py", library / name / "__init__.py")
    return any(map(Path.is_file, files)) or any(library.glob(f"lib-dynload/{name}.*"))


def _has_file(entry: Path, file: str) -> bool:
    """Return True if an entry of `sys.path`, a folder or an archive, has a file."""
    if not entry.is_file():
        return os.access(entry / file, os.R_OK)
    with contextlib.suppress(OSError, zipfile.BadZipFile), open_file(entry) as stream:
        return file in zipfile.ZipFile(stream).NameToInfo
    return False


def _namespaces(distribution: Distribution) -> set[str]:
    """Return its folders below site-packages that have no `__init__.py`: `nvidia`."""
    paths = (file.path.relative_to(distribution.site) for file in module_files(distribution))
    inside = {path for path in paths if path.parent.parts}
    tops = {path.parts[0] for path in inside}
    names = tops.difference(path.parts[0] for path in inside if path.parts[1:] == ("__init__.py",))
    return {name for name in names.difference(modules_of(distribution)) if name.isidentifier()}
