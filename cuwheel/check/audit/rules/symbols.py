"""Rules for symbols: of PyTorch's releases, of Python's stable ABI, and undefined ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from abi3info import DATAS, FUNCTIONS
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cuwheel.base.formats.binaries.elf_symbols import plain_name
from cuwheel.base.system.quantities import plural
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.rules.python_functions import RELEASES, python_functions
from cuwheel.check.audit.scan import ScannedLibrary
from cuwheel.check.audit.symbols import LINKED, SymbolNeeds, TorchFit
from cuwheel.check.audit.tags import minor_of, oldest_minor
from cuwheel.check.cuda.frameworks import extras_of, has_common_release
from cuwheel.check.cuda.torch_exports import describe_releases, torch_exports

_FOR_PYTHON = re.compile(r"\.cpython-3(\d+)([a-z]?)m?-[-\w]*\.so$")
_PYTHON = re.compile(r"_?Py[A-Z_]")
# PyTorch's C interface (torch/csrc/inductor/aoti_torch/c/shim.h), as used by modules that are
# imported only where torch is.
_BRIDGE = re.compile(r"aoti_torch_|torch_(?=[a-z])")
_DIGITS = re.compile(r"\d+")
_OF_TORCH = re.compile(r"(?i)(torch|pt)[-_.v]?2\D?\d|[-_]2[._]\d+[._]\d")  # in a file's name
_NUMPY_2, _OF_NUMPY_2 = SpecifierSet(">=2"), 9  # its oldest Python 3
_SHOWN = 3  # names in one finding
_LONGEST = 80  # characters of a mangled name
# The stable ABI: name, and the minor version of Python 3 that added it.
_STABLE = {
    item.symbol.name: item.added.minor for table in (FUNCTIONS, DATAS) for item in table.values()
}


def symbol_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about symbols that are missing when a library is loaded, or may be."""
    needs = SymbolNeeds(case=case)
    for library, _ in case.host_libraries:
        yield from _undefined_findings(library, needs)
        yield from _python_findings(library, needs)
        yield from _stable_abi_findings(library, case)
        yield from _numpy_findings(library, case)
    if needs.is_torch_judged:
        yield from _torch_findings(case, needs)


def _undefined_findings(library: ScannedLibrary, needs: SymbolNeeds) -> Iterator[AuditFinding]:
    names = needs.unsupplied(library)
    if not names:
        if by_chance := needs.of_math(library):
            fact = (
                f"it needs {_some(by_chance)} of libm.so.6, which it doesn't load, but Python does"
            )
            yield finding(library.name, "undefined symbol", fact, "note")
        return
    if all(map(_BRIDGE.match, names)) and not needs.case.contract:
        fact = f"it can be loaded only after torch, which defines {_some(names)}"
        yield finding(library.name, "undefined symbol", fact, "note")
        return
    fact = f"no library that it loads defines {_some(names)}"
    severity: Severity = "error" if _is_loaded(library, names, needs.case) else "warning"
    if suppliers := needs.unknown_suppliers:
        fact += (
            ", unless Python code loads one that does before, from "
            f"{' or '.join(suppliers[:_SHOWN])}"
        )
        severity = "note"
    yield finding(library.name, "undefined symbol", fact, severity)


def _is_loaded(library: ScannedLibrary, missing: Iterable[str], case: AuditCase) -> bool:
    """Return True if an import loads a library, or if nothing else can define what is missing."""
    file = PurePosixPath(library.name).name.encode()
    run = {name for name in case.code.run if name in case.scan.loaders}
    is_opened = any(file in case.scan.sources[name] for name in run)
    is_own = any(name.startswith(LINKED) for name in missing)
    return is_own or is_opened or case.is_imported(library.name)


def _python_findings(library: ScannedLibrary, needs: SymbolNeeds) -> Iterator[AuditFinding]:
    """Yield names of the C API that a Python which imports a module doesn't export."""
    releases, has_gil = _importing(library, needs.case)
    table = python_functions()
    missing: dict[int, list[str]] = {}
    names, is_closed = needs.of_python(library) if releases else ([], False)
    # Builds without the GIL have names of their own.
    others = frozenset(() if is_closed and has_gil else releases)
    for name in names:
        lacking = releases - table.get(name, others)
        if lacking and not (_is_stable(library, needs.case) and name in _STABLE):
            missing.setdefault(max(lacking), []).append(name)
    for minor, names in missing.items():
        fact = f"it needs {_some(names)}, which Python 3.{minor} doesn't have"
        yield finding(library.name, "undefined symbol", fact)


def _importing(library: ScannedLibrary, case: AuditCase) -> tuple[set[int], bool]:
    """Return the known releases that import a module, and if it is for builds with the GIL."""
    if not case.is_imported(library.name) or any(t.interpreter[:2] == "pp" for t in case.tags):
        return set(), True
    if match := _FOR_PYTHON.search(library.name):
        return {int(match[1])} & set(RELEASES) if match[2] != "d" else set(), match[2] != "t"
    minors = {minor for tag in case.tags if (minor := minor_of(tag)) is not None}
    if len(minors) < len({tag.interpreter for tag in case.tags}) and case.oldest_python:
        minors = set(range(case.oldest_python, case.newest_python + 1))
    return minors & set(RELEASES), not any(tag.abi.endswith("t") for tag in case.tags)


def _torch_findings(case: AuditCase, needs: SymbolNeeds) -> Iterator[AuditFinding]:
    """Yield findings about symbols that some allowed releases of PyTorch lack.

    Where an installer takes the newest release and nothing of the wheel works with that one, it
    is broken as it comes; but one for the other string ABI is for builds from elsewhere.
    """
    fits = {library.name: needs.torch_fit(library) for library, _ in case.host_libraries}
    is_whole = all(
        (fit := fits[library.name]) and fit.newest in fit.wrong
        for library, _ in case.host_libraries
        if library.name in case.loader_graph.roots and needs.uses_torch(library)
    )
    for library, _ in case.host_libraries:
        if fit := fits[library.name]:
            is_newest_wrong = is_whole and fit.newest in fit.wrong
            is_broken = is_newest_wrong or (fit.is_for_none and not fit.is_newer_allowed)
            # Since the index's have the new strings, no other build has the old ones; but a wheel
            # may say in its name for which build it is.
            is_said = "cxx11abi" in case.scan.file_name.lower()
            is_old = torch_exports().has_new_strings(fit.wrong[0]) and not is_said
            is_broken &= is_old or not fit.is_other_string_abi
            severity: Severity = "warning"
            if needs.torch_requirement is None:  # users have the release that it is for
                is_broken &= fit.is_for_none
                severity = "note"
            severity = "error" if is_broken or case.contract else severity
            if _is_variant(library, case):  # code chooses one by the installed release
                severity = "note"
            fact = _torch_fact(fit, needs)
            yield finding(library.name, "framework ABI", fact, severity)


def _is_variant(library: ScannedLibrary, case: AuditCase) -> bool:
    """Return True for one of several, `ext_torch211.so` and `ext_torch212.so`."""
    stem = _DIGITS.sub("", library.name)
    same = [other for other, _ in case.host_libraries if _DIGITS.sub("", other.name) == stem]
    return len(same) > 1 and all(_OF_TORCH.search(other.name) for other in same)


def _torch_fact(fit: TorchFit, needs: SymbolNeeds) -> str:
    more = f" and {plural(fit.count - 1, 'symbol')} more" if fit.count > 1 else ""
    fits = (
        f"it loads with {describe_releases(fit.fitting)}"
        if fit.fitting
        else "no release has all symbols"
    )
    strings = " with the string ABI of PyPI's wheels" if fit.is_other_string_abi else ""
    allowed = f"torch{needs.torch_requirement or ''} is required"
    if needs.torch_requirement is None:
        allowed = "no release is required"
    return (
        f"it needs {_some([fit.lacking])}{more}, which torch {describe_releases(fit.wrong)} "
        f"lacks{strings}; {allowed}, {fits}"
    )


def _stable_abi_findings(library: ScannedLibrary, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about a module that needs more of Python than the tag's stable ABI."""
    if not (library.elf and library.elf.python_modules and _is_stable(library, case)):
        return
    used = [name for name in library.undefined if _PYTHON.match(name)]
    releases, table = _importing(library, case)[0], python_functions()
    # What one of them lacks has a finding of its own.
    outside = [
        name for name in used if name not in _STABLE and releases <= table.get(name, frozenset())
    ]
    if outside:
        fact = f"it is tagged abi3, but {_some(outside)} is not part of Python's stable ABI"
        yield finding(library.name, "stable ABI", fact, "warning")
    oldest = oldest_minor(case.tags)
    newer = [name for name in used if oldest is not None and _STABLE.get(name, 0) > oldest]
    if newer:
        minor = max(_STABLE[name] for name in newer)
        fact = (
            f"it needs {_some(newer)}, which is in the stable ABI from Python 3.{minor} on, but "
            f"the tag says 3.{oldest}"
        )
        yield finding(library.name, "stable ABI", fact)


def _numpy_findings(library: ScannedLibrary, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a module for the C API of NumPy 1, which NumPy 2 refuses to serve."""
    lines = [each for each in case.requirements if canonicalize_name(each.name) == "numpy"]
    allowed = [each.specifier for each in lines if "" in extras_of(each, case.markers)]
    is_old = library.numpy == 1 and case.newest_python >= _OF_NUMPY_2
    is_imported = is_old and case.is_imported(library.name)
    if is_imported and allowed and all(has_common_release(_NUMPY_2, each) for each in allowed):
        fact = "it was compiled with the headers of NumPy 1: importing it fails with NumPy 2, and "
        is_sure = not any(has_common_release(SpecifierSet("<2"), each) for each in allowed)
        fact += f"numpy{allowed[0]} is required"
        yield finding(library.name, "undefined symbol", fact, "error" if is_sure else "warning")


def _is_stable(library: ScannedLibrary, case: AuditCase) -> bool:
    is_tagged = bool(case.tags) and all(tag.abi == "abi3" for tag in case.tags)
    return library.name.endswith(".abi3.so") or (is_tagged and ".cpython-" not in library.name)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(map(_both_names, listed[:_SHOWN]))
    more = len(listed) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _both_names(name: str) -> str:
    """Return the readable name, and the mangled one of the loader's message."""
    if not name.startswith("_Z"):
        return name
    mangled = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return f"{plain_name(name)} ({mangled})"
