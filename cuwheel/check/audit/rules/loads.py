"""Rules for what Python code loads: libraries by their names, and extensions before PyTorch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.audit.python_code import Import
from cuwheel.check.audit.rules.python.releases import STANDARD_MODULES
from cuwheel.check.audit.rules.python.values import LOADERS, name_of
from cuwheel.check.audit.supply import OWN_CODE, Chain
from cuwheel.check.cuda.components import KNOWN_COMPONENTS
from cuwheel.check.cuda.frameworks import preloads
from cuwheel.check.cuda.suppliers import components_of, is_cuda_library, is_from_driver

_FINDER = "find_library"  # of ctypes.util: `helper` for libhelper.so
_BY_CHOICE = (ast.Try, ast.If, ast.IfExp, ast.BoolOp)  # one way of several
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_HARMLESS = frozenset({"numpy", "packaging", "typing_extensions", "yaml"})  # import no framework
# What may import a framework, or load its libraries.
_MAY_IMPORT = r"(import|from)[ \t]+({0})\b|"
_MAY_LOAD = r"import_module|__import__|exec\(|CDLL|load_library|dlopen|pathfinder"


class _Load(NamedTuple):
    """A call with the constant name of a library.

    Attributes:
        is_later: in a function.
    """

    line: int
    name: str
    is_later: bool


def load_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield what Python code loads, and the loader doesn't find."""
    yield from _bare_findings(chain.case)
    yield from _order_findings(chain)


def _bare_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield libraries of the wheel, or of NVIDIA's wheels, that are loaded by their bare names.

    The loader knows neither folder, and a relative path is of the program's current one.
    """
    loads = {name: list(_loads(case.code.statements(name), ())) for name in case.scan.loaders}
    named = [load.name for found in loads.values() for load in found]
    for member, found in loads.items():
        for load in found:
            file = PurePosixPath(load.name).name
            if _mentions(file, case) > named.count(load.name) or _is_loaded_before(file, case):
                continue  # other code has its path, or an extension needs it
            is_run = member in case.code.run and not load.is_later
            fact = f"line {load.line} loads {load.name}"
            if file in case.own:
                fact += " without its folder: the loader doesn't search the wheel's"
                severity = "error" if is_run else "warning"
                yield finding(member, "Python code", fact, severity)  # type: ignore[arg-type]
            elif _is_of_nvidia(load.name, case):
                part = components_of(file)[0]
                installed = {dependency.distribution for dependency in case.dependencies}
                fact += f" without its folder, {part.site_folder}"
                is_there = part.distribution in installed
                if not is_there:
                    fact = f"line {load.line} loads {load.name} of {part.distribution}, which no "
                    fact += f"requirement installs, and without its folder, {part.site_folder}"
                # A function may be for users of a toolkit, unless the wheel gets CUDA from PyPI.
                is_expected = any(each.distribution in installed for each in KNOWN_COMPONENTS)
                if is_run or (is_expected and not is_there):
                    yield finding(member, "Python code", fact, "warning")


def _mentions(file: str, case: AuditCase) -> int:
    word = re.compile(rb"\b%b(?![\w.])" % re.escape(file.encode()))
    stem = file.partition(".so")[0].removeprefix("lib").encode()
    found = re.compile(rb"find_library\(\s*[\"']%b[\"']" % re.escape(stem))
    sources = case.scan.sources.values()
    return sum(len(pattern.findall(text)) for text in sources for pattern in (word, found))


def _is_loaded_before(file: str, case: AuditCase) -> bool:
    return any(
        file in elf.needed and case.is_imported(library.name)
        for library, elf in case.host_libraries
    )


def _is_of_nvidia(name: str, case: AuditCase) -> bool:
    """Return True for a library in a folder of NVIDIA's wheels that nothing has loaded before."""
    is_known = "/" not in name and is_cuda_library(name) and bool(components_of(name))
    loaders = {*(dep.by for dep in case.dependencies), *case.required}
    is_loaded = any(preloads(by, name) for by in loaders) or "cuda-pathfinder" in loaders
    return is_known and not is_from_driver(name) and not is_loaded and not case.unknown_projects


def _loads(body: Sequence[ast.AST], outer: tuple[ast.AST, ...]) -> Iterator[_Load]:
    """Yield the calls that have no other way beside them."""
    for node in body:
        if isinstance(node, _BY_CHOICE):
            continue
        if isinstance(node, ast.Call) and (name := _library_of(node)):
            yield _Load(node.lineno, name, any(isinstance(each, _LATER) for each in outer))
        yield from _loads(list(ast.iter_child_nodes(node)), (*outer, node))


def _library_of(call: ast.Call) -> str:
    """Return the constant name that a call loads, if it is no absolute path; or empty."""
    function = name_of(call.func)
    first = call.args[0] if call.args else None
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return ""
    if function == _FINDER:
        return f"lib{first.value}.so"
    is_library = function in LOADERS and ".so" in first.value
    return first.value if is_library and not first.value.startswith("/") else ""


def _order_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield extension modules that are imported before what loads the libraries they need."""
    frameworks, loaded = dict[str, str](), dict[str, str]()
    for supply in chain.supplies:
        if supply.loader and preloads(supply.loader):
            frameworks[supply.library] = supply.loader
        elif supply.loader == OWN_CODE and supply.supplier != "wheel":
            loaded[supply.library] = supply.soname
    yield from _early_findings(chain.case, loaded)
    if not frameworks:
        return
    graph, done = chain.case.loader_graph, set()
    for root in chain.case.code.roots:
        for item, member in _Run(chain.case, set(frameworks.values())).modules(root):
            needing = [name for name in graph.loaded_by(member) if name in frameworks]
            if needing and member not in done:
                done.add(member)
                fact = f"line {item.line} of {item.importer} imports it before "
                fact += f"{frameworks[needing[0]]}, whose libraries it doesn't find by itself"
                yield finding(member, "needed library", fact)


def _early_findings(case: AuditCase, loaded: Mapping[str, str]) -> Iterator[AuditFinding]:
    """Yield extension modules that are imported before code loads a library that they need.

    Args:
        loaded: the library, by the name of the wheel's that needs it.
    """
    for root in case.code.roots if loaded else ():
        for item, member in _Run(case, set()).modules(root):
            needing = [name for name in case.loader_graph.loaded_by(member) if name in loaded]
            if needing:
                fact = f"line {item.line} of {item.importer} imports it before code loads "
                fact += f"{loaded[needing[0]]}, which it doesn't find by itself"
                yield finding(member, "needed library", fact)
                return


class _Run:
    """The import of a package, up to the first statement that may import a framework."""

    def __init__(self, case: AuditCase, frameworks: set[str]) -> None:
        self._code, self._sources = case.code, case.scan.sources
        words = "|".join(map(re.escape, sorted(frameworks)))
        imports = _MAY_IMPORT.format(words) if words else ""
        self._may_import = re.compile((imports + _MAY_LOAD).encode())
        self._done: set[str] = set()
        self._has_ended = False
        self._imports: dict[str, list[Import]] = {}
        for item in self._code.imports:
            self._imports.setdefault(item.importer, []).append(item)

    def modules(self, module: str) -> Iterator[tuple[Import, str]]:
        """Yield each extension module that importing a module imports, and by what."""
        member = self._code.modules.get(module, "")
        if member in self._done or member not in self._sources:
            return
        self._done.add(member)
        lines = self._sources[member].split(b"\n")
        for item in self._imports.get(member, ()):
            if self._may_import.search(b"\n".join(lines[: item.line - 1])):
                self._has_ended = True
            if not self._has_ended:
                yield from self._imported(item)
            if self._has_ended:
                return
        self._has_ended = self._may_import.search(self._sources[member]) is not None

    def _imported(self, item: Import) -> Iterator[tuple[Import, str]]:
        parts = item.module.split(".")
        if parts[0] not in self._code.folders and parts[0] not in self._code.modules:
            self._has_ended = parts[0] not in (STANDARD_MODULES | _HARMLESS)
            return
        names = [".".join(parts[: number + 1]) for number in range(len(parts))]
        for name in (*names, *(f"{item.module}.{each}" for each in item.names)):
            if self._has_ended:
                return
            if (member := self._code.modules.get(name, "")).endswith(".so"):
                yield item, member
            else:
                yield from self.modules(name)
