"""Rules for files and libraries that an import always opens by a constant name."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.cuda.suppliers import is_cuda_library, is_from_driver

_RULE = "Python code"
_LOADERS = frozenset({"CDLL", "PyDLL", "LoadLibrary", "load_library"})
_READERS = frozenset({"read_text", "read_bytes"})
_SAME = frozenset(
    {"abspath", "realpath", "normpath", "resolve", "absolute", "str", "fspath", "Path"}
)
# Code that may make the file before, or look for it first.
_MAKES = re.compile(
    rb"exists\(|is_file|isfile|subprocess|mkdir|makedirs|os\.system|write|glob|chdir|load_inline"
)
_UNSURE = (ast.Lambda, ast.IfExp, ast.BoolOp)  # of which a part may not run
_FILE = PurePosixPath("/site")  # stands for site-packages, so that a path below it is known as such


def file_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files of the wheel's own package that are opened, and that it doesn't have."""
    for member in case.code.run:
        path = installed_path(member)
        if path is None or _MAKES.search(case.scan.sources[member]):
            continue
        for line, opened in _opened(case.code.statements(member), _FILE / path):
            fact = f"line {line} opens {_shown(opened)}, which "
            if opened.is_relative_to(_FILE) and _is_missing(opened.relative_to(_FILE), case):
                yield finding(member, _RULE, f"{fact}isn't in the wheel")
            elif _is_unversioned(str(opened)):
                yield finding(member, _RULE, f"{fact}no wheel of NVIDIA's has", "warning")


def _shown(path: PurePosixPath) -> str:
    return str(path.relative_to(_FILE) if path.is_relative_to(_FILE) else path)


def _is_missing(path: PurePosixPath, case: AuditCase) -> bool:
    """Return True for a path in a package of the wheel, which has an `__init__`, without a file."""
    installed = set(filter(None, map(installed_path, case.scan.names)))
    is_there = path in installed or any(path in other.parents for other in installed)
    return not is_there and PurePosixPath(path.parts[0], "__init__.py") in installed


def _is_unversioned(name: str) -> bool:
    return name.endswith(".so") and is_cuda_library(name) and not is_from_driver(f"{name}.1")


def _opened(body: Sequence[ast.stmt], file: PurePosixPath) -> Iterator[tuple[int, PurePosixPath]]:
    """Yield the line and the path of what the statements of a module's level open."""
    known: dict[str, PurePosixPath] = {"__file__": file}
    for node in body:
        if not isinstance(node, (ast.Assign, ast.Expr)):
            continue
        value, parts = node.value, list(ast.walk(node.value))
        is_sure = not any(isinstance(part, _UNSURE) for part in parts)
        for call in parts if is_sure else ():
            if isinstance(call, ast.Call) and (path := _path_opened(call, known)):
                yield node.lineno, PurePosixPath(os.path.normpath(path))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            known.pop(name, None)
            if path := _path_of(value, known):
                known[name] = path


def _path_opened(call: ast.Call, known: Mapping[str, PurePosixPath]) -> PurePosixPath | None:
    """Return what a call opens, if that is known: below `_FILE`, or the name of a library."""
    name = _name_of(call.func)
    if name in _READERS and isinstance(call.func, ast.Attribute):
        return _path_of(call.func.value, known)
    if name in _LOADERS and call.args:
        return _path_of(call.args[0], known)
    is_reading = name == "open" and isinstance(call.func, ast.Name) and len(call.args) == 1
    path = _path_of(call.args[0], known) if is_reading else None
    return path if path and path.is_absolute() else None


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _path_of(node: ast.expr, known: Mapping[str, PurePosixPath]) -> PurePosixPath | None:
    """Return the path that an expression has, made of `__file__` and constants; None: unknown."""
    if isinstance(node, ast.Constant):
        return PurePosixPath(node.value) if isinstance(node.value, str) and node.value else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        path = _path_of(node.value, known)
        return path.parent if path else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _joined([node.left, node.right], known)
    return _path_of_call(node, known) if isinstance(node, ast.Call) else None


def _path_of_call(call: ast.Call, known: Mapping[str, PurePosixPath]) -> PurePosixPath | None:
    name = _name_of(call.func)
    if name in {"join", "joinpath"}:
        is_method = name == "joinpath" and isinstance(call.func, ast.Attribute)
        first = [call.func.value] if is_method else []  # type: ignore[attr-defined]
        return _joined([*first, *call.args], known)
    if name in _SAME and len(call.args) <= 1:
        is_method = not call.args and isinstance(call.func, ast.Attribute)
        argument = call.func.value if is_method else next(iter(call.args), None)  # type: ignore[attr-defined]
        return _path_of(argument, known) if argument else None
    if name == "dirname" and call.args:
        path = _path_of(call.args[0], known)
        return path.parent if path else None
    return None


def _joined(nodes: list[ast.expr], known: Mapping[str, PurePosixPath]) -> PurePosixPath | None:
    parts = [_path_of(node, known) for node in nodes]
    return PurePosixPath(*parts) if parts and all(parts) else None  # type: ignore[arg-type]
