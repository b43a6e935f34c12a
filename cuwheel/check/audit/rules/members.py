"""Rules for the members of a wheel: damage, copies, paths of build machines, shared folders."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.audit.case import AuditCase, Contract
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.cuda.components import COMPONENTS
from cuwheel.check.cuda.frameworks import preloads
from cuwheel.check.cuda.suppliers import (
    component_of_copy,
    is_from_driver,
    is_grafted,
    name_before_graft,
    stem_of,
)

# Folders that CMake and make install into a prefix, and that packages have next to their code. In
# site-packages every wheel would share them; but `build/` belongs to the project `build`.
_SHARED = frozenset(
    {"bin", "build", "cmake", "data", "dist", "doc", "docs", "env", "etc", "example", "examples"}
    | {"include", "lib", "lib32", "lib64", "libexec", "man", "sbin", "scripts", "share", "src"}
    | {"test", "tests", "venv", ".eggs", ".git", ".github"}
)
_SHARED_FILES = frozenset({"__init__.py", "conftest.py", "setup.py", "test.py", "tests.py"})
_OWN_FILES = frozenset({".py", ".pyi", ".pth", ".so", ".pyd", ".dll", ".dylib"})
_CACHED = re.compile(r"(.*/)?__pycache__/[^/]+\.pyc")
_SHOWN = 6  # names in one finding


def member_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about the archive, its size, and what was copied in from elsewhere."""
    for file, fact in case.scan.archive_faults:
        yield finding(file, "archive", fact)
    if case.contract and case.scan.size > case.contract.max_size:
        fact = f"{show_size(case.scan.size)}, the recipe allows {show_size(case.contract.max_size)}"
        yield finding(case.scan.file_name, "size", fact)
    for leak in case.scan.leaks:
        times = f"; {leak.count} paths of that folder" if leak.count > 1 else ""
        # The paths in a copy of NVIDIA's library are of NVIDIA's machines.
        severity = "note" if is_grafted(leak.name) else case.severity("note")
        fact = f"it contains {leak.text}{times}"
        yield finding(leak.name, "build path", fact, severity)
    yield from _graft_findings(case)


def layout_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about files in a wrong place, and about copies."""
    yield from _copy_findings(case)
    yield from _top_level_findings(case)
    yield from _byte_code_findings(case)
    yield from _data_findings(case)


def _graft_findings(case: AuditCase) -> Iterator[AuditFinding]:
    sonames = {library.name: elf.soname for library, elf in case.host_libraries}
    # A wheel may have 200,000 files, and few are libraries or lie where repair tools put them.
    for name in (path for path in case.scan.names if ".so" in path or ".libs/" in path):
        file = name_before_graft(PurePosixPath(name).name)
        if is_from_driver(sonames.get(name, "")) or is_from_driver(file):
            fact = "it belongs to the GPU's driver, and has to match the one on the user's machine"
            yield finding(name, "grafted library", fact)
        elif is_grafted(name) and not case.is_supplier and not _is_bundled(file, case.contract):
            fact = "a library that belongs to another wheel is copied in"
            severity = case.severity("warning" if _is_second(name, file, case) else "note")
            yield finding(name, "grafted library", fact, severity)
        elif case.contract and _is_unnamed_copy(name, case.contract):
            fact = "it was copied from the build machine, and is not in the recipe's `bundles`"
            yield finding(name, "grafted library", fact)
        yield from _dlopen_findings(name, file, case)


def _is_unnamed_copy(name: str, contract: Contract) -> bool:
    path = PurePosixPath(name)
    is_copy = path.parts[0].endswith(".libs") and not is_grafted(name)
    return is_copy and stem_of(path.name) not in contract.bundles


def _is_second(name: str, file: str, case: AuditCase) -> bool:
    """Return True if a repair tool copied a library, or a requirement installs it too.

    A package with a library of NVIDIA's among its own files has chosen so.
    """
    component = component_of_copy(file)
    installed = {dep.distribution for dep in case.dependencies if not dep.extra}
    is_installed = component is not None and component.distribution in installed
    return is_installed or PurePosixPath(name).parts[0].endswith(".libs")


def _dlopen_findings(name: str, file: str, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield libraries that a copy opens by name, and that the repair tool renamed."""
    component = component_of_copy(file)
    if component is None or file == PurePosixPath(name).name:
        return
    files = {name for name in case.files if name_before_graft(name) == name}
    for pattern in component.opens:
        is_loaded = any(preloads(dep.by, pattern) for dep in case.dependencies)
        if not is_loaded and not any(fnmatchcase(name, pattern) for name in files):
            fact = f"it opens {pattern} by name, but the wheel has no file of that name"
            yield finding(name, "grafted library", fact)


def _is_bundled(file: str, contract: Contract | None) -> bool:
    """Return True if the recipe requires copies; a framework's libraries are never copied."""
    frameworks = [pattern for part in COMPONENTS if part.cuda is None for pattern in part.sonames]
    is_framework = any(PurePosixPath(file).match(pattern) for pattern in frameworks)
    return contract is not None and contract.mode == "bundled" and not is_framework


def _copy_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about equal files: a wheel has no links, so each link became a copy."""
    copies: dict[str, list[str]] = defaultdict(list)
    for library in case.scan.libraries:
        copies[case.scan.contents[library.name].digest].append(library.name)
    for names in copies.values():
        first, *others = sorted(names)
        if others:
            wasted = case.scan.contents[first].size * len(others)
            more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
            fact = (
                f"the same content is in the wheel {len(names)} times, {show_size(wasted)} more "
                f"than needed when unpacked: also as {', '.join(others[:_SHOWN])}{more}"
            )
            yield finding(first, "library copies", fact, "warning")


def _top_level_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about files directly in site-packages."""
    folders: dict[str, list[str]] = defaultdict(list)
    for name in case.scan.names:
        path = installed_path(name) if ".data/" in name else name
        first, slash, _ = str(path or "").partition("/")
        if not first or first == case.scan.dist_info:
            continue
        if slash and first in _SHARED and canonicalize_name(first) != case.project:
            folders[f"{first}/"].append(name)
        elif not slash and (
            first in _SHARED_FILES or PurePosixPath(first).suffix not in _OWN_FILES
        ):
            folders[first].append(name)
    for place, names in sorted(folders.items()):
        size = show_size(sum(case.scan.contents[name].size for name in names))
        what = f"{plural(len(names), 'file')}, {size}" if place.endswith("/") else size
        fact = f"{what}: installed directly into site-packages, among other packages' files"
        yield finding(place, "top level", fact, "warning")


def _byte_code_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a finding for byte code in `__pycache__`; elsewhere it is the package itself."""
    files = [name for name in case.scan.names if _CACHED.fullmatch(name)]
    if files:
        size = show_size(sum(case.scan.contents[name].size for name in files))
        fact = f"{plural(len(files), 'file')} of byte code, {size}: installers compile their own"
        yield finding(files[0], "byte code", fact, "warning")


def _data_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about `.data` folders of another name, which some installers install as is."""
    own = f"{case.scan.dist_info.removesuffix('.dist-info')}.data"
    firsts = {name.partition("/")[0] for name in case.scan.names if ".data/" in name}
    for folder in sorted(firsts - {own}):
        if folder.endswith(".data"):
            fact = (
                f"the wheel's own folder is {own}: some installers put this one into site-packages"
            )
            yield finding(folder, "archive", fact)
