"""Rules for statements that fail whenever a module is imported, as their constants alone show.

Python's documentation: `re` (flags at the start, since 3.11), `dataclasses` (defaults, order of
fields), "The standard type hierarchy" (operands).
"""

from __future__ import annotations

import ast
import operator
import re
import symtable
import warnings
from collections.abc import Callable, Iterator, Sequence

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.audit.python_code import PythonCode
from cuwheel.check.audit.rules.python_imports import KNOWN_NAMES, evaluated_by

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
    names = {
        alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names
    }
    for node in statements:
        if isinstance(node, ast.Raise):
            return None
        if isinstance(node, ast.ClassDef) and (fact := _class_fault(node)):
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


def _part_fault(node: ast.Call | ast.BinOp, modules: set[str]) -> str:
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
    is_re = is_pattern and getattr(node.func.value, "id", "") == "re" and "re" in modules  # type: ignore[attr-defined]
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


def _class_fault(node: ast.ClassDef) -> str:
    """Return why a class can't be made: a field of a dataclass, a slot, its bases."""
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    fields = [part for part in fields if "ClassVar" not in ast.unparse(part.annotation)]
    if any(
        ast.unparse(each).partition("(")[0].endswith("dataclass") for each in node.decorator_list
    ):
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
