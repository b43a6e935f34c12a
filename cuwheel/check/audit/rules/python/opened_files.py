"""What files the code of a wheel opens, under names that are known from the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.rules.python.machine import (
    Effect,
    effects_of_assignment,
    effects_of_call,
    effects_of_check,
    possible_effects,
)
from cuwheel.check.audit.rules.python.projects import QUERIES, Query
from cuwheel.check.audit.rules.python.values import (
    LOADERS,
    SITE,
    Foreign,
    Module,
    Value,
    Values,
    bind,
    joined,
    name_of,
    runs_of,
)

# Methods of a path.
_READERS = frozenset({"read_text", "read_bytes", "iterdir", "open", "stat", "chmod"})
# Functions with a file's name: of Python, NumPy, pandas, PyTorch.
_FUNCTIONS = frozenset(
    {"open", "load", "loadtxt", "genfromtxt", "fromfile", "read_csv", "listdir", "chmod"}
    | {"fileConfig", "scandir", "stat", "getsize", "run_path", "ZipFile", "SourceFileLoader"}
    | {"ExtensionFileLoader"}
)
# Modules with functions of these names that pass a name on to the loader as it is.
_OF_LOADERS = frozenset({"_ctypes", "cffi", "ctypes", "tensorflow", "torch"})
# Functions with a package's and a file's.
_DATA = frozenset({"get_data", "read_text", "read_binary", "open_text", "open_binary"})
_DATA |= {"resource_string", "resource_stream", "resource_listdir"}
_LISTS = frozenset({"files", "contents"})  # functions with a package's name alone
_SUPPRESSES = frozenset({"suppress", "raises", "catch"})  # in `with`, for any exception
MAKES = re.compile(
    rb"exists\(|is_file|isfile|isdir|is_dir\(|subprocess|mkdir|makedirs|os\.system|\.write|urlopen"
    rb"|\bi?glob\(|\.r?glob\(|chdir|urlretrieve|hf_hub_download|shutil"
)
"""Code that may make a file before, or look for it first."""
_WORD = re.compile(rb"\w+")
# Functions with the folder of headers, libraries or a package for CMake.
_GIVES = re.compile(r"^get_(\w+_)?(include|lib|library|cmake)(_?(dirs?|paths?|folder))?$")
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 4  # of calls
_WRITERS = frozenset({"write_text", "write_bytes", "mkdir", "touch"})  # methods of a path
_MAX_ITEMS = 64  # of a loop
REFUSES = "the import fails"
"""The end of what is found about a module that raises an error."""
_IMPORTERS = frozenset({"importlib.import_module", "builtins.__import__"})
_FILES = frozenset({"builtins.open", "io.open", "os.makedirs", "os.mkdir", "logging.FileHandler"})


class OpenedFile(NamedTuple):
    """A file that code opens or writes, and the line that does."""

    member: str
    line: int
    path: str
    is_folder: bool = False


class CodeFiles:
    """What the code of the wheel's modules opens.

    Attributes:
        opened: by the modules that were read, when they are imported.
        written: by them.
        queries: of METADATA, by these modules.
        effects: of these modules on the process.
    """

    def __init__(self, case: AuditCase) -> None:
        self._code = case.code
        self._members = {member: module for module, member in case.code.modules.items()}
        self._scopes: dict[str, Values] = {}
        self._owners: dict[ast.AST, str] = {}
        self._depth = 0
        self._member = ""
        self._caller = ("", 0)
        self._called: set[ast.FunctionDef] = set()
        self.opened: list[OpenedFile] = []
        self.written: list[OpenedFile] = []
        self.queries: list[Query] = []
        self.effects: list[Effect] = []

    def scope(self, member: str) -> Values:
        """Run a module's level once; return its names."""
        if member not in self._scopes:
            module, path = self._members.get(member, ""), installed_path(member)
            file = str(SITE / path) if path else None
            is_package = path is not None and path.name == "__init__.py"
            package = module if is_package else module.rpartition(".")[0]
            names: dict[str, Value] = {"__file__": file, "__name__": module, "__package__": package}
            if is_package and path:
                names["__path__"] = (str(SITE / path.parent),)
            self._scopes[member] = Values(names, self._folder, self._attribute, self._call)
            before, self._member, self._depth = (self._member, self._depth), member, 0
            self._run(self._code.statements(member), self._scopes[member])
            self._member, self._depth = before
        return self._scopes[member]

    def makes_files(self, member: str) -> bool:
        """Return True if code of a module that an import runs may make a file, or looks for it."""
        source = self._code.sources[member]
        if not MAKES.search(source):
            return False
        lines, nodes = source.splitlines(), self._code.statements(member)
        later = {node for node in nodes if isinstance(node, _FUNCTION)} - self._called
        texts = [_lines_of(node, lines) for node in nodes if node not in later]
        for text in texts:  # and the functions that these name
            words = set(_WORD.findall(text))
            named = {node for node in later if node.name.encode() in words}
            texts += [_lines_of(node, lines) for node in named]
            later -= named
        return any(map(MAKES.search, texts))

    def compiled(self, member: str) -> Iterator[tuple[int, str]]:
        """Yield the lines and sources that functions of a module compile."""
        scope = self.scope(member)
        for function in self._functions(member):
            inner = scope.inner(dict.fromkeys(a.arg for a in function.args.args))
            nodes = list(ast.walk(function))
            for node in nodes:
                if isinstance(node, ast.Assign):
                    bind(node.targets[0], inner.of(node.value), inner)
            for call in (node for node in nodes if isinstance(node, ast.Call)):
                yield from ((call.lineno, path) for path in _sources(call, inner))

    def read_later(self, member: str) -> Iterator[tuple[str, int, str]]:
        """Yield functions that surely read files of known names, with lines and these names."""
        scope = self.scope(member)
        for function in self._functions(member):
            inner = scope.inner(dict.fromkeys(a.arg for a in function.args.args))
            queue = list(function.body)
            for node in queue:
                if isinstance(node, ast.Assign):
                    bind(node.targets[0], inner.of(node.value), inner)
                elif isinstance(node, (ast.Import, ast.ImportFrom)):
                    self._import(node, inner)
                elif isinstance(node, ast.With):
                    queue += node.body
                elif not isinstance(node, (ast.Expr, ast.Return)):
                    break  # what follows may not run
                value = getattr(node, "value", None)
                parts = [item.context_expr for item in getattr(node, "items", ())]
                parts += [value] if value else []
                for call, _ in (pair for part in parts for pair in _calls(part, inner)):
                    yield from ((function.name, call.lineno, p) for p in _paths_of(call, inner))
                is_folder = isinstance(node, ast.Return) and _GIVES.search(function.name)
                if is_folder and (path := inner.text(value)) and path.startswith(str(SITE)):
                    yield function.name, node.lineno, path

    def _functions(self, member: str) -> Iterator[ast.FunctionDef]:
        for node in self._code.statements(member):
            body = node.body if isinstance(node, ast.ClassDef) else [node]
            yield from (part for part in body if isinstance(part, ast.FunctionDef))

    def _folder(self, package: str) -> str | None:
        member = self._code.modules.get(package)
        path = installed_path(member) if member else None
        if path and path.name.startswith("__init__."):
            return str(SITE / path.parent)
        is_own = package in self._code.folders or (not member and self._code.lacks(package))
        return str(SITE.joinpath(*package.split("."))) if package and is_own else None

    def _attribute(self, module: str, name: str) -> Value:
        inner = f"{module}.{name}"
        member = self._code.modules.get(module, "")
        if member in self._code.sources:
            value = self.scope(member).names.get(name)
            if value is not None:
                return value
        return Module(inner) if inner in self._code.modules else None

    def _call(self, call: ast.Call, function: ast.FunctionDef, values: Values) -> Value:
        """Run a function of the wheel with its arguments; return its value."""
        names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        if self._depth >= _DEPTH or len(call.args) > len(names):
            return None
        given: dict[str, Value] = dict.fromkeys(names)
        defaults = function.args.defaults
        given |= zip(names[len(names) - len(defaults) :], map(values.of, defaults), strict=True)
        given |= zip(names, map(values.of, call.args))  # noqa: B905 - the rest has defaults
        given |= {word.arg: values.of(word.value) for word in call.keywords if word.arg in given}
        self._called.add(function)
        if not self._depth:
            self._caller = self._member, call.lineno
        owner, before = self._owners.get(function, self._member), self._member
        self._depth, self._member = self._depth + 1, owner
        try:
            return self._run(function.body, self._scopes[owner].inner(given))
        finally:
            self._depth, self._member = self._depth - 1, before

    def _run(self, body: Iterable[ast.stmt], values: Values) -> Value:
        """Run statements; return the value of the first `return` that surely runs."""
        for node in body:
            if isinstance(node, ast.Return):
                self._look(node.value, values)
                return values.of(node.value)
            if isinstance(node, ast.Raise):
                if self._depth == 0:
                    fact = f"raises {ast.unparse(node.exc)[:60] if node.exc else 'an error'}: "
                    effect = Effect(self._member, node.lineno, fact + REFUSES, "error")
                    self._add([effect])
                return None
            if not self._step(node, values) and any(isinstance(n, _LEAVES) for n in ast.walk(node)):
                return None
        return None

    def _step(self, node: ast.stmt, values: Values) -> bool:
        """Run one statement; return False for one that may not run as a whole."""
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)):
            self._look(node.value, values)
            self._assign(node, values)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, values)
        elif isinstance(node, ast.With):
            return self._with(node, values)
        elif isinstance(node, ast.Try) and not node.handlers:
            self._run(node.body, values)
        elif isinstance(node, ast.For):
            return self._loop(node, values)
        elif isinstance(node, _FUNCTION):
            for part in (*node.decorator_list, *node.args.defaults):
                self._look(part, values)
            values.names[node.name] = node if _is_plain(node) else None
            self._owners[node] = self._member
        elif isinstance(node, ast.ClassDef):
            self._run(node.body, values.inner({}))
        else:
            checks = list(effects_of_check(node, values, self._member))
            self._add(checks or self._possible(node, values))
            self._look(getattr(node, "test", None), values)
            _forget(node, values)
            return False
        return True

    def _with(self, node: ast.With, values: Values) -> bool:
        for item in node.items:
            self._look(item.context_expr, values)
            if item.optional_vars:
                bind(item.optional_vars, values.of(item.context_expr), values)
        if any(_suppresses(item.context_expr) for item in node.items):
            _forget(node, values)
            return False
        self._run(node.body, values)
        return True

    def _loop(self, node: ast.For, values: Values) -> bool:
        self._look(node.iter, values)
        items = values.of(node.iter)
        is_known = isinstance(items, tuple) and len(items) <= _MAX_ITEMS and not node.orelse
        if not is_known or any(isinstance(part, _LEAVES) for part in ast.walk(node)):
            _forget(node, values)
            return False
        for item in items:  # type: ignore[attr-defined]
            bind(node.target, item, values)
            self._run(node.body, values)
        return True

    def _assign(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr, values: Values
    ) -> None:
        if isinstance(node, ast.Assign):
            self._add(effects_of_assignment(node, values, self._member))
            for target in node.targets:
                bind(target, values.of(node.value), values)
        elif isinstance(node, ast.AnnAssign):
            bind(node.target, values.of(node.value), values)
        elif isinstance(node, ast.AugAssign):
            whole = ast.BinOp(left=_loaded(node.target), op=node.op, right=node.value)
            bind(node.target, values.of(whole), values)

    def _import(self, node: ast.Import | ast.ImportFrom, values: Values) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                is_own = self._is_own(name)
                values.names[alias.asname or name] = Module(name) if is_own else Foreign(name)
            return
        module = self._code.target(self._members.get(self._member, ""), node)
        for alias in node.names:
            value = self._attribute(module, alias.name)
            if value is None and not self._is_own(module):
                value = Foreign(f"{module}.{alias.name}")
            values.names[alias.asname or alias.name] = value

    def _is_own(self, module: str) -> bool:
        return module in self._code.modules or module in self._code.folders

    def _look(self, node: ast.expr | None, values: Values) -> None:
        """Note what an expression opens."""
        for call, scope in _calls(node, values) if node else ():
            function = scope.of(call.func)
            if isinstance(function, ast.FunctionDef):
                self._call(call, function, scope)
                if fact := _arity_fault(call, function):
                    self._add([Effect(self._member, call.lineno, fact, "error")])
            if isinstance(call.func, ast.Name) and call.func.id not in scope.names:
                function = Foreign(f"builtins.{call.func.id}")
            if isinstance(function, Foreign):
                self._add(effects_of_call(call, function.name, scope, self._member))
            is_query = isinstance(function, Foreign) and function.name in QUERIES
            if is_query and call.args and (name := scope.text(call.args[0])):
                self.queries.append(Query(self._member, call.lineno, name))
            is_import = isinstance(function, Foreign) and function.name in _IMPORTERS
            if is_import and (module := self._lacking(call, scope)):
                fact = f"imports {module}, which isn't in the wheel"
                self._add([Effect(self._member, call.lineno, fact, "error")])
            for path in _written_by(call, function, scope):
                is_folder = name_of(call.func) in {"mkdir", "makedirs"}
                self.written.append(OpenedFile(self._member, call.lineno, path, is_folder))
            for path in _paths_of(call, scope):
                self.opened.append(OpenedFile(self._member, call.lineno, path))

    def _possible(self, node: ast.stmt, values: Values) -> Iterator[Effect]:
        """Yield effects of a statement that may run, and of the functions that it calls."""
        scope = values.inner({})
        for part in ast.walk(node):
            if isinstance(part, ast.Import):
                self._import(part, scope)
        yield from possible_effects(node, scope, self._member)

    def _add(self, effects: Iterable[Effect]) -> None:
        """Note effects; those in a function at the line of the module that calls it."""
        for effect in effects:
            if self._depth and not effect.check:
                member, line = self._caller
                place = f"line {effect.line}" + (f" of {effect.member}" * (effect.member != member))
                fact = f"{effect.fact} ({place})"
                self.effects.append(effect._replace(member=member, line=line, fact=fact))
            else:
                self.effects.append(effect)

    def _lacking(self, call: ast.Call, values: Values) -> str:
        """Return the module that an import by a function lacks; empty: none that is known."""
        texts = values.texts(call.args)
        module, package = (*texts, None, None)[:2]
        if module and module.startswith("."):
            ups = len(module) - len(module.lstrip(".")) - 1
            parts = (package or "").split(".")
            base = ".".join(parts[: len(parts) - ups]) if package else ""
            module = f"{base}.{module.lstrip('.')}" if base else None
        is_known = module and not self._code.changes_search
        return self._code.lacks(module) if module and is_known else ""


def _arity_fault(call: ast.Call, function: ast.FunctionDef) -> str:
    """Return how the arguments of a call differ from what a function of the wheel takes."""
    args = function.args
    names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    words = {word.arg for word in call.keywords}
    if None in words or any(isinstance(arg, ast.Starred) for arg in call.args):
        return ""
    needed = set(names[len(call.args) : len(names) - len(args.defaults)]) - words
    if len(call.args) > len(names):
        return f"calls {function.name} with {len(call.args)} arguments, it takes {len(names)}"
    if unknown := words - set(names):
        return f"calls {function.name} with {min(map(str, unknown))}=, which it doesn't take"
    if needed:
        return f"calls {function.name} without {min(needed)}: the import fails"
    return ""


def _written_by(call: ast.Call, function: Value, values: Values) -> Iterator[str]:
    """Yield what a call writes, as far as that is known."""
    name = name_of(call.func)
    owner = values.text(call.func.value) if isinstance(call.func, ast.Attribute) else None
    words = {word.arg: word.value for word in call.keywords}
    path = None
    if owner and owner.startswith("/"):
        is_written = name in _WRITERS or (name == "open" and not _is_reading(call, 0))
        path = owner if is_written else None
    elif isinstance(function, Foreign) and function.name in _FILES and call.args:
        is_file = function.name in {"builtins.open", "io.open"}
        modes = [*call.args[1:2], *(words[key] for key in ("mode",) if key in words)]
        is_known = bool(modes) and all(isinstance(mode, ast.Constant) for mode in modes)
        is_written = not is_file or (is_known and not _is_reading(call, 1))
        path = values.text(call.args[0]) if is_written else None
    elif isinstance(function, Foreign) and function.name == "logging.basicConfig":
        path = values.text(words.get("filename"))
    if path:
        yield path


def _lines_of(node: ast.stmt, lines: list[bytes]) -> bytes:
    return b"\n".join(lines[node.lineno - 1 : node.end_lineno])


def _suppresses(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and name_of(node.func) in _SUPPRESSES


def _is_plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for a function that a call runs as it is written."""
    is_generator = any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(node))
    has_more = node.args.vararg or node.args.kwarg or node.args.kwonlyargs
    cached = all("cache" in ast.unparse(each) for each in node.decorator_list)
    return isinstance(node, ast.FunctionDef) and cached and not is_generator and not has_more


def _loaded(target: ast.expr) -> ast.expr:
    return ast.Name(id=target.id, ctx=ast.Load()) if isinstance(target, ast.Name) else target


def _forget(node: ast.stmt, values: Values) -> None:
    """Take away the names that a statement may bind."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            values.names[part.id] = None
        elif isinstance(part, (*_FUNCTION, ast.ClassDef)):
            values.names[part.name] = None
        elif isinstance(part, ast.alias):
            values.names[part.asname or part.name] = None


def _calls(node: ast.AST, values: Values) -> Iterator[tuple[ast.Call, Values]]:
    """Yield the calls of an expression that always run, with their scopes."""
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        yield from _calls(node.generators[0].iter, values)
        is_dict = isinstance(node, ast.DictComp)
        parts = [node.key, node.value] if is_dict else [node.elt]  # type: ignore[union-attr]
        for scope in runs_of(node, values):
            for part in parts:
                yield from _calls(part, scope)
        return
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.IfExp):
        children = iter([node.test])
    elif isinstance(node, ast.BoolOp):
        children = iter(node.values[:1])
    for child in children:
        yield from _calls(child, values)
    if isinstance(node, ast.Call):
        yield node, values


def _paths_of(call: ast.Call, values: Values) -> Iterator[str]:
    """Yield what a call opens, as far as that is known."""
    name = name_of(call.func)
    owner = values.text(call.func.value) if isinstance(call.func, ast.Attribute) else None
    path = None
    if name in _READERS and owner and owner.startswith("/") and _is_reading(call, 0):
        path = owner
    elif name in _LISTS and len(call.args) == 1:
        path = values.folder(call.args[0])
    elif name in _DATA and len(call.args) > 1:
        path = joined([values.folder(call.args[0]), values.text(call.args[1])])
    elif name in LOADERS and call.args:
        path = _loaded_by(call, values)
    elif name in _FUNCTIONS and call.args and (name != "open" or _is_reading(call, 1)):
        is_path = name in {"SourceFileLoader", "ExtensionFileLoader"}
        path = values.text(call.args[-1 if is_path else 0])
        is_relative = name == "open" and isinstance(call.func, ast.Name)
        path = path if path and (path.startswith("/") or is_relative) else None
    if path:
        yield path
    yield from _sources(call, values)


def _loaded_by(call: ast.Call, values: Values) -> str | None:
    """Return the library that a call loads; None: it isn't known, or the wheel's function does."""
    function = values.of(call.func)
    texts = values.texts(call.args)
    if isinstance(function, Foreign) and function.name.startswith("numpy."):  # of ctypeslib
        name, folder = (*texts, None, None)[:2]
        file = name if not name or ".so" in name else f"{name}.so"
        folder = str(PurePosixPath(folder or "").parent) if str(folder).endswith(".py") else folder
        return joined([folder, file])
    if isinstance(function, Foreign):
        is_loader = function.name.partition(".")[0] in _OF_LOADERS
    else:
        is_loader = function is None and not isinstance(call.func, ast.Name)
    return texts[0] if is_loader else None


def _is_reading(call: ast.Call, position: int) -> bool:
    """Return True unless a call may write."""
    modes = [*call.args[position : position + 1]]
    modes += [word.value for word in call.keywords if word.arg == "mode"]
    is_text = name_of(call.func) in {"read_text", "read_bytes", "iterdir"}
    texts = [mode.value if isinstance(mode, ast.Constant) else "w" for mode in modes]
    return is_text or not any(set(str(text)) & set("wax+") for text in texts)


def _sources(call: ast.Call, values: Values) -> Iterator[str]:
    """Yield the sources that PyTorch's `load` compiles."""
    if name_of(call.func) != "load":
        return
    second = call.args[1:2]
    for node in (*second, *(word.value for word in call.keywords if word.arg == "sources")):
        value = values.of(node)
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, str) and path.startswith("/"):
                yield path
