"""Rules for files that an import always opens, under names known from the code, or compiles."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import is_brought
from cuwheel.check.audit.python_code import full_name, imported_names
from cuwheel.check.audit.rules.python.jit_sources import jit_findings
from cuwheel.check.audit.rules.python.machine import (
    BUILDERS,
    effect_findings,
)
from cuwheel.check.audit.rules.python.opened_files import MAKES, CodeFiles, OpenedFile
from cuwheel.check.audit.rules.python.projects import query_findings
from cuwheel.check.audit.rules.python.values import (
    SITE,
    name_of,
)
from cuwheel.check.cuda.suppliers import components_of, is_cuda_library, is_from_driver

_RULE = "Python code"
_COMPILES = re.compile(rb"\bcpp_extension\b")
_HERE = re.compile(rb"__file__|\bfiles\(|get_data|resource")
# Folders of CUDA's toolkit, which users of a wheel needn't have.
_TOOLKITS = re.compile(r"/(usr/local/cuda|opt/(cuda|nvidia|conda))")
_OF_DRIVER = re.compile(r"/(proc/driver/nvidia|dev/nvidia|sys/module/nvidia)")
_JIT = frozenset(f"torch.utils.cpp_extension.{name}" for name in ("load", "load_inline"))
_CTYPES = re.compile(rb"\b(CDLL|PyDLL|LoadLibrary)\(")
_ASKS = re.compile(rb"hasattr|getattr|AttributeError")
_OF_C = frozenset({"calloc", "fflush", "free", "malloc", "memcpy", "memset", "printf", "strlen"})
_SHARED = re.compile(r"/(tmp|var/tmp|dev/shm)/")  # folders of all users


def file_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files of the wheel's own package that are opened, and that it doesn't have."""
    files = CodeFiles(case)
    for member in case.code.run:
        files.scope(member)
    run = {name for name in case.code.run if not files.makes_files(name)}
    missing: list[PurePosixPath] = []
    for opened in dict.fromkeys(files.opened):
        path = PurePosixPath(os.path.normpath(opened.path))
        if opened.member in run and not any(folder in path.parents for folder in missing):
            for fault in _judged(opened, case):
                missing.append(path)
                yield fault
    yield from _written_findings(files, case)
    yield from query_findings(dict.fromkeys(files.queries), case)
    yield from effect_findings(files.effects, case)
    yield from _compiled_findings(files, case)
    yield from _later_findings(files, case)
    yield from _ninja_findings(case)
    yield from _symbol_findings(files, case)
    yield from jit_findings(case)


def _judged(opened: OpenedFile, case: AuditCase) -> Iterator[AuditFinding]:
    path = PurePosixPath(os.path.normpath(opened.path))
    is_own = path.is_relative_to(SITE)
    fact = f"line {opened.line} opens {path.relative_to(SITE) if is_own else path}, which "
    if is_own and _is_missing(path.relative_to(SITE), case):
        yield finding(opened.member, _RULE, f"{fact}isn't in the wheel")
    elif is_own and (folder := _folder_of(path.relative_to(SITE), case)):
        fact += f"no release of NVIDIA's wheels has: {path.name} is in {folder}"
        yield finding(opened.member, _RULE, fact)
    elif not path.is_absolute() and ".so" not in path.name:
        fact += "is looked for in the current folder of the program"
        yield finding(opened.member, _RULE, fact)
    elif not is_own and BUILDERS.match(str(path)):
        yield finding(opened.member, _RULE, f"{fact}only the machine that built the wheel has")
    elif not is_own and _TOOLKITS.match(str(path)):
        yield finding(opened.member, _RULE, f"{fact}not every machine has", "warning")
    elif not is_own and _OF_DRIVER.match(str(path)):
        yield finding(opened.member, _RULE, f"{fact}only a machine with a driver has", "warning")
    elif _is_unversioned(opened.path):
        yield finding(opened.member, _RULE, f"{fact}no wheel of NVIDIA's has", "warning")


def _written_findings(files: CodeFiles, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files that an import always writes into site-packages or the current folder."""
    done: set[str] = set()
    for written in dict.fromkeys(files.written):
        path = PurePosixPath(os.path.normpath(written.path))
        is_own = path.is_relative_to(SITE)
        is_there = is_own and not _is_missing(path.relative_to(SITE), case) and written.is_folder
        is_run = written.member in case.code.run and written.member not in done
        if is_run and _SHARED.match(str(path)):
            done.add(written.member)
            fact = f"line {written.line} writes {path}: where another user made it the import fails"
            yield finding(written.member, _RULE, fact, "warning")
        elif is_run and not is_there and (is_own or not path.is_absolute()):
            done.add(written.member)
            where = "site-packages" if is_own else "the current folder"
            fact = (
                f"line {written.line} writes {path.relative_to(SITE) if is_own else path}: where "
            )
            fact += f"{where} is read-only the import fails"
            yield finding(written.member, _RULE, fact, "warning")


def _later_findings(files: CodeFiles, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files of the package that functions always read, and that aren't in it."""
    for member in (*case.code.run, *case.code.rest):
        source = case.code.sources[member]
        if not _HERE.search(source) or MAKES.search(source) or b"write" in source:
            continue
        for name, line, path in files.read_later(member):
            own = PurePosixPath(os.path.normpath(path))
            if own.is_relative_to(SITE) and _is_missing(own.relative_to(SITE), case):
                fact = f"line {line}: calling {name} needs {own.relative_to(SITE)}, which isn't in "
                yield finding(member, _RULE, f"{fact}the wheel", "warning")
                break


def _compiled_findings(files: CodeFiles, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield sources that functions compile when they are called, and that aren't there."""
    for member, source in case.scan.sources.items():
        if not _COMPILES.search(source) or MAKES.search(source):
            continue
        for line, path in files.compiled(member):
            own = PurePosixPath(os.path.normpath(path))
            if own.is_relative_to(SITE) and _is_missing(own.relative_to(SITE), case):
                fact = f"line {line} compiles {own.relative_to(SITE)}, which isn't in the wheel"
                if (
                    OpenedFile(member, line, path) not in files.opened
                    or member not in case.code.run
                ):
                    yield finding(member, _RULE, fact, "warning")


def _ninja_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield modules that compile with PyTorch, which needs ninja, where nothing names it."""
    named = any(b"ninja" in source for source in case.scan.sources.values())
    is_there = named or is_brought("ninja", case.required)
    # Else such code is for users who have a PyTorch, and its tools.
    severity: Severity = "warning" if "torch" in case.required else "note"
    for member in () if is_there else (*case.code.run, *case.code.rest):
        if _COMPILES.search(case.scan.sources[member]):
            names = imported_names(case.code.nodes(member))
            for call in (node for node in case.code.nodes(member) if isinstance(node, ast.Call)):
                if full_name(call.func, names) in _JIT:
                    fact = f"line {call.lineno} compiles with PyTorch, which needs ninja: no "
                    yield finding(member, _RULE, f"{fact}requirement installs it", severity)
                    break


def _symbol_findings(files: CodeFiles, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield functions that code calls with ctypes, and that no library of the wheel exports."""
    exports = {library.name: library.exports for library, _ in case.host_libraries}
    paths = {str(SITE / path): name for name in exports if (path := installed_path(name))}
    for member in (*case.code.run, *case.code.rest):
        source = case.code.sources[member]
        if not _CTYPES.search(source) or _ASKS.search(source):
            continue
        nodes, scope = list(case.code.nodes(member)), files.scope(member)
        opened = [node for node in nodes if isinstance(node, ast.Call) and _is_loader(node)]
        libraries = {paths.get(os.path.normpath(scope.text(call.args[0]) or "")) for call in opened}
        if libraries and None not in libraries and None not in exports.values():
            for node in _taken(nodes, opened):
                is_there = any(node.attr in each for each in exports.values() if each)
                is_needed = node.attr in _OF_C or node.attr.startswith(("cu", "nv"))
                if not is_there and not is_needed:  # by it, so that it is found there
                    fact = f"line {node.lineno} takes {node.attr} of {min(map(str, libraries))}, "
                    fact += "which doesn't export it"
                    yield finding(member, _RULE, fact)
                    break


def _is_loader(call: ast.Call) -> bool:
    return name_of(call.func) in {"CDLL", "PyDLL", "LoadLibrary"} and bool(call.args)


def _taken(nodes: list[ast.AST], opened: list[ast.Call]) -> Iterator[ast.Attribute]:
    """Yield the attributes of opened libraries, by a name or a function that returns one."""
    assigns = [node for node in nodes if isinstance(node, ast.Assign) and node.value in opened]
    names = [t.id for node in assigns for t in node.targets if isinstance(t, ast.Name)]
    functions = {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(part, ast.Return) and part.value in opened for part in node.body)
    }
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    stored += [node.arg for node in nodes if isinstance(node, ast.arg)]
    for node in nodes:
        value = node.value if isinstance(node, ast.Attribute) else None
        is_called = isinstance(value, ast.Call) and getattr(value.func, "id", "") in functions
        name = value.id if isinstance(value, ast.Name) else ""
        is_known = name in names and stored.count(name) == names.count(name)
        if isinstance(node, ast.Attribute) and (is_called or is_known) and node.attr[0] != "_":
            yield node


def _is_missing(path: PurePosixPath, case: AuditCase) -> bool:
    """Return True for a path in a package of the wheel, which has an `__init__`, without a file."""
    installed = set(filter(None, map(installed_path, case.scan.names)))
    is_there = path in installed or any(path in other.parents for other in installed)
    is_there |= is_shared(path.parts[0], case)
    return not is_there and PurePosixPath(path.parts[0], "__init__.py") in installed


def _folder_of(path: PurePosixPath, case: AuditCase) -> str:
    """Return where NVIDIA's wheels have a library; empty: there, or it isn't one of theirs."""
    folders = [part.site_folder for part in components_of(path.name)]
    is_other = path.parts[0] == "nvidia" and path.name not in case.own
    return folders[0] if is_other and folders and str(path.parent) not in folders else ""


def is_shared(module: str, case: AuditCase) -> bool:
    """Return True if a required project may add files to a package of the wheel."""
    own = canonicalize_name(module.partition(".")[0])
    return any(name.startswith(own) and name != case.project for name in case.required)


def _is_unversioned(name: str) -> bool:
    return name.endswith(".so") and is_cuda_library(name) and not is_from_driver(f"{name}.1")
