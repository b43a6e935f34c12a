"""Paths and texts in Python code, as far as constants, `__file__` and own modules make them.

A value is a text, a number, a tuple of values, a module or function, or None: unknown.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import PurePosixPath
from typing import NamedTuple

SITE = PurePosixPath("/site")  # stands for site-packages, so that a path below it is known as such
# Functions of ctypes, cffi and PyTorch; only an absolute path leads to a file beside the module.
LOADERS = frozenset({"CDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen"})
_SAME = frozenset(
    {"abspath", "realpath", "normpath", "resolve", "absolute", "str", "fspath", "as_posix"}
    | {"as_file", "list", "tuple", "sorted", "set", "__fspath__", "device"}
)
_PATHS = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath"})
# Of a module's name and a file's: `importlib.resources`, `pkg_resources`.
_OF_PACKAGE = frozenset({"resource_filename", "path"})
_MAX_LENGTH = 4096  # characters of a path, PATH_MAX

Value = object


class Module(NamedTuple):
    """A module of the wheel, as a value."""

    name: str


class Foreign(NamedTuple):
    """A module or a function of another project, `importlib.metadata.version`, as a value."""

    name: str


class Values:
    """The names of a scope.

    Attributes:
        folder_of: returns the folder of a package of the wheel, or None.
        attribute: returns the value of a name of a module of the wheel, or None.
        call: runs a function of the wheel, returns its value.
    """

    def __init__(
        self,
        names: MutableMapping[str, Value],
        folder_of: Callable[[str], str | None],
        attribute: Callable[[str, str], Value],
        call: Callable[[ast.Call, ast.FunctionDef, Values], Value],
    ) -> None:
        self.names = names
        self.folder_of = folder_of
        self.attribute = attribute
        self.call = call

    def inner(self, names: MutableMapping[str, Value]) -> Values:
        """Return a scope with more names."""
        return Values({**self.names, **names}, self.folder_of, self.attribute, self.call)

    def of(self, node: ast.AST | None) -> Value:
        """Return the value of an expression."""
        handler = _HANDLERS.get(type(node))
        return handler(node, self) if handler else None

    def text(self, node: ast.AST | None) -> str | None:
        """Return the value of an expression that is a text or a path."""
        value = self.of(node)
        return value if isinstance(value, str) and len(value) <= _MAX_LENGTH else None

    def texts(self, nodes: list[ast.expr]) -> list[str | None]:
        """Return those of several, `*parts` among them."""
        texts: list[str | None] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                value = self.of(node.value)
                parts = value if isinstance(value, tuple) else (None,)
                texts += [part if isinstance(part, str) else None for part in parts]
            else:
                texts.append(self.text(node))
        return texts

    def folder(self, node: ast.expr) -> str | None:
        """Return the folder of a package that an expression names."""
        value = self.of(node)
        name = value.name if isinstance(value, Module) else value
        return self.folder_of(name) if isinstance(name, str) else None


def name_of(node: ast.expr) -> str:
    """Return `open` of `open` and `io.open`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def bind(target: ast.expr, value: Value, values: Values) -> None:
    """Give a name, or each of several, a value."""
    if isinstance(target, ast.Name):
        values.names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = value if isinstance(value, tuple) and len(value) == len(target.elts) else ()
        for index, element in enumerate(target.elts):
            bind(element, parts[index] if parts else None, values)


def runs_of(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, values: Values
) -> Iterator[Values]:
    """Yield the scopes of a comprehension with one loop over known values."""
    loop = node.generators[0]
    items = values.of(loop.iter)
    if len(node.generators) == 1 and not loop.ifs and isinstance(items, tuple):
        for item in items:
            scope = values.inner({})
            bind(loop.target, item, scope)
            yield scope


def joined(parts: list[str | None]) -> str | None:
    """Return parts of a path as one."""
    if not parts or not all(isinstance(part, str) for part in parts):
        return None
    return str(PurePosixPath(*parts))  # type: ignore[arg-type]


def _constant(node: ast.Constant, _: Values) -> Value:
    return node.value if isinstance(node.value, (str, int, float)) else None


def _name(node: ast.Name, values: Values) -> Value:
    return values.names.get(node.id)


def _attribute(node: ast.Attribute, values: Values) -> Value:
    value = values.of(node.value)
    if isinstance(value, Module):
        return values.attribute(value.name, node.attr)
    if isinstance(value, Foreign):
        return Foreign(f"{value.name}.{node.attr}")
    if isinstance(node.value, ast.Name) and node.value.id == "__spec__":
        return values.names.get({"origin": "__file__", "name": "__name__"}.get(node.attr, ""))
    if isinstance(value, str) and node.attr in {"parent", "name", "stem"}:
        return str(getattr(PurePosixPath(value), node.attr))
    if isinstance(value, str) and node.attr == "parents":
        return tuple(map(str, PurePosixPath(value).parents))
    is_separator = node.attr == "sep" and isinstance(node.value, (ast.Name, ast.Attribute))
    return "/" if is_separator else None


def _subscript(node: ast.Subscript, values: Values) -> Value:
    value, index = values.of(node.value), values.of(node.slice)
    if isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.op, ast.USub):
        number = values.of(node.slice.operand)
        index = -number if isinstance(number, int) else None
    is_known = isinstance(value, tuple) and isinstance(index, int)
    return value[index] if is_known and -len(value) <= index < len(value) else None  # type: ignore[arg-type,index,operator]


def _operation(node: ast.BinOp, values: Values) -> Value:
    if isinstance(node.op, ast.Div):
        return joined([values.text(node.left), values.text(node.right)])
    left, right = values.of(node.left), values.of(node.right)
    if isinstance(node.op, ast.Add):
        both = (left, right)
        if all(isinstance(each, str) for each in both) or all(isinstance(e, tuple) for e in both):
            return left + right  # type: ignore[operator]
    if isinstance(node.op, ast.Mod) and isinstance(left, str) and left.count("%s") == 1:
        value = right[0] if isinstance(right, tuple) and len(right) == 1 else right
        return left.replace("%s", value) if isinstance(value, str) else None
    return None


def _formatted(node: ast.JoinedStr, values: Values) -> Value:
    texts: list[str] = []
    for part in node.values:
        is_plain = not isinstance(part, ast.FormattedValue) or not part.format_spec
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        text = values.text(inner) if is_plain else None
        if text is None:
            return None
        texts.append(text)
    return "".join(texts)


def _sequence(node: ast.Tuple | ast.List | ast.Set, values: Values) -> Value:
    return tuple(map(values.of, node.elts))


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp, values: Values) -> Value:
    return tuple(scope.of(node.elt) for scope in runs_of(node, values)) or None


def _called(call: ast.Call, values: Values) -> Value:
    name, function = name_of(call.func), values.of(call.func)
    if isinstance(function, ast.FunctionDef):
        return values.call(call, function, values)
    value = _known_call(call, name, values)
    # What it returns isn't known, but its methods are; without a default it may be None.
    is_one = len(call.args) + len(call.keywords) <= 1 or not name.startswith("get")
    if isinstance(function, Foreign) and value is None and is_one:
        return Foreign(f"{function.name}()")
    return value


def _known_call(call: ast.Call, name: str, values: Values) -> Value:
    """Return the value of a function that makes a path or a text."""
    own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    owner = values.text(own[0]) if own else None
    if name in _PATHS or (name == "join" and owner is None):
        return joined(values.texts(call.args))
    if name == "joinpath" and own:
        return joined([owner, *values.texts(call.args)])
    if name == "files" and call.args:
        return values.folder(call.args[0])
    if name in _OF_PACKAGE and len(call.args) > 1:
        return joined([values.folder(call.args[0]), values.text(call.args[1])])
    return _method(name, owner, call, values)


def _method(name: str, owner: str | None, call: ast.Call, values: Values) -> Value:
    """Return the value of a call with one argument, or of a method without."""
    first = values.of(call.args[0]) if call.args else owner
    if name in _SAME:
        return first
    if name in {"dirname", "split"} and isinstance(first, str) and owner is None:
        whole = os.path.split(first)
        return whole[0] if name == "dirname" else whole
    if name == "join" and isinstance(first, tuple) and all(isinstance(e, str) for e in first):
        return str(owner).join(first)
    if owner and isinstance(first, str) and first:
        return _changed(name, owner, values.texts(call.args))
    if name == "getfile" and isinstance(first, Module):
        return values.attribute(first.name, "__file__")
    return None


def _changed(name: str, owner: str, args: list[str | None]) -> Value:
    """Return the value of a method that puts texts into a path, or a text."""
    with contextlib.suppress(ValueError):  # of a name that no file can have
        match name, args:
            case "with_name", [str(file)]:
                return str(PurePosixPath(owner).with_name(file))
            case "with_suffix", [str(suffix)]:
                return str(PurePosixPath(owner).with_suffix(suffix))
            case "replace", [str(old), str(new)]:
                return owner.replace(old, new)
    return None


_HANDLERS: dict[type, Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _operation,
    ast.JoinedStr: _formatted,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Call: _called,
}
