"""The order in which imports run modules: circular imports, names that aren't there yet or never.

Modules are run in the order of their statements. What may run, in `try`, `if` and loops, counts as
having bound its names; modules that it imports may be loaded before, so nothing is said of them.
"""

from __future__ import annotations

import ast
import builtins
import operator
import re
import symtable
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.audit.python_code import (
    PythonCode,
    full_name,
    imported_names,
    names_of,
    own_level,
    parents_of,
)

# Of the module `site`; of Windows; of gettext; of Python 2, which code tests for.
_KNOWN = {*dir(builtins), "exit", "quit", "copyright", "credits", "license", "WindowsError", "_"}
_KNOWN |= {"unicode", "xrange", "basestring", "long", "raw_input", "reveal_type", "__class__"}
_KNOWN |= {"aiter", "anext", "BaseExceptionGroup", "ExceptionGroup", "EncodingWarning"}
_KNOWN |= {"PythonFinalizationError"}
KNOWN_NAMES = frozenset(_KNOWN)
"""Names that a module needn't define."""
_ENVIRON = frozenset({"environ", "os.environ"})
_ALWAYS_SET = frozenset({"HOME", "PATH", "PWD", "USER"})  # as good as
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PARTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.With, *_SCOPES)


class ImportFault(NamedTuple):
    """Why an import fails.

    Attributes:
        is_order: it depends on the order of imports.
    """

    member: str
    fact: str
    is_order: bool


class ImportOrder:
    """The modules of a wheel, run as imports do.

    Attributes:
        faults: in the order of their statements.
    """

    def __init__(self, code: PythonCode) -> None:
        self._code = code
        self._bound: dict[str, set[str]] = {}  # of started modules, so far
        self._done: set[str] = set()
        self._unsure: set[str] = set()
        self._modules: dict[str, dict[str, str]] = {}  # names of modules in each module
        self.faults: list[ImportFault] = []

    def load(self, module: str) -> None:
        """Run a module, and its packages before."""
        for name in (*reversed(parents_of(module)), module):
            if name in self._bound or name not in self._code.modules:
                continue
            self._bound[name] = set()
            self._modules[name] = {}
            for node in self._code.statements(self._code.modules[name]):
                if isinstance(node, ast.Raise):
                    break
                self._step(node, name)
            self._done.add(name)
            self._bind_in_package(name)

    def _bind_in_package(self, module: str) -> None:
        """Bind an imported module's name in its package, as an import does."""
        package, _, name = module.rpartition(".")
        self._bound.get(package, set()).add(name)

    def _step(self, node: ast.stmt, module: str) -> None:
        if isinstance(node, ast.Import):
            self._import(node, module)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(node, module)
        elif isinstance(node, _PARTS):
            self._check_names(node, module)
        elif not _is_for_types(node):
            self._doubt(node, module)
        if not _is_for_types(node):
            for part in own_level(node):
                self._bound[module].update(names_of(part))
                if isinstance(part, ast.ImportFrom) and part.names[0].name == "*":
                    target = self._code.target(module, part)
                    self._bound[module] |= self._code.bound(target) or set()

    def _import(self, node: ast.Import, module: str) -> None:
        for alias in node.names:
            self.load(alias.name)
            first = alias.name.partition(".")[0]
            target = alias.name if alias.asname else first
            if target in self._code.modules:
                self._modules[module][alias.asname or first] = target

    def _import_from(self, node: ast.ImportFrom, module: str) -> None:
        target = self._code.target(module, node)
        if target not in self._code.modules:
            return
        self.load(target)
        for alias in node.names:
            inner = f"{target}.{alias.name}"
            if alias.name == "*":
                self._take_all(node, target, module)
            elif alias.name not in self._bound[target] and inner in self._code.modules:
                self.load(inner)
            elif self._is_late(target, alias.name, module):
                fact = f"line {node.lineno} imports {alias.name} of {target}, which defines it "
                fact += "later: a circular import"
                self.faults.append(ImportFault(self._code.modules[module], fact, True))
            if inner in self._bound:  # else the name is of something other than the submodule
                self._modules[module][alias.asname or alias.name] = inner

    def _take_all(self, node: ast.ImportFrom, target: str, module: str) -> None:
        missing = [n for n in self._code.exported(target) if not self._code.has_name(target, n)]
        if missing and target in self._done:
            fact = (
                f"line {node.lineno} imports all of {target}, whose __all__ has {missing[0]}: it "
            )
            self.faults.append(
                ImportFault(self._code.modules[module], f"{fact}isn't defined", False)
            )

    def _is_late(self, target: str, name: str, module: str) -> bool:
        """Return True if a module that has only begun to run binds a name later."""
        names = self._code.bound(target)
        return (
            target not in self._done
            and names is not None
            and name in names
            and name not in self._bound[target]
            and self._unsure.isdisjoint({target, module})
        )

    def _doubt(self, node: ast.stmt, module: str) -> None:
        """Note the modules that a statement may load, and all that these may load."""
        queue = list(self._imported_by(node, module))
        for name in queue:
            if name not in self._unsure:
                self._unsure.add(name)
                self._bind_in_package(name)
                statements = self._code.statements(self._code.modules[name])
                queue += [other for part in statements for other in self._imported_by(part, name)]

    def _imported_by(self, node: ast.stmt, module: str) -> Iterator[str]:
        for part in ast.walk(node) if not isinstance(node, _SCOPES) else ():
            names: list[str] = []
            if isinstance(part, ast.Import):
                names = [alias.name for alias in part.names]
            elif isinstance(part, ast.ImportFrom):
                target = self._code.target(module, part)
                names = [target, *(f"{target}.{alias.name}" for alias in part.names)]
            yield from (name for name in names if name in self._code.modules)

    def _check_names(self, node: ast.stmt, module: str) -> None:
        """Note a name that isn't defined when a statement runs."""
        names = self._code.bound(module)
        if names is None:
            return
        names_in = (part for part in ast.walk(node) if isinstance(part, ast.Name))
        own = {part.id for part in names_in if not isinstance(part.ctx, ast.Load)}
        own |= {part.name for part in ast.walk(node) if isinstance(part, _SCOPES) and part != node}
        annotated = self._code.annotations(self._code.modules[module], node)
        for part in (*evaluated_by(node), *chain.from_iterable(map(_sure_parts, annotated))):
            if isinstance(part, ast.Name) and part.id not in own:
                is_bound = part.id in self._bound[module] or part.id in self._code.injected(module)
                if not is_bound and part.id not in _KNOWN and not _is_implicit(part.id):
                    when = "only later" if part.id in names else "never"
                    fact = f"line {part.lineno} uses {part.id}, which is {when} defined"
                    self.faults.append(ImportFault(self._code.modules[module], fact, False))
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                self._check_attribute(part, part.value.id, module)
            elif isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load):
                self._check_variable(part, module)

    def _check_variable(self, node: ast.Subscript, module: str) -> None:
        """Note an environment variable that may not be set, unless code names it elsewhere too."""
        name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if (
            not isinstance(name, str)
            or name in _ALWAYS_SET
            or full_name(node.value, self._imported(module)) not in _ENVIRON
        ):
            return
        quoted = re.compile(rb"[\"']%b[\"']" % re.escape(name.encode()))
        if sum(len(quoted.findall(text)) for text in self._code.sources.values()) == 1:
            fact = f"line {node.lineno} fails where the environment variable {name} isn't set"
            self.faults.append(ImportFault(self._code.modules[module], fact, False))

    def _imported(self, module: str) -> dict[str, str]:
        return imported_names(self._code.statements(self._code.modules[module]))

    def _check_attribute(self, node: ast.Attribute, name: str, module: str) -> None:
        target = self._modules[module].get(name, "")
        if not target or not isinstance(node.ctx, ast.Load):
            return
        is_missing = target in self._done and not self._code.has_name(target, node.attr)
        is_own = f"{target}.{node.attr}" in self._code.modules
        if not is_own and (is_missing or self._is_late(target, node.attr, module)):
            why = "doesn't have" if is_missing else "defines later: a circular import"
            fact = f"line {node.lineno} uses {node.attr} of {target}, which it {why}"
            self.faults.append(ImportFault(self._code.modules[module], fact, True))


def _is_for_types(node: ast.stmt) -> bool:
    """Return True for `if TYPE_CHECKING:`, which never runs."""
    test = node.test if isinstance(node, ast.If) and not node.orelse else None
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _is_implicit(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def evaluated_by(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions, and their parts, that a statement surely evaluates."""
    starts: list[ast.AST | None] = []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        starts = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]
    elif isinstance(node, ast.ClassDef):
        starts = [*node.decorator_list, *node.bases] if not getattr(node, "type_params", ()) else []
    elif isinstance(node, ast.With):
        starts = [item.context_expr for item in node.items]
    else:
        starts = [getattr(node, "value", None)]
    for part in filter(None, starts):
        yield from _sure_parts(part)


def _sure_parts(node: ast.AST) -> Iterator[ast.AST]:
    queue: list[ast.AST] = [node]
    for part in queue:
        yield part
        if isinstance(part, ast.Lambda):
            continue
        if isinstance(part, ast.IfExp):
            queue.append(part.test)
        elif isinstance(part, ast.BoolOp):
            queue.append(part.values[0])
        elif isinstance(part, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            queue.append(part.generators[0].iter)
        else:
            queue += ast.iter_child_nodes(part)


# Statements that fail whenever a module is imported, as their constants alone show.
_MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_BUILDERS = frozenset({"list", "dict", "set"})
_PATTERNS = frozenset({"compile", "match", "search", "sub", "findall", "fullmatch", "split"})
_OPERATORS: dict[type, Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}
_DEBUGGER = re.compile(rb"^[ \t]+(breakpoint|i?pdb\.set_trace)\(\)[ \t]*$", re.MULTILINE)
_NUMBERS: dict[str, Callable[[str], object]] = {"int": int, "float": float}


def constant_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the first statement of each module that an import runs, and that always fails."""
    for member in case.code.run:
        if fault := _fault(case.code.statements(member)):
            yield finding(member, "Python code", f"line {fault[0]}: {fault[1]}")
    members = {member: module for module, member in case.code.modules.items()}
    for member in case.code.run:
        if fact := _undefined(case.code, members[member], case.code.sources[member]):
            yield finding(member, "Python code", fact, "note")  # others may put it there
    for member in (*case.code.run, *case.code.rest):
        if match := _DEBUGGER.search(case.code.sources[member]):
            line = case.code.sources[member].count(b"\n", 0, match.start()) + 1
            fact = f"line {line} stops for a debugger"
            yield finding(member, "Python code", fact, "note")


def _undefined(code: PythonCode, module: str, source: bytes) -> str:
    """Return the first name that a function uses, and that nothing defines; empty: none."""
    bound = code.bound(module)
    if bound is None or code.is_dynamic or b"__builtins__" in source or b"builtins." in source:
        return ""
    try:
        scopes = [symtable.symtable(source.decode(), module, "exec")]
    except (SyntaxError, ValueError, RecursionError):
        return ""
    known = bound | KNOWN_NAMES
    for scope in scopes:
        scopes += scope.get_children()
        for symbol in scope.get_symbols() if scope.get_type() == "function" else ():
            name = symbol.get_name()
            is_used = symbol.is_global() and symbol.is_referenced() and not symbol.is_assigned()
            if is_used and name not in known and not name.startswith("__"):
                return f"{scope.get_name()} uses {name}, which nothing defines: calling it fails"
    return ""


def _fault(statements: Sequence[ast.stmt]) -> tuple[int, str] | None:
    names = imported_names(statements)
    for node in statements:
        if isinstance(node, ast.Raise):
            return None
        if isinstance(node, ast.ClassDef) and (fact := _class_fault(node, names)):
            return node.lineno, fact
        if isinstance(node, ast.Assign) and (fact := _unpacking_fault(node)):
            return node.lineno, fact
        for part in evaluated_by(node):
            if isinstance(part, (ast.Call, ast.BinOp)) and (fact := _part_fault(part, names)):
                return part.lineno, fact
    return None


def _unpacking_fault(node: ast.Assign) -> str:
    """Return why a tuple doesn't fit the names that take its parts; empty: it does."""
    target, value = node.targets[0], node.value
    if not (isinstance(target, ast.Tuple) and isinstance(value, (ast.Tuple, ast.List))):
        return ""
    has_star = any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    have, need = len(value.elts), len(target.elts)
    return "" if has_star or have == need else f"ValueError: {have} values for {need} names"


def _part_fault(node: ast.Call | ast.BinOp, names: Mapping[str, str]) -> str:
    """Return the error of an expression of constants; empty: there is none."""
    if isinstance(node, ast.BinOp):
        function = _OPERATORS.get(type(node.op))
        values = [part.value for part in (node.left, node.right) if isinstance(part, ast.Constant)]
        return _error(function, *values) if function and len(values) == 2 else ""  # noqa: PLR2004
    first = node.args[0] if node.args else None
    text = first.value if isinstance(first, ast.Constant) else None
    if not isinstance(text, str):
        return ""
    if isinstance(node.func, ast.Name) and node.func.id in _NUMBERS and len(node.args) == 1:
        return _error(_NUMBERS[node.func.id], text)
    is_pattern = isinstance(node.func, ast.Attribute) and node.func.attr in _PATTERNS
    is_re = is_pattern and names.get(getattr(node.func.value, "id", "")) == "re"  # type: ignore[attr-defined]
    is_plain = len(node.args) == 1 and not node.keywords  # flags may change what is valid
    return _error(re.compile, text) if is_re and is_plain else ""


def _error(function: Callable[..., object], *values: object) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*values)
        except (ArithmeticError, TypeError, ValueError, re.error, RecursionError) as problem:
            return f"{type(problem).__name__}: {problem}"
    return ""


def _class_fault(node: ast.ClassDef, names: Mapping[str, str]) -> str:
    """Return why a class can't be made: a field of a dataclass, a slot, its bases."""
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    fields = [part for part in fields if "ClassVar" not in ast.unparse(part.annotation)]
    decorators = (full_name(each, names).partition("(")[0] for each in node.decorator_list)
    if any(name.endswith("dataclass") for name in decorators):
        if bad := [part for part in fields if _is_mutable(part.value)]:
            return f"ValueError: {ast.unparse(bad[0])} is a mutable default of a dataclass"
        is_by_name = any("kw_only" in ast.unparse(each) for each in node.decorator_list)
        if not is_by_name and (late := _late_field(fields)):
            return f"TypeError: the field {late} without a default follows one with a default"
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    if len(bases) != len(set(bases)):
        return f"TypeError: {node.name} has a base twice"
    slots = {text for part in node.body for text in _slots_of(part)}
    bound = {
        t.id
        for p in node.body
        if isinstance(p, ast.Assign)
        for t in p.targets
        if isinstance(t, ast.Name)
    }
    if both := sorted(slots & bound):
        return f"ValueError: {both[0]} in __slots__ conflicts with a class variable"
    return ""


def _is_mutable(node: ast.expr | None) -> bool:
    is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") in _BUILDERS
    return isinstance(node, _MUTABLE) or is_call


def _late_field(fields: Sequence[ast.AnnAssign]) -> str:
    """Return a field without a default after one with one; empty: there is none."""
    has_default = False
    for field in fields:
        text = ast.unparse(field)
        if "ClassVar" in text or "KW_ONLY" in text or "field(" in text or "init=" in text:
            if "KW_ONLY" in text or "field(" in text:
                return ""
            continue
        if field.value is None and has_default and isinstance(field.target, ast.Name):
            return field.target.id
        has_default |= field.value is not None
    return ""


def _slots_of(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__slots__":
        elements = (
            node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else [node.value]
        )
        yield from (
            e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)
        )
