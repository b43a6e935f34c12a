"""Rules for symbols: of PyTorch's releases, of Python's stable ABI, and those that nobody has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from abi3info import DATAS, FUNCTIONS

from cuwheel.audit.findings import Finding
from cuwheel.audit.symbols import SymbolNeeds
from cuwheel.audit.tags import oldest_minor
from cuwheel.binaries.symbol_names import plain_name
from cuwheel.cuda.torch_exports import minor_of, torch_exports
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cuwheel.audit.case import Case
    from cuwheel.audit.findings import Severity
    from cuwheel.audit.scan import ScannedLibrary
    from cuwheel.audit.symbols import TorchFit


_PYTHON = re.compile(r"_?Py[A-Z_]")
_SHOWN = 3  # names in one finding
_LONGEST = 80  # characters of a mangled name
# The stable ABI: name, and the minor release of Python 3 that brought it.
_STABLE = {
    one.symbol.name: one.added.minor for table in (FUNCTIONS, DATAS) for one in table.values()
}


def symbol_findings(case: Case) -> Iterator[Finding]:
    """Symbols that aren't there where a library is loaded, or needn't be."""
    needs = SymbolNeeds(case=case)
    for library, _ in case.host_libraries:
        yield from _undefined_findings(library, needs)
        yield from _stable_abi_findings(library, case)
    if needs.is_torch_judged:
        yield from _torch_findings(case, needs)


def _undefined_findings(library: ScannedLibrary, needs: SymbolNeeds) -> Iterator[Finding]:
    names = needs.unsupplied(library)
    if not names:
        return
    fact = f"no library that it loads defines {_some(names)}"
    severity: Severity = "error" if needs.is_imported(library) else "warning"
    if suppliers := needs.unknown_suppliers:
        fact += (
            ", unless Python code loads one that does before, from "
            f"{' or '.join(suppliers[:_SHOWN])}"
        )
        severity = "note"
    yield Finding(file=library.name, rule="undefined symbol", fact=fact, severity=severity)


def _torch_findings(case: Case, needs: SymbolNeeds) -> Iterator[Finding]:
    """What some of the releases that the wheel allows lack.

    Where an installer takes the newest release and nothing of the wheel works with that one, it
    is broken as it comes; but one for the other string ABI is for builds from elsewhere.
    """
    fits = {library.name: needs.torch_fit(library) for library, _ in case.host_libraries}
    using = [root.name for root in needs.graph.roots if needs.uses_torch(root)]
    is_whole = all((fit := fits[name]) and fit.newest in fit.wrong for name in using)
    for library, _ in case.host_libraries:
        if fit := fits[library.name]:
            # With no fitting release it may well be for one that the table doesn't have.
            is_known = bool(fit.fitting) or not fit.is_newer_allowed
            is_known &= not fit.is_other_string_abi
            is_broken = is_whole and is_known and fit.newest in fit.wrong
            severity: Severity = "error" if is_broken or case.contract else "warning"
            if needs.torch_requirement is None:
                severity = case.severity("note")
            fact = _torch_fact(fit, needs)
            yield Finding(file=library.name, rule="framework ABI", fact=fact, severity=severity)


def _torch_fact(fit: TorchFit, needs: SymbolNeeds) -> str:
    more = f" and {plural(fit.count - 1, 'symbol')} more" if fit.count > 1 else ""
    fits = f"it loads with {_spans(fit.fitting)}" if fit.fitting else "no release has all symbols"
    strings = " with the string ABI of PyPI's wheels" if fit.is_other_string_abi else ""
    allowed = f"torch{needs.torch_requirement or ''} is required"
    if needs.torch_requirement is None:
        allowed = "no release is required"
    return (
        f"it needs {_some([fit.lacking])}{more}, which torch {_spans(fit.wrong)} "
        f"lacks{strings}; {allowed}, {fits}"
    )


def _spans(releases: Sequence[str]) -> str:
    """`2.6 to 2.9 and 2.12` of releases that were read."""
    order = [minor_of(one) for one in torch_exports().releases]
    numbers = [order.index(minor_of(one)) for one in releases]
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    texts = (
        order[span[0]] if len(span) == 1 else f"{order[span[0]]} to {order[span[-1]]}"
        for span in spans
    )
    return " and ".join(texts)


def _stable_abi_findings(library: ScannedLibrary, case: Case) -> Iterator[Finding]:
    """A module for the stable ABI that needs more of Python than that, or a newer one."""
    if not (library.elf and library.elf.python_modules and _is_stable(library.name, case)):
        return
    used = [name for name in library.undefined if _PYTHON.match(name)]
    if outside := [name for name in used if name not in _STABLE]:
        fact = f"it is tagged abi3, but {_some(outside)} is not part of Python's stable ABI"
        yield Finding(file=library.name, rule="stable ABI", fact=fact, severity="warning")
    oldest = oldest_minor(case.tags)
    newer = [name for name in used if oldest is not None and _STABLE.get(name, 0) > oldest]
    if newer:
        minor = max(_STABLE[name] for name in newer)
        fact = (
            f"it needs {_some(newer)}, which is in the stable ABI from Python 3.{minor} on, but "
            f"the tag says 3.{oldest}"
        )
        yield Finding(file=library.name, rule="stable ABI", fact=fact, severity="warning")


def _is_stable(name: str, case: Case) -> bool:
    """Whether a module promises to run on later Pythons, by its own name or by the wheel's tags."""
    is_tagged = bool(case.tags) and all(tag.abi == "abi3" for tag in case.tags)
    return name.endswith(".abi3.so") or (is_tagged and ".cpython-" not in name)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(map(_both_names, listed[:_SHOWN]))
    more = len(listed) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _both_names(name: str) -> str:
    """As a person writes it, and as the loader's message does."""
    if not name.startswith("_Z"):
        return name
    cut = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return f"{plain_name(name)} ({cut})"
