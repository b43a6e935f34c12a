"""Rules for the Python code of a wheel: what fails when it is imported, or started."""

from __future__ import annotations

import ast
import configparser
import contextlib
import re
import sys
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import header, installed_path
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import installed_by, project_of_module
from cuwheel.check.audit.python_code import Import, PythonCode, names_of, own_level
from cuwheel.check.audit.rules.python.files import file_findings, is_shared
from cuwheel.check.audit.rules.python.imports import ImportOrder, constant_findings
from cuwheel.check.audit.rules.python.opened_files import REFUSES
from cuwheel.check.audit.rules.python.projects import project_findings
from cuwheel.check.audit.rules.python.releases import (
    STANDARD_MODULES,
    release_findings,
    source_of,
)
from cuwheel.check.cuda.frameworks import extras_of

_RULE = "Python code"
# Of 3.12 and later: `type X = int`, `def f[T]()`, nested f-strings, `except A, B`, t-strings; of
# 3.11: `async for` in a comprehension of another.
_NEW_SYNTAX = re.compile(
    r"^\s*type \w|^\s*(async )?(def|class) \w+\[|\b[rb]?[ft][rb]?['\"]|except |async for"
)
_THIS = sys.version_info.minor
_OLDEST = 7  # of Python 3 that `ast` knows ("feature_version")
_UNIONS = 10  # of Python 3, which evaluates `int | None`
_SHOWN = 3  # names in one finding
_FRAMEWORKS = frozenset(
    {"cupy", "google-colab", "jax", "jaxlib", "mxnet", "paddle", "tensorflow", "torch", "triton"}
)
# Extras that users don't install.
_DEVELOPERS = frozenset({"dev", "develop", "doc", "docs", "lint", "test", "testing", "tests"})
_SOURCES = ("src", "lib", "python", "source")
_SITES = ("site-packages", "dist-packages")  # the end of a prefix that was packed as it was
_STARTED = ("console_scripts", "gui_scripts")
# Groups with functions that PyTorch, Numba and vLLM call without arguments (their documentation).
_CALLED = (*_STARTED, "numba_extensions", "torch.backends", "vllm.general_plugins")
_NAMES = {"numba_extensions": "init"}  # the only entry point of the group that is called
# Groups with modules of which JAX (`xla_bridge.py`) and Triton (`backends`) take these names.
_PLUGINS = {"jax_plugins": ("initialize",), "triton.backends": ("compiler", "driver")}
_VALUE = re.compile(
    r"^(?P<module>\w+(\.\w+)*)\s*(:\s*(?P<attribute>[\w.]+)\s*)?(\[(?P<extras>.*)\])?$"
)
# Programs that a script would replace in an environment.
# Others that an environment has before: of systems, of CUDA's toolkit, of frequent projects.
_COMMANDS = frozenset(
    {"accelerate", "awk", "bash", "cat", "cc", "clang", "cmake", "cp", "cuobjdump", "curl"}
    | {"docker", "env", "f2py", "find", "g++", "gcc", "gdb", "git", "grep", "huggingface-cli"}
    | {"ipython", "jupyter", "kill", "ld", "ls", "make", "mpirun", "mv", "ncu", "ninja", "nsys"}
    | {"nvcc", "nvidia-smi", "ptxas", "pytest", "rm", "sed", "sh", "ssh", "sudo", "tar", "test"}
    | {"time", "torchrun", "wget", "which"}
)
_PROGRAM = re.compile(r"(python|pip)(3(\.\d+)?)?|activate|easy_install|pyvenv|uv")


def python_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about code that an import always runs, and about entry points."""
    found = list(_code_findings(case))
    refused = {case.code.modules[root] for root in case.code.roots}
    refused &= {item.file for item in found if item.fact.endswith(REFUSES)}
    for item in found:  # what else such a package has doesn't matter
        if not refused or item.file in refused or item.severity == "note":
            yield item


def _code_findings(case: AuditCase) -> Iterator[AuditFinding]:
    code = case.code
    yield from _syntax_findings(code, case)
    yield from _rest_findings(code, case)
    yield from release_findings(case)
    yield from _annotation_findings(code, case.oldest_python)
    if not code.is_dynamic:
        yield from _missing_findings(code, case)
        yield from _exported_findings(code)
    if not code.adds_folders:
        yield from _undeclared_findings(code, case)
    yield from _order_findings(code)
    for member, line in code.imports_above_top():
        yield finding(member, _RULE, f"line {line} imports from above its outermost package")
    yield from constant_findings(case)
    yield from file_findings(case)
    yield from project_findings(case)
    yield from _name_findings(code)
    yield from _nested_findings(code, case)
    yield from _hidden_findings(code)
    yield from _shadow_findings(case)
    yield from _entry_findings(case)


def _name_findings(code: PythonCode) -> Iterator[AuditFinding]:
    """Yield the folder of a wheel's only package if no `import` statement can name it."""
    paths = {name: path for name in code.modules.values() if (path := installed_path(name))}
    tops = [path.parts[0].partition(".")[0] for path in paths.values()]
    packages = [name for name, path in paths.items() if path.name.startswith("__init__.")]
    if packages and not any(top.isidentifier() and not iskeyword(top) for top in tops):
        first = min(packages)
        folder = paths[first].parts[0]
        why = "is a keyword" if iskeyword(folder) else "isn't a name of Python's"
        fact = f"no import statement finds the wheel's package: its folder {folder} {why}"
        yield finding(first, _RULE, fact, "warning")


def _nested_findings(code: PythonCode, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the project's own package if it is in the folder of its sources, `src/pkg`."""
    own = case.project.replace("-", "_")
    for module, member in code.modules.items() if own not in {*code.modules, *code.folders} else ():
        folder = module.removesuffix(f".{own}")
        if folder != module and (folder in _SOURCES or folder.endswith(_SITES)):
            fact = f"import {own} fails: the package is installed as {PurePosixPath(member).parent}"
            yield finding(member, _RULE, fact)


def _hidden_findings(code: PythonCode) -> Iterator[AuditFinding]:
    """Yield imports from a top-level module that Python's own of the same name hides."""
    for item in code.imports:
        is_hidden = item.module in sys.stdlib_module_names and item.module in code.modules
        source = source_of(item.module) if is_hidden else b""
        missing = [name for name in item.names if source and name.encode() not in source]
        if missing:
            fact = f"line {item.line} imports {missing[0]} of {item.module}, which is Python's own "
            yield finding(item.importer, _RULE, f"{fact}module, without {missing[0]}")


def _shadow_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield modules that a package of the same name hides."""
    packages = {
        str(PurePosixPath(name).parent)
        for name in case.scan.names
        if PurePosixPath(name).name == "__init__.py"
    }
    modules = {library.name for library, elf in case.host_libraries if elf.python_modules}
    for name in case.scan.names:
        is_module = name.endswith((".py", ".so"))
        folder, _, file = name.rpartition("/")
        stem = f"{folder}/{file.partition('.')[0]}".lstrip("/")
        if is_module and stem in packages:
            fact = f"it is never imported: the package {stem}/ comes first"
            is_lost = name in modules and not case.code.loads_by_path
            yield finding(name, _RULE, fact, "warning" if is_lost else "note")


def _syntax_findings(code: PythonCode, case: AuditCase) -> Iterator[AuditFinding]:
    oldest = case.oldest_python
    for member in code.run:
        problem = code.syntax_error(member)
        if problem and not _may_be_new(problem, oldest):
            yield finding(member, _RULE, _import_fault(problem, case))
        elif problem:
            fact = (
                f"Python 3.{_THIS}, with which the audit runs, can't read line {problem.lineno}: "
            )
            fact += "only the rest was checked"
            yield finding(member, "not checked", fact, "note")
        elif fact := _older_fault(member, code, oldest):
            yield finding(member, _RULE, fact)


def _rest_findings(code: PythonCode, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield modules that a package's import doesn't run, and that can't be imported."""
    for member in code.rest:
        problem = code.syntax_error(member)
        if problem and not _may_be_new(problem, case.oldest_python):
            fact = _import_fault(problem, case)
            # A file without any statement, as a version alone, may be data.
            severity: Severity = "warning" if code.statements(member) else "note"
            yield finding(member, _RULE, fact, "error" if member in case.started else severity)
        elif not problem and (fact := _older_fault(member, code, case.oldest_python)):
            yield finding(member, _RULE, fact, "note")  # code may ask for the Python first


def _import_fault(problem: SyntaxError, case: AuditCase) -> str:
    place = f"line {problem.lineno}: " if problem.lineno else ""
    is_served = (case.oldest_python or 0) <= _THIS <= case.newest_python
    which = f" with Python 3.{_THIS}" if is_served else ""
    return f"importing it{which} fails: {place}{problem.msg}"


def _older_fault(member: str, code: PythonCode, oldest: int | None) -> str:
    """Return why the oldest allowed Python, before this one, doesn't compile a module."""
    is_known = oldest is not None and _OLDEST <= oldest < _THIS
    problem = code.syntax_error(member, oldest) if is_known else None
    why = f"Python 3.{oldest}, which is allowed, can't compile line "
    return f"{why}{problem.lineno}: {problem.msg}" if problem else ""


def _order_findings(code: PythonCode) -> Iterator[AuditFinding]:
    """Yield circular imports, and names that aren't defined when they are used."""
    order = ImportOrder(code)
    with contextlib.suppress(RecursionError):
        for module in code.roots:
            order.load(module)
    for fault in dict.fromkeys(order.faults):
        if not (fault.is_order and code.is_dynamic):
            yield finding(fault.member, _RULE, fault.fact)


def _annotation_findings(code: PythonCode, oldest: int | None) -> Iterator[AuditFinding]:
    """Yield annotations that an import evaluates, and that the oldest Python can't."""
    for member in code.run if oldest is not None and oldest < _UNIONS else ():
        for line, text, minor in code.new_annotations(member):
            if minor > (oldest or 0):
                fact = f"line {line}: {text} fails before Python 3.{minor}, but 3.{oldest} is "
                yield finding(member, _RULE, f"{fact}allowed")
                break


def _exported_findings(code: PythonCode) -> Iterator[AuditFinding]:
    """Yield names in a package's `__all__` that it doesn't have."""
    for module in code.roots:
        missing = [name for name in code.exported(module) if not code.has_name(module, name)]
        if missing:
            fact = f"__all__ has {', '.join(missing[:_SHOWN])}, which isn't defined: from {module} "
            yield finding(code.modules[module], _RULE, f"{fact}import * fails", "warning")


def _may_be_new(problem: SyntaxError, oldest: int | None) -> bool:
    """Return True if a newer Python than this one may compile the code, and only such is allowed.

    Without a stated oldest Python any may be meant.
    """
    is_known = oldest is not None and oldest <= _THIS
    return not is_known and bool(problem.lineno) and bool(_NEW_SYNTAX.search(problem.text or "f''"))


def _missing_findings(code: PythonCode, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield imports of modules that the wheel's own package doesn't have."""
    done: set[str] = set()
    lost: dict[tuple[str, Severity], list[str]] = {}
    for item in (*code.imports, *code.rest_imports):
        if is_shared(item.module, case):
            continue
        missing = [lacking] if (lacking := code.lacks(item.module)) else []
        is_module = item.module in code.modules and item.importer in code.run
        missing += [
            f"{item.module}.{name}"
            for name in item.names
            if is_module and not missing and not code.has_name(item.module, name)
        ]
        for name in missing:
            if name not in done:
                is_run = item.importer in code.run or item.importer in case.started
                key: tuple[str, Severity] = (item.importer, "error" if is_run else "warning")
                lost.setdefault(key, []).append(f"line {item.line} imports {name}")
            done.add(name)
    for (member, severity), places in lost.items():
        verb = "aren't" if len(places) > 1 else "isn't"
        yield finding(member, _RULE, f"{', '.join(places)}, which {verb} in the wheel", severity)


def _undeclared_findings(code: PythonCode, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield imports of other projects that nothing of the requirements installs."""
    installed = installed_by(case.required)
    if installed is None or not case.scan.metadata:
        return
    done = {
        *installed,
        *case.required,
        *case.assumed,
        *(installed_by(case.assumed) or ()),
        case.project,
    }
    own = {name.partition(".")[0] for name in (*code.modules, *code.folders)}
    for item in (*code.imports, *code.rest_imports):
        module = item.module.partition(".")[0]
        project = project_of_module(item.module)
        if not project or project in done or module in own or module in STANDARD_MODULES:
            continue
        # A plugin, `jax-cuda13-pjrt`, is imported by what it extends.
        if not any(name.startswith(f"{project}-") for name in (*case.required, case.project)):
            yield _undeclared(item, project, case)
        done |= {project, *((installed_by((project,)) or ()) if project in _FRAMEWORKS else ())}


def _undeclared(item: Import, project: str, case: AuditCase) -> AuditFinding:
    lines = [each for each in case.requirements if canonicalize_name(each.name) == project]
    name = item.module if project == "google-colab" else item.module.partition(".")[0]
    fact = f"line {item.line} always imports {name}, which "
    if extras := sorted({extra for each in lines for extra in extras_of(each, case.markers)}):
        fact += f"only the extra {' or '.join(extras)} requires"
    elif lines:
        fact += f"is required only where {lines[0].marker}"
    else:
        fact += "no requirement installs"
    # Users choose the build of a framework, by an extra too; recipes test with more.
    is_chosen = project in _FRAMEWORKS and not _DEVELOPERS.issuperset(extras or ("",))
    is_sure = not is_chosen and not case.contract and _is_of_project(item.importer, case)
    severity: Severity = "error" if is_sure else "warning"
    if item.importer not in case.code.run:
        severity = "warning" if is_sure and item.importer in case.started else "note"
    return finding(item.importer, _RULE, fact, severity)


def _is_of_project(member: str, case: AuditCase) -> bool:
    """Return False for a package of another name in a wheel with one of the project's name."""
    tops = {canonicalize_name(root.partition(".")[0]) for root in case.code.roots}
    own = {top for top in tops if case.project.startswith(top) or top.startswith(case.project)}
    path = installed_path(member)
    return not own or path is None or canonicalize_name(path.parts[0].removesuffix(".py")) in own


def _entry_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield entry points without a module or a function, and scripts that replace programs."""
    parser = configparser.ConfigParser(
        delimiters=("=",), strict=False, interpolation=None, default_section="\0"
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(case.scan.entry_points)
    except configparser.Error as problem:
        fact = " ".join(problem.message.split())
        yield finding("entry_points.txt", _RULE, f"installers can't read it: {fact}")
        return
    for group in parser.sections():
        for name, value in parser.items(group):
            fact = _entry_fault(case, group, value)
            if name != _NAMES.get(group, name):
                fact = fact or f"only an entry point with the name {_NAMES[group]} is called"
            if fact:
                yield finding("entry_points.txt", _RULE, f"{name} = {value}: {fact}")
            elif fact := _extra_fault(value, case):
                yield finding("entry_points.txt", _RULE, f"{name} = {value}: {fact}", "warning")
            if group in _STARTED:
                yield from _command_findings(name, case)


def _command_findings(name: str, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what is wrong with the name of a command."""
    fact = ""
    severity: Severity = "warning"
    if _PROGRAM.fullmatch(name) and name not in case.project:
        fact, severity = f"the script {name} replaces the environment's own", "error"
    elif re.search(r"[/\\]|^\.|[\0-\x1f]", name):
        fact, severity = f"the command {name} isn't a file's name: installers refuse it", "error"
    elif re.search(r"\s", name):
        fact = f"the command {name} has a space in its name: a shell starts another one"
    elif name in _COMMANDS and name not in case.project:
        fact = f"in an environment the command {name} comes before the program of that name"
    elif f"{case.scan.dist_info.removesuffix('.dist-info')}.data/scripts/{name}" in case.scan.names:
        fact = f"the command {name} is a script too: one overwrites the other"
    elif len(re.findall(rf"^{re.escape(name)}\s*=", _commands(case), re.MULTILINE)) > 1:
        fact = f"the command {name} is there twice: one replaces the other"
    if fact:
        yield finding("entry_points.txt", _RULE, fact, severity)


def _commands(case: AuditCase) -> str:
    """Return the lines of the groups that make commands."""
    _, *parts = re.split(r"^\[([^\]]+)\]", case.scan.entry_points, flags=re.MULTILINE)
    groups = zip(parts[::2], parts[1::2], strict=True)
    return "\n".join(text for group, text in groups if group.strip() in _STARTED)


def _extra_fault(value: str, case: AuditCase) -> str:
    match = _VALUE.match(value)
    provided = set(map(canonicalize_name, header(case.scan.metadata, "provides-extra")))
    for extra in ((match and match["extras"]) or "").split(","):
        if extra.strip() and canonicalize_name(extra.strip()) not in provided:
            return f"the extra {extra.strip()} isn't in Provides-Extra"
    return ""


def _may_be_elsewhere(module: str, group: str, case: AuditCase) -> bool:
    """Return True unless no module of that top level is in the wheel, required or Python's."""
    top = module.partition(".")[0]
    known = {*case.code.folders, *(name.partition(".")[0] for name in case.code.modules)}
    installed = installed_by(case.required)
    # The host of a plugin, whose name the group often has, is there when it is loaded.
    is_host = top in group and not group.endswith("_plugins")
    owner = project_of_module(top)
    is_host |= case.project.startswith(f"{owner}-")
    is_foreign = installed is None or owner in {*installed, *case.assumed}
    is_own = module in {*case.code.folders, *case.code.modules}
    # Other projects may add to a folder without `__init__`, if there are any.
    is_shared = top in known and bool(case.required)
    return is_own or is_host or is_foreign or is_shared or top in STANDARD_MODULES


def _start_fault(code: PythonCode, module: str, name: str) -> str:
    """Return why a function can't be called without arguments; empty: it can, or it's unknown."""
    nodes = list(code.statements(code.modules.get(module, "")))
    bound = [node for part in nodes for node in own_level(part) if name in names_of(node)]
    node = bound[0] if len(bound) == 1 else None
    if isinstance(node, ast.ImportFrom) and (
        inner := {alias.asname or alias.name: alias.name for alias in node.names}.get(name)
    ):
        return _start_fault(code, code.target(module, node), inner)
    is_plain = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    if is_plain and not node.decorator_list:  # type: ignore[union-attr]
        return _call_fault(node)  # type: ignore[arg-type]
    values = (part.value for part in nodes if isinstance(part, ast.Assign) and node in part.targets)
    return "it isn't a function" if any(isinstance(v, ast.Constant) for v in values) else ""


def _call_fault(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    args = function.args
    every = [*args.posonlyargs, *args.args]
    needed = [each.arg for each in every[: len(every) - len(args.defaults)]]
    needed += [
        each.arg for each, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if not value
    ]
    if needed:
        return f"it is called without arguments, and needs {needed[0]}"
    is_async = isinstance(function, ast.AsyncFunctionDef)
    return "it is async, and nothing awaits its call" if is_async else ""


def _entry_fault(case: AuditCase, group: str, value: str) -> str:
    code, match = case.code, _VALUE.match(value)
    if match is None or (group in _STARTED and not match["attribute"]):
        return "installers refuse it, they need module:function" if group in _STARTED else ""
    module, first = match["module"], (match["attribute"] or "").partition(".")[0]
    lacking = code.lacks(module) or ("" if _may_be_elsewhere(module, group, case) else module)
    # A package may find its modules in another of its folders.
    is_elsewhere = any(name.endswith(f".{module.rpartition('.')[2]}") for name in code.modules)
    if lacking and not code.is_dynamic and not is_elsewhere:
        return f"{lacking} isn't in the wheel"
    is_known = module in code.modules and first
    if is_known and not code.has_name(module, first):
        return f"{module} has no {first}"
    names = () if first or module not in code.modules else _PLUGINS.get(group, ())
    if missing := [name for name in names if not code.has_name(module, name)]:
        return f"{module} has no {missing[0]}, which {group.partition('_')[0]} takes from it"
    is_started = group in _CALLED and match["attribute"] == first
    return _start_fault(code, module, first) if is_started else ""
