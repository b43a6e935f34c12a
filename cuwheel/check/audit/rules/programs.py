"""Rules for what a wheel starts: files that run with Python, programs, scripts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import project_of_module
from cuwheel.check.audit.rules.python.releases import STANDARD_MODULES

_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})
_RUNS = re.compile(rb"^import[ \t]", re.MULTILINE)  # in a `.pth` (documentation of `site`)
_IMPORTED = re.compile(rb"^import[ \t]+([A-Za-z]\w*)", re.MULTILINE)
# Code that hides what it does, or starts and fetches something.
_SUSPECT = re.compile(
    rb"LD_|exec\(|eval\(|base64|zlib|marshal|subprocess|popen|system\(|socket|urllib"
)
_ABSOLUTE = re.compile(rb"^/[^\r\n]*", re.MULTILINE)
# Of editable installs: setuptools, hatchling, scikit-build-core, meson-python.
_EDITABLE = re.compile(r"(__editable__|_editable_impl_).*\.pth|.+[-_]editable\.pth")
_FINDER = re.compile(rb"^import[ \t]+(\w+)", re.MULTILINE)
_FOUND_IN = re.compile(rb"""["'](/[^"'\n]*)["']""")
# System V ABI, and musl: the loaders of Linux's distributions.
_LOADER = re.compile(r"/lib(64)?/ld-(linux|musl)[-\w]*\.so\.\d+")
_INTERPRETERS = (b"#!python", b"#!/usr/bin/", b"#!/bin/", b"#! /usr/bin/", b"#! /bin/")
# In `#!` lines: Python's own name; `env python3`, which every environment has.
_PYTHON = re.compile(rb"[/ ]python[\d.]*(\s|$)")
_BY_PATH = re.compile(rb"env +(-S +)?python3?(\s|$)")
_REPLACED = re.compile(
    r"\.data/(scripts/|data/bin/)((python|pip)(3(\.\d+)?)?|activate|uv|conda|openssl|sqlite3)$"
    r"|\.data/data/(pyvenv\.cfg|lib/python3\.\d+/[^/]+\.py)$"
)
_OF_ONE_PYTHON = re.compile(r"\.data/data/lib/python3\.\d+/(site|dist)-packages/")


def program_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about files that Python or a user starts."""
    yield from _start_findings(case)
    yield from _site_findings(case)
    yield from _startable_findings(case)


def _start_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files that Python runs whenever it starts, and programs of an environment."""
    for name in case.scan.names:
        path = installed_path(name)
        is_top = path is not None and len(path.parts) == 1
        if is_top and path and path.name in _AT_START:
            fact = "it runs whenever Python starts, in place of others' files of that name"
            yield finding(name, "program", fact, "warning")
        elif is_top and name.endswith(".pth"):
            yield from _pth_findings(name, case)
        elif _REPLACED.search(name) and PurePosixPath(name).name not in case.project:
            yield finding(name, "program", "it replaces the environment's own program")


def _site_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the first module in the folder of one Python, below `.data`."""
    for name in filter(_OF_ONE_PYTHON.search, case.scan.names):
        fact = (
            "only an environment with that Python's folder finds it: the folders are platlib and "
        )
        yield finding(name, "program", f"{fact}purelib", "warning")
        return


def _pth_findings(name: str, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield folders of another machine, and code that runs whenever Python starts."""
    text = case.scan.sources.get(name, b"")
    if _EDITABLE.fullmatch(name):
        finders = [f"{word.decode()}.py" for word in _FINDER.findall(text)]
        texts = [case.scan.sources.get(finder, b"") for finder in finders]
        folders = _ABSOLUTE.findall(text) + _FOUND_IN.findall(b"\n".join(texts))
        fact = "it is of an editable install: its code stays on the machine that built it"
        fact += f", in {folders[0].decode(errors='replace')}" if folders else ""
        yield finding(name, "program", fact)
        return
    if match := _ABSOLUTE.search(text):
        fact = f"it adds {match[0].decode(errors='replace')}, a folder of the machine that built it"
        yield finding(name, "program", fact)
    missing = (word.decode() for word in _IMPORTED.findall(text))
    for module in (word for word in missing if _is_missing(word, case)):
        fact = f"whenever Python starts it imports {module}, which isn't in the wheel"
        yield finding(name, "program", fact)
    if _RUNS.search(text):
        modules = {word.decode() for word in _IMPORTED.findall(text)}
        is_small = modules <= STANDARD_MODULES and not _SUSPECT.search(text)
        severity: Severity = "note" if is_small else "warning"
        yield finding(name, "program", "it runs code whenever Python starts", severity)


def _is_missing(module: str, case: AuditCase) -> bool:
    is_known = module in {*case.code.modules, *case.code.folders, *STANDARD_MODULES}
    is_required = bool(case.unknown_projects) or project_of_module(module) in case.required
    return not is_known and not is_required


def _startable_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield programs that can't be started: no execute bit, or no such interpreter."""
    sets_bit = any(b"chmod(" in text for text in case.scan.sources.values())
    for library, elf in case.host_libraries:
        if elf.is_program and library.name not in case.scan.executables:
            fact = "it is a program without the execute bit: starting it fails"
            yield finding(library.name, "program", fact, "note" if sets_bit else "warning")
        if elf.is_program and elf.interpreter and not _LOADER.fullmatch(elf.interpreter):
            fact = f"its loader is {elf.interpreter}, which other machines don't have"
            yield finding(library.name, "program", fact)
    for name, text in case.scan.sources.items():
        if ".data/scripts/" in name:
            yield from _script_findings(name, text.partition(b"\n")[0], case)


def _script_findings(name: str, first: bytes, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what is wrong with a script's first line: installers change only `#!python`."""
    interpreter = first[2:80].decode(errors="replace").strip()
    if first.startswith(b"#!") and name not in case.scan.executables:
        fact = "it has no execute bit, and pip gives it none: starting it fails"
        yield finding(name, "program", fact, "warning")
    if first.startswith(b"\xef\xbb\xbf"):
        fact = "its first line begins with a byte order mark: the system doesn't see the #!"
        yield finding(name, "program", fact)
    if first.startswith(b"#!") and b"python" in first:
        yield from _script_faults(name, case)
    if first.startswith(b"#!python"):
        return
    if not first.startswith(b"#!"):
        nodes = case.code.statements(name) if not case.code.syntax_error(name) else ()
        if any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in nodes):
            fact = "without a first line #!python a shell runs it, not Python"
            yield finding(name, "program", fact, "warning")
    elif first.endswith(b"\r"):
        fact = "its first line ends with CR, which the system takes as a part of the "
        yield finding(name, "program", f"{fact}interpreter's name: write #!python")
    elif not first.startswith(_INTERPRETERS):
        fact = f"its interpreter is {interpreter}, which isn't on other machines: write #!python"
        yield finding(name, "program", fact)
    elif _PYTHON.search(first):
        is_found = _BY_PATH.search(first)  # by way of the PATH: in an activated environment
        fact = f"{interpreter} starts another Python than the environment's"
        fact += ", unless that is activated" if is_found else ""
        yield finding(name, "program", f"{fact}: write #!python", "note" if is_found else "warning")


def _script_faults(name: str, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield why a script of Python's ends with an error when it is started."""
    problem = case.code.syntax_error(name)
    if problem:
        yield finding(name, "program", f"starting it fails: line {problem.lineno}: {problem.msg}")
    for node in case.code.statements(name) if not problem else ():
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for lacking in filter(None, map(case.code.lacks, modules)):
            fact = f"starting it fails: line {node.lineno} imports {lacking}, which isn't in the "
            yield finding(name, "program", f"{fact}wheel")
