"""Read a setup.py, and what it imports of its own tree, as syntax trees: nothing of it is run."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from cuwheel.drafts.readers.finding import Finding, Kind, place_of
from cuwheel.drafts.readers.flags import read_flags
from cuwheel.drafts.readers.relevance import OFF_BY_DEFAULT
from cuwheel.system.parsed_files import read_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MOST_FILES = 40  # of the tree, that a setup.py imports
_GETTERS = re.compile(r"(?:os\.)?(?:getenv|environ\.(?:get|pop|setdefault))")
_ENVIRON = re.compile(r"(?:os\.)?environ")
_DOWNLOADS = re.compile(
    r"(?:urllib\.request\.)?(?:urlopen|urlretrieve)|requests\.\w+|wget\.\w+"
    r"|torch\.hub\.download_url_to_file|(?:git\.)?Repo\.clone_from"
)
_RUNNERS = re.compile(r"(?:subprocess\.(?:run|call|check_\w+|Popen)|os\.(?:system|popen))")
_PATH_CHANGES = re.compile(r"sys\.path\.(?:append|insert|extend)")
_FETCHERS = re.compile(r"(?:^|/)(?:git|wget|curl|aria2c)$")
_COMPILING = ("cmake", "ninja")  # programs that a build starts, and the index has
_EXTENSIONS = re.compile(r"(?:\w+\.)*(?!Build)\w*Extension(?:Using\w+)?")
_SOURCE = re.compile(r"[\w./-]+\.(?:cu|cpp|cc|cxx|c)")


def read_setup(tree: Path, files: Iterable[Path] = ()) -> tuple[Finding, ...]:
    """Every fact that the build's Python code states.

    Args:
        tree: the source.
        files: more modules to start from, such as a build backend in the tree.
    """
    queue = [path for path in (tree / "setup.py", *files) if path.is_file()]
    roots = [tree]
    found: list[Finding] = []
    for path in queue:
        try:
            module = read_module(path)
        except (OSError, ValueError) as problem:
            name = str(problem).splitlines()[0]
            found.append(Finding(kind="unread", name=name, where=place_of(tree, path, 1)))
            continue
        roots += [root for root in _added_roots(tree, module) if root not in roots]
        local = [made for name in sorted({*_imported(module)}) for made in _in_tree(roots, name)]
        queue += [one for one in local if one not in queue][: max(_MOST_FILES - len(queue), 0)]
        found += _Reader(roots, path, module).read()
    return tuple(dict.fromkeys(found))


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)  # may be a module


def _added_roots(tree: Path, module: ast.Module) -> Iterator[Path]:
    """Folders of the tree that a module adds to `sys.path`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _PATH_CHANGES.fullmatch(_dotted(node.func)):
            parts = [text for part in ast.walk(node) if (text := _text(part))]
            folder = tree.joinpath(*parts).resolve()
            if parts and folder.is_dir() and folder.is_relative_to(tree.resolve()):
                yield tree / folder.relative_to(tree.resolve())


def _in_tree(roots: list[Path], name: str) -> list[Path]:
    """A module's file in the tree.

    A package counts where the build added its folder to `sys.path`; at the top stands the
    distribution's own, which setup.py would only import for its version.

    Args:
        roots: the tree, and folders of it that the build adds.
        name: with dots.
    """
    found = []
    for root in roots:
        path = root.joinpath(*name.split("."))
        found += [path.with_suffix(".py"), *([path / "__init__.py"] if root != roots[0] else [])]
    return [one for one in found if one.is_file()]


class _Reader:
    """One module, with the parent of each node."""

    def __init__(self, roots: list[Path], path: Path, module: ast.Module) -> None:
        self._roots = roots
        self._tree = roots[0]
        self._path = path
        self._module = module
        self._parents = {
            child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)
        }
        self._getters = set(_own_getters(module))
        self._switches = self._read_switches()
        self._prefix = self._read_prefix()

    def _read_switches(self) -> set[str]:
        """Names that are true only where a variable says so: `X = os.getenv("X", "0") == "1"`."""
        found = set()
        for node in self._module.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Compare):
                asked = node.value.left
                if isinstance(asked, ast.Call) and _GETTERS.fullmatch(_dotted(asked.func)):
                    default = _text(asked.args[1]) if len(asked.args) > 1 else ""
                    if default != _text(node.value.comparators[0]):
                        found |= {_dotted(target) for target in node.targets}
        return found

    def _read_prefix(self) -> str:
        """What `setup(ext_package="x")` puts in front of all extension modules' names."""
        keywords = (
            keyword
            for node in ast.walk(self._module)
            if isinstance(node, ast.Call) and _dotted(node.func).endswith("setup")
            for keyword in node.keywords
        )
        names = (_text(one.value) for one in keywords if one.arg == "ext_package")
        return next((f"{name}." for name in names if name), "")

    def read(self) -> Iterator[Finding]:
        """Every fact, in the order of the file."""
        names = sorted({name.partition(".")[0] for name in _imported(self._module)})
        for name in names:
            if name not in sys.stdlib_module_names and not _in_tree(self._roots, name):
                yield Finding(kind="import", name=name, where=self._imported_at(name))
        for node in ast.walk(self._module):
            if isinstance(node, ast.Call):
                yield from self._read_call(node)
            elif isinstance(node, ast.Subscript | ast.Compare):
                yield from self._read_lookup(node)
            elif isinstance(node, ast.Dict):
                yield from self._read_table(node)
            elif (text := _text(node)) and not self._is_docstring(node):
                yield from read_flags(text, self._at(node), self._guard(node))

    def _read_call(self, node: ast.Call) -> Iterator[Finding]:
        name = _dotted(node.func)
        if _GETTERS.fullmatch(name) or name in self._getters:
            yield from self._variable(node, node.args[:1], node.args[1:2])
        elif _DOWNLOADS.fullmatch(name):
            yield self._finding("download", ast.unparse(node), node)
        elif _RUNNERS.fullmatch(name):
            yield from self._read_process(node)
        elif name.endswith("cuda.is_available"):
            yield self._finding("gpu", name, node)
        elif _EXTENSIONS.fullmatch(name) or _has_keyword(node, "sources"):
            yield from self._read_extension(node)
        for keyword in node.keywords:
            is_false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg == "use_ninja" and is_false:
                yield self._finding("no ninja", "use_ninja=False", node)
            if keyword.arg == "py_limited_api" and not is_false:
                yield self._finding("stable ABI", f"py_limited_api in {name}", node)

    def _read_lookup(self, node: ast.Subscript | ast.Compare) -> Iterator[Finding]:
        """`os.environ["X"]`, `"X" in os.environ`."""
        if isinstance(node, ast.Subscript):
            if _ENVIRON.fullmatch(_dotted(node.value)) and isinstance(node.ctx, ast.Load):
                yield from self._variable(node, [node.slice], [])
        elif _ENVIRON.fullmatch(_dotted(node.comparators[0])):
            yield from self._variable(node, [node.left], [])

    def _read_table(self, node: ast.Dict) -> Iterator[Finding]:
        """`{"libraries": ["cublas"], …}`, which extension modules are made from later."""
        for key, value in zip(node.keys, node.values, strict=True):
            for part in _elements(value) if _text(key) == "libraries" else ():
                if text := _text(part):
                    yield self._finding("library", text, part)

    def _variable(
        self, node: ast.expr, names: list[ast.expr], defaults: list[ast.expr]
    ) -> Iterator[Finding]:
        name = _text(names[0]) if names else ""
        if not name:
            if not self._in_getter(node):
                yield self._finding("computed variable", ast.unparse(node), node)
            return
        default = next(
            (
                str(one.value)
                for one in defaults
                if isinstance(one, ast.Constant) and one.value is not None
            ),
            "",
        )
        yield Finding(
            kind="variable",
            name=name,
            where=self._at(node),
            default=default,
            wants=self._wants(node),
            guard=self._guard(node),
        )

    def _wants(self, node: ast.AST) -> str:
        """What the value is compared with, or 1 where it is read as a number or a truth."""
        while (parent := self._parents.get(node)) is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.Compare) and isinstance(parent.ops[0], ast.Eq | ast.In):
                other = parent.comparators[0] if parent.left is node else parent.left
                words = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
                if words and (text := _text(words[0])):
                    return text
            if isinstance(parent, ast.Call) and node in parent.args:
                return "1" if _dotted(parent.func).split(".")[-1] in _TRUTHS else ""
            node = parent
        return ""

    def _read_process(self, node: ast.Call) -> Iterator[Finding]:
        """`subprocess.run(["git", "clone", …])`, `os.system("wget …")`."""
        if not node.args:
            return
        first = node.args[0]
        parts = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
        words = [word for part in parts for word in (_text(part) or "…").split()]
        if words and words[0] in _COMPILING:
            yield self._finding("program", words[0], node)
        if not words or not _FETCHERS.search(words[0]):
            return
        if words[0] != "git" or {"clone", "submodule", "fetch"} & {*words}:
            yield self._finding("download", " ".join(words), node)
        if "submodule" in words and words[-1] != "…" and "/" in words[-1]:
            yield from self._missing(words[-1], node)

    def _missing(self, name: str, node: ast.AST) -> Iterator[Finding]:
        path = self._tree / name
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            yield self._finding("missing", name, node)

    def _read_extension(self, node: ast.Call) -> Iterator[Finding]:
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        name = given.get("name") or (node.args[0] if node.args else None)
        if text := _text(name):
            yield self._finding("extension", f"{self._prefix}{text}", node)
        for part in _elements(given.get("libraries")):
            if text := _text(part):
                yield self._finding("library", text, part)
        sources = given.get("sources") or (node.args[1] if len(node.args) > 1 else None)
        for part in _elements(sources):
            text = _text(part)
            if text and _SOURCE.fullmatch(text):
                yield from self._missing(text, part)

    def _finding(self, kind: Kind, name: str, node: ast.AST) -> Finding:
        return Finding(kind=kind, name=name, where=self._at(node), guard=self._guard(node))

    def _guard(self, node: ast.AST) -> str:
        """The `if`s around a node, inside its own function, the nearest last."""
        found: list[str] = []
        while (parent := self._parents.get(node)) is not None:
            if isinstance(parent, ast.If) and node is not parent.test:
                text = ast.unparse(parent.test)
                if node not in parent.body:
                    text = f"not ({text})"
                elif text in self._switches:
                    return f"{text}, {OFF_BY_DEFAULT}"
                found.append(text)
            if isinstance(parent, ast.FunctionDef):
                break
            node = parent
        return " and ".join(reversed(found))

    def _is_docstring(self, node: ast.AST) -> bool:
        return isinstance(self._parents.get(node), ast.Expr)

    def _in_getter(self, node: ast.AST) -> bool:
        """Whether it stands in a function whose callers name the variable."""
        found: ast.AST | None = node
        while found is not None and not isinstance(found, ast.FunctionDef):
            found = self._parents.get(found)
        return isinstance(found, ast.FunctionDef) and found.name in self._getters

    def _imported_at(self, name: str) -> str:
        for node in ast.walk(self._module):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            names = _imported(ast.Module(body=[node], type_ignores=[]))
            if any(one.partition(".")[0] == name for one in names):
                return self._at(node)
        return place_of(self._tree, self._path, 1)  # pragma: no cover - it is imported somewhere

    def _at(self, node: ast.AST) -> str:
        return place_of(self._tree, self._path, getattr(node, "lineno", 1))


_TRUTHS = ("int", "bool", "strtobool", "str2bool")


def _own_getters(module: ast.Module) -> Iterator[str]:
    """Functions of the module that read the variable which their first argument names."""
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef) and function.args.args:
            first = function.args.args[0].arg
            for node in ast.walk(function):
                names = node.args[:1] if isinstance(node, ast.Call) else []
                is_getter = isinstance(node, ast.Call) and _GETTERS.fullmatch(_dotted(node.func))
                if is_getter and any(
                    isinstance(one, ast.Name) and one.id == first for one in names
                ):
                    yield function.name


def _has_keyword(node: ast.Call, name: str) -> bool:
    return any(keyword.arg == name for keyword in node.keywords)


def _elements(node: ast.expr | None) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else []


def _text(node: ast.AST | None) -> str:
    """A plain text; empty for anything that is made while the code runs."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _dotted(node: ast.AST) -> str:
    """`os.environ.get`; empty for what is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else node.attr
    return ""
