"""The Python code of a wheel: what an import of its packages always runs, without running it.

Only statements of a module's own level count: what is in `try`, `if` or a function may not run.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple, TypeGuard

from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.base.system.regular_files import compile_fault, parse_module

# PEP 3149 and PEP 384.
_EXTENSION = re.compile(r"(\.cpython-\w+-[-\w]+|\.abi3t?)?\.so$")
# Modules for which an import isn't decided by the files of the wheel.
_DYNAMIC = re.compile(
    rb"__path__\s*(\+?=|\.)|meta_path|path_hooks|sys\.path\s*(\+?=|\.(append|extend|insert))"
    rb"|sys\.modules\s*(\[[^\]]*\]\s*=[^=]|\.(setdefault|update))|extend_path"
    rb"|LazyLoader|lazy_loader|_LazyModule|addsitedir|import_module|__import__"
)
_CHANGES = re.compile(_DYNAMIC.pattern.removesuffix(rb"|import_module|__import__"))
_ADDS = re.compile(
    rb"meta_path|path_hooks|sys\.path\s*(\+?=|\.)|addsitedir"
    rb"|sys\.modules\s*(\[[^\]]*\]\s*=[^=]|\.(setdefault|update))"
)
NEWER = re.compile(
    rb":=|/\s*[,)]|^\s*(match|case|type)\s|\bwith\s*\(|except\s*\*|(def|class)\s+\w+\[",
    re.MULTILINE,
)
"""Of 3.8 to 3.14: `:=`, `/` in parameters, `match`, `with (`, `except*`, types."""
# Of errors about statements that are too new: how they begin, the node of the statement.
_LATE = {"Pattern matching": "Match", "Exception groups": "TryStar"}
_GLOBAL = re.compile(rb"^\s+global\s+(.*)", re.MULTILINE)  # a statement in a function
_NESTED = 12  # of Python 3, which takes any expression in an f-string (PEP 701)
# With both kinds of quotes or a backslash in braces; most f-strings have neither.
_FORMATTED = re.compile(rb"""\b[rR]?[fF][rR]?(["']).*\{[^}\n]*(\1|\\)""")
_QUOTES = 2  # around a text
_QUOTE = re.compile(r"""[rRfF]+("{3}|'{3}|"|')""")
_FUTURE = re.compile(rb"^from __future__ import .*annotations", re.MULTILINE)
# `int | None` (PEP 604), `list[int]` (PEP 585); with another type on one side, that one decides.
_UNION, _GENERIC = 10, 9
_CONTAINERS = frozenset({"dict", "frozenset", "list", "set", "tuple", "type"})
_BUILTIN = _CONTAINERS | {"bool", "bytes", "complex", "float", "int", "str"}
_WORD = re.compile(rb"\w+")
_BY_PATH = re.compile(rb"spec_from_file_location|ExtensionFileLoader|load_dynamic")
# A line that may begin a statement of the module's level.
_STATEMENT = re.compile(rb"(?!(else|elif|except|finally)\b)[\w@\"'(\[{*]")
_LONGEST = 24  # such lines in one statement, as in a text of several lines
_REST = 256 << 10  # bytes of other modules that are read: some wheels have 20 MB
# Modules for other programs: tests, templates, examples, copies of other projects.
_ASIDE = re.compile(
    r"(^|/)(_?tests?|testing|_?vendor(ed)?|_?third_?party|templates?|examples?|benchmarks?|scripts"
    r"|tools|docs?|[^/]*(win|osx|darwin|macos|posix|bsd|aix|sunos|android|ios)[^/]*\.py|conftest\.py|setup\.py|test_[^/]*|[^/]*_test\.py)(/|$)|[^\w/.-]|\.data/"
)
_ANY_NAME = re.compile(rb"\b(globals|exec|vars|locals|setattr)\(|def __getattr__")
# Attributes of every module (the Python Language Reference, "Module attributes").
_IMPLICIT = frozenset(
    {"__annotations__", "__builtins__", "__cached__", "__dict__", "__doc__", "__file__"}
    | {"__loader__", "__name__", "__package__", "__path__", "__spec__"}
)


class Import(NamedTuple):
    """An import that always runs.

    Attributes:
        importer: a member.
        names: taken from the module, `from module import name`; empty: none, or all.
    """

    importer: str
    line: int
    module: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PythonCode:
    """The modules of a wheel.

    Attributes:
        sources: of small modules, by member.
    """

    names: tuple[str, ...]
    sources: Mapping[str, bytes]

    @cached_property
    def modules(self) -> dict[str, str]:
        """The member of each module, `pkg.mod`; a package comes before a module of its name."""
        modules: dict[str, str] = {}
        for name in self.names:
            path = installed_path(name)
            if path is None or not (suffix := _suffix(path.name)) or "__pycache__" in path.parts:
                continue
            parts = (*path.parts[:-1], path.name.removesuffix(suffix))
            is_package = parts[-1] == "__init__"
            dotted = ".".join(parts[:-1] if is_package else parts)
            if is_package or dotted not in modules:
                modules[dotted] = name
        return modules

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder below site-packages, as a module's name."""
        paths = (installed_path(name) for name in self.names)
        parents = (parent for path in paths if path for parent in path.parents)
        return frozenset(".".join(parent.parts) for parent in parents)

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The packages that users import: the outermost with an `__init__`."""
        packages = [name for name in self.modules if self._is_package(name)]
        return tuple(
            sorted(
                name
                for name in packages
                if all(part.isidentifier() for part in name.split("."))
                and not any(self._is_package(parent) for parent in parents_of(name))
            )
        )

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """The imports that importing a root always runs."""
        return tuple(found for imports in self._run.values() for found in imports)

    def syntax_error(self, member: str, minor: int | None = None) -> SyntaxError | None:
        """Return why this Python, or an older 3.`minor`, doesn't compile a module; None: it does.

        The older one is tried where the code seems to have syntax that is newer than 3.7.
        """
        if minor is None:
            parsed = self._parse(member)
            return parsed if isinstance(parsed, SyntaxError) else self._compile_fault(member)
        source = self.sources.get(member, b"")
        try:
            if NEWER.search(source):
                parse_module(source, minor)
        except SyntaxError as problem:
            problem.lineno = self._line_of(problem, member)
            return problem
        except ValueError:
            return None
        is_nested = minor < _NESTED and _FORMATTED.search(source)
        return _nested_text(self._tree(member), source) if is_nested else None

    def _compile_fault(self, member: str) -> SyntaxError | None:
        source = self.sources.get(member, b"")
        problem = compile_fault(source) if self._parsed[member] else None
        if problem and problem.lineno:  # the compiler gives no text
            lines = source.splitlines()[problem.lineno - 1 : problem.lineno]
            problem.text = b"".join(lines).decode(errors="replace")
        return problem

    def _line_of(self, problem: SyntaxError, member: str) -> int | None:
        """Return the line where a statement begins, at the end of which the parser noticed it."""
        kind = next((name for text, name in _LATE.items() if problem.msg.startswith(text)), "")
        lines = [each.lineno for each in self.nodes(member) if type(each).__name__ == kind]  # type: ignore[attr-defined]
        return min(lines, default=problem.lineno)

    @property
    def run(self) -> tuple[str, ...]:
        """The members that importing a root always runs, as far as they are read."""
        return tuple(self._run)

    @cached_property
    def rest(self) -> tuple[str, ...]:
        """Other members of the roots' packages, which users import themselves; only small ones."""
        tops = {name.partition(".")[0] for name in self.roots}
        members, size = [], 0
        for module, member in sorted(self.modules.items()):
            is_other = member in self.sources and member not in self._run
            if is_other and module.partition(".")[0] in tops and not _ASIDE.search(member):
                size += len(self.sources[member])
                members += [member] if size <= _REST else []
        return tuple(members)

    @cached_property
    def rest_imports(self) -> tuple[Import, ...]:
        """The imports that importing one of `rest` always runs."""
        names = {member: module for module, member in self.modules.items()}
        return tuple(item for name in self.rest for item in self._imports_of(names[name], name))

    @cached_property
    def is_dynamic(self) -> bool:
        """True if code that always runs changes how Python finds modules."""
        return any(_DYNAMIC.search(self.sources[member]) for member in self._run)

    @cached_property
    def adds_folders(self) -> bool:
        """True if it may add folders with other projects' modules, or modules themselves."""
        return any(_ADDS.search(self.sources[member]) for member in self._run)

    @cached_property
    def changes_search(self) -> bool:
        """True if it does so by other folders or finders, not only by names that are made."""
        return any(_CHANGES.search(self.sources[member]) for member in self._run)

    @cached_property
    def loads_by_path(self) -> bool:
        """True if some code may load extension modules under other names than their files'."""
        return any(_BY_PATH.search(source) for source in self.sources.values())

    def is_always_loaded(self, member: str) -> bool:
        """Return True if an import that always runs, or passes its errors on, loads a module."""
        return member in self._always_loaded

    @cached_property
    def _always_loaded(self) -> frozenset[str]:
        items = [item for items in self._follow(self.roots, tries=True).values() for item in items]
        names = (f"{item.module}.{name}" for item in items for name in item.names)
        imported = (*names, *(item.module for item in items))
        return frozenset(self.modules[name] for name in imported if name in self.modules)

    def tries(self, name: str) -> bool:
        """Return True if code imports a module of a name only where it can do without."""
        word = re.compile(rb"^(?=.*\bimport\b).*\b%b\b" % re.escape(name.encode()), re.MULTILINE)
        users = [member for member, source in self.sources.items() if word.search(source)]
        tried = {
            item
            for member in users
            for node in self.nodes(member)
            if isinstance(node, ast.Try) and any(map(_catches_import, node.handlers))
            for item in ast.walk(node)
        }
        imports = [
            node
            for member in users
            for node in self.nodes(member)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            and any(alias.name.rpartition(".")[2] == name for alias in node.names)
        ]
        return bool(imports) and tried.issuperset(imports)

    def lacks(self, module: str) -> str:
        """Return the part of a module's name that isn't in the wheel's package; empty: none.

        Another wheel may add to a package without `__init__`, and an extension module may make
        others, so these lack nothing.
        """
        for name in (*reversed(parents_of(module)), module):
            if self.modules.get(name, "").endswith((".so", ".pyc")):
                return ""
            is_own = self._is_package(name.partition(".")[0])
            if is_own and name not in self.modules and name not in self.folders:
                return name
        return ""

    def has_name(self, module: str, name: str) -> bool:
        """Return True if a module has an attribute or a submodule of this name, or may have it."""
        bound = self.bound(module)
        return (
            bound is None
            or name in bound
            or name in _IMPLICIT
            or f"{module}.{name}" in self.modules
            or f"{module}.{name}" in self.folders
        )

    def exported(self, module: str) -> tuple[str, ...]:
        """Return the names in a module's `__all__`, as far as constants give them."""
        names: list[str] = []
        for node in self.statements(self.modules.get(module, "")):
            for value in _added_to_all(node):
                parts = ast.walk(value) if isinstance(value, ast.BinOp) else (value,)
                lists = (part for part in parts if isinstance(part, (ast.List, ast.Tuple)))
                names += [
                    element.value
                    for each in lists
                    for element in each.elts
                    if isinstance(element, ast.Constant) and isinstance(element.value, str)
                ]
        return tuple(dict.fromkeys(names))

    def injected(self, module: str) -> frozenset[str]:
        """Return the names that functions of a module bind in it, with `global`."""
        source = self.sources.get(self.modules.get(module, ""), b"")
        lines = _GLOBAL.findall(source)
        return frozenset(name.decode() for line in lines for name in _WORD.findall(line))

    def new_annotations(self, member: str) -> Iterator[tuple[int, str, int]]:
        """Yield annotations that an import evaluates: line, text, the Python 3 that has them."""
        tree = self._tree(member)
        body = tree.body if tree else []
        values = [node.value for node in body if isinstance(node, ast.Assign)]
        aliases = [node for node in values if isinstance(node, (ast.BinOp, ast.Subscript))]
        is_lazy = bool(_FUTURE.search(self.sources.get(member, b"")))
        for node in (*aliases, *(() if is_lazy else _evaluated(body))):
            for part in ast.walk(node):
                if minor := _minor_of_annotation(part):
                    yield node.lineno, ast.unparse(part), minor

    def annotations(self, member: str, node: ast.stmt) -> Iterator[ast.expr]:
        """Yield annotations that an import evaluates, as Pythons before 3.14 do."""
        is_lazy = bool(_FUTURE.search(self.sources.get(member, b"")))
        if not is_lazy and not any(getattr(part, "type_params", ()) for part in ast.walk(node)):
            yield from _evaluated([node])

    def nodes(self, member: str) -> Iterator[ast.AST]:
        """Yield all parts of a module's code."""
        tree = self._tree(member)
        return ast.walk(tree) if tree else iter(())

    def statements(self, member: str) -> Sequence[ast.stmt]:
        """Return the statements of a module's own level."""
        tree = self._tree(member)
        return tree.body if tree else ()

    def _is_package(self, module: str) -> bool:
        return PurePosixPath(self.modules.get(module, "")).name.startswith("__init__.")

    @cached_property
    def _parsed(self) -> dict[str, ast.Module | SyntaxError | None]:
        return {}

    def _parse(self, member: str) -> ast.Module | SyntaxError | None:
        """Return a module's syntax tree, or its error; None where it isn't read."""
        if member not in self._parsed:
            self._parsed[member] = None
            try:
                if member in self.sources:
                    self._parsed[member] = parse_module(self.sources[member])
            except SyntaxError as problem:
                self._parsed[member] = problem
            except ValueError as problem:  # of zero bytes, before Python 3.12
                if b"\0" in self.sources[member]:
                    self._parsed[member] = SyntaxError(str(problem))
        return self._parsed[member]

    def _tree(self, member: str) -> ast.Module | None:
        parsed = self._parse(member)
        if isinstance(parsed, SyntaxError):
            if member not in self._readable:
                self._readable[member] = _readable_part(self.sources[member])
            return self._readable[member]
        return parsed

    @cached_property
    def _readable(self) -> dict[str, ast.Module]:
        return {}

    @cached_property
    def _run(self) -> dict[str, tuple[Import, ...]]:
        return self._follow(self.roots, tries=False)

    def run_from(self, modules: Iterable[str]) -> frozenset[str]:
        """Return the members that importing some modules always runs."""
        return frozenset(self._follow(modules, tries=False))

    def _follow(self, roots: Iterable[str], *, tries: bool) -> dict[str, tuple[Import, ...]]:
        """Return the imports of each member that importing some modules runs, in order.

        Args:
            tries: also those in `try`, if each handler ends with `raise`.
        """
        run: dict[str, tuple[Import, ...]] = {}
        queue = list(roots)
        done: set[str] = set()
        for module in queue:
            member = self.modules.get(module, "")
            if module in done or member not in self.sources:
                continue
            done.add(module)
            run[member] = tuple(self._imports_of(module, member, tries=tries))
            for item in run[member]:
                submodules = (f"{item.module}.{name}" for name in item.names)
                queue += [*reversed(parents_of(item.module)), item.module, *submodules]
        return run

    def _imports_of(self, module: str, member: str, *, tries: bool = False) -> Iterator[Import]:
        tree = self._tree(member)
        body = list(tree.body) if tree else []
        for node in chain.from_iterable(map(_passed_on, body)) if tries else body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(member, node.lineno, alias.name, ())
            elif isinstance(node, ast.ImportFrom):
                target = self.target(module, node)
                names = tuple(alias.name for alias in node.names if alias.name != "*")
                if target:
                    yield Import(member, node.lineno, target, names)
            elif isinstance(node, ast.Raise):
                return

    def target(self, module: str, node: ast.ImportFrom) -> str:
        """Return the absolute name of the module of a `from` import; empty above the top."""
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        ups = node.level - self._is_package(module)
        base = parts[: max(0, len(parts) - ups)]
        return ".".join((*base, *([node.module] if node.module else []))) if base else ""

    def imports_above_top(self) -> Iterator[tuple[str, int]]:
        """Yield member and line of each relative import that leaves its outermost package."""
        for module, member in self.modules.items():
            tree = self._tree(member) if member in self.run else None
            for node in tree.body if tree else ():
                if isinstance(node, ast.ImportFrom) and not self.target(module, node):
                    yield member, node.lineno

    @cached_property
    def _names(self) -> dict[str, frozenset[str] | None]:
        return {}

    def bound(self, module: str) -> frozenset[str] | None:
        """Return the names that a module's code binds; None: they aren't known."""
        if module not in self._names:
            self._names[module] = None  # also of one that takes all names of itself
            self._names[module] = self._read_names(module)
        return self._names[module]

    def _read_names(self, module: str) -> frozenset[str] | None:
        member = self.modules.get(module, "")
        source, tree = self.sources.get(member), self._parse(member)
        if source is None or not isinstance(tree, ast.Module) or _ANY_NAME.search(source):
            return None
        names = set(self.injected(module))
        for node in own_level(tree):
            target = self.target(module, node) if isinstance(node, ast.ImportFrom) else ""
            if isinstance(node, ast.ImportFrom) and target == module:
                names.update(
                    alias.asname or alias.name
                    for alias in node.names
                    if f"{module}.{alias.name}" in self.modules
                )
            else:
                names.update(names_of(node))
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                others = self.bound(target)
                if others is None:
                    return None
                names |= others
        return frozenset(names)


def _passed_on(node: ast.stmt) -> Sequence[ast.stmt]:
    """Return a statement, or those in a `try` with handlers that all raise an error again."""
    if isinstance(node, ast.Try) and all(isinstance(h.body[-1], ast.Raise) for h in node.handlers):
        return [*node.body, *node.orelse, *node.finalbody]
    return [node]


def _readable_part(source: bytes) -> ast.Module:
    """Return the statements that this Python can read; those around them may be for a newer one."""
    lines = source.splitlines(keepends=True)
    starts = [n for n, line in enumerate(lines) if _STATEMENT.match(line)] + [len(lines)]
    module, index = ast.Module(body=[], type_ignores=[]), 0
    while index < len(starts) - 1:
        ends = range(index + 1, min(index + _LONGEST, len(starts) - 1) + 1)
        for end in ends:
            text = b"".join(lines[starts[index] : starts[end]])
            with contextlib.suppress(SyntaxError, ValueError):
                part = parse_module(text)
                module.body += [ast.increment_lineno(node, starts[index]) for node in part.body]
                break
        else:
            end = index + 1
        index = end
    return module


def _nested_text(tree: ast.Module | None, source: bytes) -> SyntaxError | None:
    """Return the error of Pythons before 3.12 about a quote or backslash in an f-string's braces.

    This Python's `ast` reports it only where this Python is older itself.
    """
    text = source.decode(errors="replace")
    for node in ast.walk(tree) if tree and sys.version_info >= (3, _NESTED) else ():
        if isinstance(node, ast.JoinedStr):
            whole = ast.get_source_segment(text, node) or ""
            start = _QUOTE.match(whole)
            values = (part.value for part in node.values if isinstance(part, ast.FormattedValue))
            inner = [ast.get_source_segment(text, value) or "" for value in values]
            rest = functools.reduce(lambda left, part: left.replace(part, "", 1), inner, whole)
            # Not one of several texts in a row, each of which may have other quotes.
            is_one = start and rest.endswith(start[1]) and rest.count(start[1]) == _QUOTES
            if start and is_one and any(start[1] in part or "\\" in part for part in inner):
                detail = ("", node.lineno, node.col_offset, whole)
                return SyntaxError("f-string: its own quote or \\ inside of braces", detail)
    return None


def _assigns(node: ast.stmt, name: str) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in node.targets
    )


def _added_to_all(node: ast.stmt) -> Iterator[ast.expr]:
    """Yield the values of `__all__ =`, `__all__ +=` and `__all__.extend()`."""
    if _assigns(node, "__all__"):
        yield node.value
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value:
        if isinstance(node.target, ast.Name) and node.target.id == "__all__":
            yield node.value
    elif isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id == "__all__":
            is_one = getattr(call.func, "attr", "") == "append"
            yield from [ast.List(elts=call.args)] if is_one else call.args


def _evaluated(body: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    """Yield the annotations of functions, and of names in modules and classes."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _evaluated(node.body)
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            args = node.args
            every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
            yield from (each.annotation for each in every if each and each.annotation)
            yield from [node.returns] if node.returns else ()


def _minor_of_annotation(node: ast.AST) -> int:
    """Return the first Python 3 that evaluates `int | None` and `list[int]`; 0: every one does."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _UNION if any(map(_is_plain_type, (node.left, node.right))) else 0
    is_generic = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    return _GENERIC if is_generic and node.value.id in _CONTAINERS else 0  # type: ignore[attr-defined]


def _is_plain_type(node: ast.expr) -> bool:
    is_none = isinstance(node, ast.Constant) and node.value is None
    return is_none or (isinstance(node, ast.Name) and node.id in _BUILTIN)


def _suffix(file: str) -> str:
    """Return what follows a module's name in the name of its file; empty for other files."""
    for suffix in (".py", ".pyc"):
        if file.endswith(suffix):
            return suffix
    match = _EXTENSION.search(file)
    return match[0] if match else ""


def _catches_import(handler: ast.ExceptHandler) -> bool:
    """Return True for `except ImportError`, and for one that has no raise."""
    text = ast.unparse(handler.type) if handler.type else "Exception"
    is_any = any(name in text for name in ("ImportError", "ModuleNotFound", "Exception", "OSError"))
    return is_any and not any(isinstance(part, ast.Raise) for part in ast.walk(handler))


def parents_of(module: str) -> list[str]:
    """Return `a.b` and `a` of `a.b.c`."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def own_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that may bind names, outside of functions and classes."""
    queue: list[ast.AST] = [tree]
    for node in queue:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            queue += filter(_may_bind, ast.iter_child_nodes(node))


def imported_names(statements: Iterable[ast.AST]) -> dict[str, str]:
    """Return what names mean that imports of other projects bind: `np` is `numpy`."""
    names: dict[str, str] = {}
    for node in statements:
        if isinstance(node, ast.Import):
            full = {alias.asname: alias.name for alias in node.names if alias.asname}
            tops = [alias.name.partition(".")[0] for alias in node.names if not alias.asname]
            names |= {**full, **{top: top for top in tops}}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def full_name(node: ast.expr, names: Mapping[str, str]) -> str:
    """Return `numpy.float_` of `np.float_`; a name that no import binds stays as it is."""
    first, dot, rest = ast.unparse(node).partition(".")
    return names.get(first, first) + dot + rest


def _may_bind(node: ast.AST) -> bool:
    """Return True for statements, their parts, and targets; other expressions bind nothing."""
    is_target = isinstance(node, (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.NamedExpr))
    return is_target or not isinstance(node, ast.expr)


def names_of(node: ast.AST) -> Iterable[str]:
    """Return the names that a node binds."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store) else ()
    # Functions, classes, `except` and `match`; a type's name is a node (Python 3.12).
    name = None if isinstance(node, ast.alias) else getattr(node, "name", None)
    return [name] if isinstance(name, str) else ()
