"""Rules for symbols: of PyTorch's releases, of Python's stable ABI, and undefined ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from abi3info import DATAS, FUNCTIONS
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cuwheel.base.formats.binaries.elf import Elf
from cuwheel.base.formats.binaries.elf_symbols import plain_name
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.versions import version_key
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import installed_by
from cuwheel.check.audit.python_functions import RELEASES, python_functions
from cuwheel.check.audit.rules.python.projects import oldest_wheel
from cuwheel.check.audit.scan import ScannedLibrary
from cuwheel.check.audit.symbols import LINKED, SymbolNeeds, TorchFit
from cuwheel.check.audit.tags import first_with, is_missing, minor_of, oldest_minor
from cuwheel.check.cuda.frameworks import extras_of, has_common_release
from cuwheel.check.cuda.suppliers import cuda_major_of, stem_of
from cuwheel.check.cuda.torch_exports import describe_releases, torch_exports

_FOR_PYTHON = re.compile(r"\.cpython-3(\d+)([a-z]?)m?-[-\w]*\.so$")
_PYTHON = re.compile(r"_?Py[A-Z_]")
# PyTorch's C interface (torch/csrc/inductor/aoti_torch/c/shim.h), as used by modules that are
# imported only where torch is.
_BRIDGE = re.compile(r"aoti_torch_|torch_(?=[a-z])")
_OF_TORCH_1 = re.compile(r"(?i)(torch|pt)[-_.v]?1\D?\d")  # in a file's name
_NUMPY_2, _OF_NUMPY_2 = SpecifierSet(">=2"), 9  # its oldest Python 3
_SHOWN = 3  # names in one finding
_ALLOCATOR = re.compile(r"(?i)malloc|hook|preload|[at]san|hoard|snmalloc")
_REALTIME = re.compile(
    r"(aio|mq)_\w+|lio_listio(64)?|shm_(open|unlink)|timer_(create|delete|[gs]ettime|getoverrun)"
)
_CORE = frozenset(
    {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libgcc_s.so.1", "libstdc++.so.6"}
)
_MERGED = tuple(f"manylinux_2_{minor}_" for minor in range(34, 100))
# Python's own builds, pip's and NVIDIA's drivers in use are for none older (glibc 2.17, 2012).
_OLDEST_IN_USE = ("manylinux_2_12_x86_64", "manylinux_2_17_x86_64", "manylinux_2_17_aarch64")
_FOR_OLDER, _OF_TORCH = SpecifierSet("<2.6"), 28  # wheels of PyTorch 2.6 are manylinux_2_28
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
        yield from _numpy_target_findings(library, case)
        yield from _module_findings(library, case)
        yield from _allocator_findings(library, case)
    yield from _shadowed_findings(case)
    if needs.is_torch_judged:
        yield from _torch_findings(case, needs)


def version_findings(library: ScannedLibrary, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about versions of symbols, and functions that libraries got from others."""
    yield from _own_version_findings(library.name, elf, case)
    yield from _realtime_findings(library, case)
    yield from _symbol_findings(library.name, elf, case)


def _own_version_findings(name: str, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield symbol versions that the wheel's own libraries, or NVIDIA's, don't define.

    The major release in the version names of NVIDIA's libraries is that of their sonames.
    """
    loaded = case.loader_graph.needs(name)
    for supplier, version in elf.versions:
        if supplier not in loaded and not supplier.startswith("ld-linux"):
            fact = f"it needs {version} of {supplier}, which it doesn't load"
            yield finding(name, "undefined symbol", fact)
        majors = {cuda_major_of(supplier), cuda_major_of(version)} - {""}
        if len(majors) > 1 and stem_of(supplier) == stem_of(version):
            fact = f"it needs the symbol version {version} of {supplier}, which has another: it "
            fact += "was linked with one, and renamed to need the other"
            yield finding(name, "undefined symbol", fact)
        owners = case.loader_graph.owners(supplier)
        defined = {
            text for owner in owners for text in case.loader_graph.elves[owner].defined_versions
        }
        if defined and version not in defined:
            fact = f"it needs {version} of {supplier}, which the one in the wheel doesn't define"
            yield finding(name, "undefined symbol", fact)


def _realtime_findings(library: ScannedLibrary, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield functions that only librt has before glibc 2.34 (its NEWS)."""
    names = [name for name in library.undefined if _REALTIME.fullmatch(name)]
    # What another wheel's library needs in turn may be librt.
    foreign = case.loader_graph.needs(library.name) - case.own.keys()
    is_known = all(name in _CORE or name.startswith("ld-linux") for name in foreign)
    if names and is_known and case.policies and not case.policies[0].name.startswith(_MERGED):
        fact = f"it needs {', '.join(names[:_SHOWN])}, but not librt.so.1, which has it on systems "
        fact += f"of {case.policies[0].name}"
        yield finding(library.name, "platform tag", fact)


def _symbol_findings(name: str, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield symbol versions that the oldest systems of the tag don't have."""
    implied = [("libc.so.6", "GLIBC_ABI_DT_RELR")] if elf.has_relative_table else []
    for policy in case.policies:
        missing = [
            (supplier, symbol)
            for supplier, symbol in dict.fromkeys((*elf.versions, *implied))
            if supplier not in case.own and is_missing(symbol, policy)
        ]
        better = first_with((symbol for _, symbol in missing), policy.name.split("_", 3)[-1])
        has = f"; {better} does" if better else ""
        if missing:
            newest = ", ".join(f"{symbol} of {supplier}" for supplier, symbol in _newest(missing))
            fact = f"it needs {newest}, which {policy.name} doesn't guarantee{has}"
            is_old = better in _OLDEST_IN_USE or _is_torch_newer(case, better)
            yield finding(name, "platform tag", fact, case.severity("note" if is_old else "error"))
            return


def _is_torch_newer(case: AuditCase, better: str) -> bool:
    """Return True if all allowed releases of PyTorch have wheels only for systems as new."""
    lines = [each for each in case.requirements if canonicalize_name(each.name) == "torch"]
    required = [each.specifier for each in lines if "" in extras_of(each, case.markers)]
    is_new = any(not has_common_release(_FOR_OLDER, each) for each in required)
    glibc = better.removeprefix("manylinux_2_").partition("_")[0]
    return is_new and glibc.isdigit() and int(glibc) <= _OF_TORCH


def _newest(symbols: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the newest version of each library and family (`GLIBC`), and all without a number."""
    newest: dict[tuple[str, str], str] = {}
    for supplier, symbol in symbols:
        family, _, version = symbol.partition("_")
        is_number = version[:1].isdecimal()
        key = (supplier, family if is_number else symbol)
        newest[key] = max(symbol, newest.get(key, symbol), key=version_key)
    return [(supplier, symbol) for (supplier, _), symbol in newest.items()]


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
    if severity == "warning" and _is_plugin(library, needs.case):
        fact += ", unless what opens it does"
        severity = "note"
    elif suppliers := needs.unknown_suppliers:
        fact += (
            ", unless Python code loads one that does before, from "
            f"{' or '.join(suppliers[:_SHOWN])}"
        )
        severity = "note"
    yield finding(library.name, "undefined symbol", fact, severity)


def _is_loaded(library: ScannedLibrary, missing: Iterable[str], case: AuditCase) -> bool:
    """Return True if an import loads a library, or if nothing else can define what is missing."""
    is_own = any(name.startswith(LINKED) for name in missing)
    return is_own or case.is_loaded(library.name)


def _is_plugin(library: ScannedLibrary, case: AuditCase) -> bool:
    """Return True if modules are there, and nothing of the wheel needs or names a library."""
    graph = case.loader_graph
    is_alone = not any(elf.python_modules for _, elf in case.host_libraries)
    is_named = any(map(case.is_opened, graph.names(library.name)))
    return library.name in graph.roots and not (is_alone or is_named)


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
            if case.is_torch_variant(library.name):  # code chooses one by the installed release
                if _OF_TORCH_1.search(library.name):
                    continue  # of a release before those of the table
                severity = "note"
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


def _numpy_target_findings(library: ScannedLibrary, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a module that refuses releases of NumPy which the wheel allows (`import_array`)."""
    first = oldest_wheel("numpy", case)
    lines = [each for each in case.requirements if canonicalize_name(each.name) == "numpy"]
    allowed = [each.specifier for each in lines if "" in extras_of(each, case.markers)]
    if not (library.numpy_target and first and allowed and case.is_imported(library.name)):
        return
    older = SpecifierSet(f"<{library.numpy_target}") & SpecifierSet(f">={first}")
    if all(has_common_release(older, each) for each in allowed):
        newer = SpecifierSet(f">={library.numpy_target}")
        is_sure = not all(has_common_release(newer, each) for each in allowed)
        fact = f"it was compiled for NumPy {library.numpy_target} (NPY_TARGET_VERSION): importing "
        fact += f"it fails with older releases, which numpy{allowed[0]} allows"
        is_bound = any(str(each) for each in allowed)  # without one the newest is installed
        severity: Severity = "error" if is_sure else "warning" if is_bound else "note"
        yield finding(library.name, "undefined symbol", fact, severity)


def _module_findings(library: ScannedLibrary, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield projects of which a module uses the C API, and which no requirement installs.

    Where Python code names one, imports of it are checked there, and others are by choice.
    """
    installed = installed_by(case.required)
    used = [name for name, is_used in _c_projects(library) if is_used]
    if not (used and library.elf and library.elf.python_modules) or installed is None:
        return
    lines = {canonicalize_name(each.name) for each in case.requirements}
    tops = {name.partition(".")[0] for name in case.code.modules}
    modules = [name for name, elf in case.host_libraries if elf.python_modules]
    for name in used:
        word = re.compile(rb"\b%b\b" % name.encode())
        is_named = any(map(word.search, case.scan.sources.values()))
        if name not in {*installed, *lines, *tops, case.project} and not is_named:
            is_run = len(modules) == 1 or case.code.is_always_loaded(library.name)
            fact = f"it imports {name}, whose C API it uses, and no requirement installs it"
            yield finding(library.name, "Python code", fact, "error" if is_run else "warning")


def _allocator_findings(library: ScannedLibrary, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a loaded library that defines C's allocator for others, without being one."""
    exports = library.exports or ()
    has_all = all(name in exports for name in ("malloc", "free"))
    if has_all and case.is_loaded(library.name) and not _ALLOCATOR.search(library.name):
        fact = "it exports malloc and free: what is linked with it may get memory of the one, and "
        yield finding(library.name, "library", f"{fact}free it with the other", "warning")


def _c_projects(library: ScannedLibrary) -> tuple[tuple[str, bool], ...]:
    return ("numpy", bool(library.numpy)), ("cffi", library.uses_cffi)


def _shadowed_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield libraries that get another one of the same name than their own, with other symbols.

    The loader compares sonames: the first that is loaded serves all.
    """
    graph, members = case.loader_graph, [lib.name for lib, _ in case.host_libraries]
    several = {name for name in case.needed if len(graph.owners(name)) > 1}
    modules = [name for name in members if several and case.code.is_always_loaded(name)]
    loaded = set[str]().union(*map(graph.loaded_by, modules))
    exports = {library.name: library.exports for library, _ in case.host_libraries}
    for library, elf in case.host_libraries if loaded else ():
        for soname in sorted(several.intersection(elf.needed)):
            served = graph.served_by(library.name, soname)
            others = loaded.intersection(graph.owners(soname)).difference(served)
            own = exports[served[0]]
            if library.name not in loaded or len(served) > 1 or own is None:
                continue
            for other in sorted(others):
                there = exports[other] or ()
                lacking = [n for n in library.undefined if n in own and n not in there]
                if lacking:
                    fact = f"it needs {_some(lacking)} of {served[0]}, but gets {other} where that "
                    fact += f"was loaded before: both are {soname} for the loader"
                    yield finding(library.name, "undefined symbol", fact)


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
