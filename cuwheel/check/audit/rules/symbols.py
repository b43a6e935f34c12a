"""Rules for symbols: of PyTorch's releases, of Python's stable ABI, and undefined ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from abi3info import DATAS, FUNCTIONS

from cuwheel.base.formats.binaries.elf_symbols import plain_name
from cuwheel.base.system.quantities import plural
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.rules.python_releases import REMOVED_FUNCTIONS as REMOVED
from cuwheel.check.audit.scan import ScannedLibrary
from cuwheel.check.audit.symbols import SymbolNeeds, TorchFit
from cuwheel.check.audit.tags import minor_of, oldest_minor
from cuwheel.check.cuda.torch_exports import describe_releases

_FOR_PYTHON = re.compile(r"\.cpython-3(\d+)t?-[-\w]*\.so$")
_PYTHON = re.compile(r"_?Py[A-Z_]")
# PyTorch's C interface (torch/csrc/inductor/aoti_torch/c/shim.h), as used by modules that are
# imported only where torch is.
_BRIDGE = re.compile(r"aoti_torch_|torch_(?=[a-z])")
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
        yield from _removed_findings(library, case)
        yield from _stable_abi_findings(library, case)
    if needs.is_torch_judged:
        yield from _torch_findings(case, needs)


def _undefined_findings(library: ScannedLibrary, needs: SymbolNeeds) -> Iterator[AuditFinding]:
    names = needs.unsupplied(library)
    if not names:
        return
    if all(map(_BRIDGE.match, names)) and not needs.case.contract:
        fact = f"it can be loaded only after torch, which defines {_some(names)}"
        yield finding(library.name, "undefined symbol", fact, "note")
        return
    fact = f"no library that it loads defines {_some(names)}"
    severity: Severity = "error" if needs.case.is_imported(library.name) else "warning"
    if suppliers := needs.unknown_suppliers:
        fact += (
            ", unless Python code loads one that does before, from "
            f"{' or '.join(suppliers[:_SHOWN])}"
        )
        severity = "note"
    yield finding(library.name, "undefined symbol", fact, severity)


def _removed_findings(library: ScannedLibrary, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield functions that the only Python of a module doesn't have any more."""
    match = _FOR_PYTHON.search(library.name)
    minors = {int(match[1])} if match else set(map(minor_of, case.tags))
    minor = minors.pop() if len(minors) == 1 else None
    removed = [name for name in library.undefined if minor and REMOVED.get(name, 99) <= minor]
    if removed:
        fact = f"it needs {_some(removed)}, which Python 3.{minor} doesn't have"
        yield finding(library.name, "undefined symbol", fact)


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
            is_broken &= not fit.is_other_string_abi
            severity: Severity = "warning"
            if needs.torch_requirement is None:  # users have the release that it is for
                is_broken &= fit.is_for_none
                severity = "note"
            severity = "error" if is_broken or case.contract else severity
            fact = _torch_fact(fit, needs)
            yield finding(library.name, "framework ABI", fact, severity)


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
    is_tagged = bool(case.tags) and all(tag.abi == "abi3" for tag in case.tags)
    name = library.name
    is_stable = name.endswith(".abi3.so") or (is_tagged and ".cpython-" not in name)
    if not (library.elf and library.elf.python_modules and is_stable):
        return
    used = [name for name in library.undefined if _PYTHON.match(name)]
    if outside := [name for name in used if name not in _STABLE]:
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
