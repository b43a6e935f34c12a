"""Rules for single libraries: machine, symbols, hardening, rpath entries, device code, driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from cuwheel.base.formats.binaries.archs import JETSON_ARCHS, DeviceCode, gaps_of
from cuwheel.base.formats.binaries.elf import Elf
from cuwheel.base.formats.binaries.fatbin import LOADED_SECTION, RELOCATABLE_SECTION
from cuwheel.base.formats.wheel.metadata import installed_path, is_library
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.rules.symbols import version_findings
from cuwheel.check.audit.scan import ScannedLibrary, join_codes
from cuwheel.check.audit.tags import MACHINES
from cuwheel.check.cuda.components import KNOWN_COMPONENTS
from cuwheel.check.cuda.driver_functions import release_of_function
from cuwheel.check.cuda.drivers import ZSTD_DRIVER, is_older, oldest_driver, release_of_ptx
from cuwheel.check.cuda.suppliers import (
    components_of,
    is_cuda_library,
    is_from_driver,
    is_grafted,
)
from cuwheel.check.linkage.search_path import resolve_entry

_SITE_FOLDERS = frozenset(component.site_folder for component in KNOWN_COMPONENTS)
# PEP 3149 and PEP 384: `ext.cpython-312-x86_64-linux-gnu.so`, `ext.abi3.so`.
_EXTENSION = re.compile(
    r"(?P<module>[^/.]+)(?P<suffix>\.cpython-3\d+(?P<abi>[a-z]*)-(?P<platform>[-\w]+)|\.abi3)?"
    r"\.(so|pyd)$"
)
_BUILD = re.compile(r"^cp3\d+")
# glibc reserves 1,664 bytes for libraries that are loaded later, or fewer (elf/dl-tls.c), and
# alignment may add to them: with glibc 2.36 1,700 bytes load, and 1,800 don't.
_STATIC_TLS = 1664 + 128
_ORIGINS = ("$ORIGIN", "${ORIGIN}")
_ANYBODYS, _STUBS = re.compile(r"/(tmp|var/tmp|dev/shm)(/|$)"), re.compile(r"/.*/stubs/?$")
_SYSTEMS = re.compile(r"/usr/local/(cuda|lib)|(/usr)?/lib(64)?(/[^/]+-linux-gnu)?/?$|/opt/cuda")
_RECENT = ("x86-64-v3", "x86-64-v4")  # which CPUs in use lack
_WIDE = re.compile(rb"(?i)avx-?512|x86-64-v4|skylake|icelake|sapphire|znver[45]")
_OF_ARCH = re.compile(r"\d{2}|volta|turing|ampere|ada|hopper|blackwell")
_NAMED_GPU = re.compile(r"(?i)sm[-_ ]?\d\d|hopper|blackwell|[HB][123]00|RTX|compute capabilit")
_AMPERE = 80  # an arch
# Of LTO-IR: nvJitLink, the driver, and cuFFT, which links callbacks; Python packages use these.
_LINKS = re.compile(r"lib(nvJitLink|cufft)\.so|cuLink|(__)?nvJitLink")
_LINKER = re.compile(rb"(?i)jit_?link|\bcuda\.(core|bindings)|numba|cupy|cuLink")
_OLDEST_IN_USE = 90  # an arch: without code for it, or older, a wheel serves few GPUs
_MODIFIED = "it is marked with DT_TEXTREL, for which the loader makes its code writable"
_SHOWN = 3  # names in one finding; a library may need hundreds
# The largest pages of a system for arm64 (Linux, arch/arm64/Kconfig, ARM64_64K_PAGES), bytes.
_LARGEST_PAGE = {"EM_AARCH64": 64 << 10}


def library_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about single libraries, in the wheel's order."""
    if not case.scan.libraries and case.contract:
        yield finding(case.scan.file_name, "library", "it contains no compiled library")
    for library in case.scan.libraries:
        if library.damage:
            yield finding(library.name, "library", library.damage)
        elif library.elf and library.elf.refuses_load and is_library(library.name):
            yield _refused_finding(library.name, library.elf, case)
    for library, elf in case.host_libraries:
        if elf.refuses_load:
            continue  # the loader reads no more
        yield from _machine_findings(library.name, elf, case)
        yield from _wide_findings(library, elf, case)
        yield from _import_findings(library.name, elf, case)
        yield from version_findings(library, elf, case)
        yield from _page_findings(library.name, elf, case)
        yield from _hardening_findings(library.name, elf, case)
        yield from _rpath_findings(library.name, elf, case)
        yield from _driver_findings(library, elf, case)
        yield from _abi_findings(library.name, elf, case)
        yield from _removed_findings(library.name, elf)
    yield from _arch_findings(case)
    yield from _driverless_findings(case)


def _refused_finding(name: str, elf: Elf, case: AuditCase) -> AuditFinding:
    """Return the finding about a file that the loader refuses; others' are for other systems."""
    match = _EXTENSION.search(name)
    is_module = bool(elf.python_modules or (match and match["suffix"]))
    is_used = is_module or case.code.is_always_loaded(name) or case.is_loaded(name)
    return finding(name, "library", elf.refuses_load, "error" if is_used else "note")


def foreign_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what can't be loaded on the systems of the tags, none of which is Linux with glibc."""
    systems = ", ".join(case.platforms)
    for library, elf in case.host_libraries:
        is_musl = any("musllinux" in platform for platform in case.platforms)
        if is_musl and "libc.so.6" in elf.needed:
            yield finding(library.name, "platform tag", f"it needs glibc, the tag is {systems}")
        elif elf.python_modules and not is_musl:
            yield finding(library.name, "platform tag", f"it is for Linux, the tag is {systems}")


def _machine_findings(name: str, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    promised = {
        machine for tag, machine in MACHINES.items() if any(p.endswith(tag) for p in case.platforms)
    }
    if promised and elf.machine not in promised:
        fact = f"it is for {elf.machine}, the tag is {', '.join(case.platforms)}"
        yield finding(name, "platform tag", fact)
    if elf.instruction_set and case.policies:
        fact = (
            f"its ELF notes require an {elf.instruction_set} CPU, the tag includes every x86-64 CPU"
        )
        is_lost = case.is_imported(name) and elf.instruction_set in _RECENT
        severity = case.severity("error" if is_lost else "warning")
        yield finding(name, "platform tag", fact, severity)


def _wide_findings(library: ScannedLibrary, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a library that CPUs without AVX-512 can't run, and that is no choice of several."""
    texts = (case.scan.metadata.encode(), *case.scan.sources.values())
    is_chosen = bool(_WIDE.search(library.name.encode())) or any(map(_WIDE.search, texts))
    if library.needs_avx512 and case.policies and not (elf.instruction_set or is_chosen):
        fact = "its code has instructions of AVX-512, and doesn't ask whether the CPU has them: on "
        fact += "others, as most of laptops, the process ends; compile it without -march=native"
        yield finding(library.name, "platform tag", fact, case.severity("warning"))


def _import_findings(name: str, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about an extension module that can't be imported by its file name."""
    match = _EXTENSION.search(name)
    if match is None:
        return
    platform = match["platform"] or ""
    if elf.python_modules and not _is_imported(match, case):
        fact = f"no Python of the tag imports a file with the suffix {name[match.end('module') :]}"
        yield finding(name, "library", fact)
    builds = {_BUILD.sub("", tag.abi) for tag in case.tags if re.fullmatch(r"cp3\d+t", tag.abi)}
    if elf.python_modules and match["suffix"] == ".abi3" and builds and _has_other_builds(case):
        stem = f"{name[: match.end('module')]}.cpython-"
        if not any(other.startswith(stem) and "t-" in other for other in case.scan.names):
            fact = (
                "a tag is for Python without the GIL, which doesn't load modules for the stable ABI"
            )
            yield finding(name, "library", fact)
    machine = MACHINES.get(platform.partition("-")[0], elf.machine)
    if machine != elf.machine:
        fact = f"its name says {platform}, but it is for {elf.machine}: no Python can import it"
        yield finding(name, "library", fact)
    is_named = not match["suffix"] or match["module"] in elf.python_modules
    if elf.python_modules and not is_named and not case.code.loads_by_path:
        has = ", ".join(f"PyInit_{module}" for module in elf.python_modules[:_SHOWN])
        fact = f"importing it calls PyInit_{match['module']}, but it has {has}"
        yield finding(name, "library", fact)
    if not elf.python_modules and elf.is_dynamic and case.code.is_always_loaded(name):
        fact = f"code imports it, but it exports no PyInit_{match['module']}: importing it fails"
        if not elf.section(".text") and elf.section(".debug_info"):
            fact = "importing it fails: it has debug information alone, without the code"
        yield finding(name, "library", fact)
    if elf.python_modules and elf.refuses_import:
        fact = f"importing it fails: {elf.refuses_import}"
        yield finding(name, "library", fact)


def _has_other_builds(case: AuditCase) -> bool:
    return any(not tag.abi.endswith("t") for tag in case.tags)


def _is_imported(match: re.Match[str], case: AuditCase) -> bool:
    """Return True if a Python of the tags imports a file, or another one of the module.

    Suffixes: PEP 3149, and CPython's `configure` for the C library; `abi3`: PEP 703.
    """
    is_glibc = not re.search(r"-musl|^darwin|^win", match["platform"] or "")
    if match[0].endswith(".so") and is_glibc and (_fits_abi(match, case) or not case.tags):
        return True
    stem = f"{match.string[: match.end('module')]}."
    others = (name for name in case.scan.names if name.startswith(stem))
    return any(name != match.string and name.endswith((".so", ".py")) for name in others)


def _fits_abi(match: re.Match[str], case: AuditCase) -> bool:
    """Return True if a tag is for a Python of the build (`t`: free-threaded, `d`: debug)."""
    builds = {_BUILD.sub("", tag.abi) if tag.abi.startswith("cp") else "any" for tag in case.tags}
    if match["suffix"] is None or (match["suffix"] == ".abi3" and builds != {"t"}):
        return True
    return "any" in builds or match["abi"] in builds


def _page_findings(name: str, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a finding for segments that systems with larger pages can't map."""
    largest = _LARGEST_PAGE.get(elf.machine, 0)
    if elf.is_dynamic and elf.page_size < largest:
        fact = (
            f"its segments are aligned to {show_size(elf.page_size)}: systems with pages of "
            f"{show_size(largest)} don't load it"
        )
        severity = case.severity("warning")
        yield finding(name, "page size", fact, severity)


def _hardening_findings(name: str, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    # glibc 2.41 and later refuse to load such a library (its NEWS, "dlopen ... executable stack").
    if elf.has_executable_stack:
        yield finding(name, "executable stack", "it requires an executable stack")
    if elf.static_tls > _STATIC_TLS and not elf.is_program:
        fact = f"it needs {elf.static_tls:,} bytes of static thread-local storage, of which an "
        # Others may be for `LD_PRELOAD`, with which a process reserves enough.
        is_opened = case.is_opened(PurePosixPath(name).name)
        severity: Severity = "warning" if is_opened else "note"
        severity = "error" if case.is_loaded(name) else severity
        yield finding(name, "library", f"{fact}import gets about 1,700 at most", severity)
    if elf.is_fast_math:
        fact = "compiled with -ffast-math, it sets denormal numbers to zero in the whole thread"
        yield finding(name, "library", fact, "warning")
    if elf.has_writable_code:
        fact = "a part of its memory can be written and executed, which hardened systems refuse"
        yield finding(name, "text relocations", fact, case.severity("warning"))
    if elf.has_text_relocations:
        severity = case.severity("warning")
        yield finding(name, "text relocations", _MODIFIED, severity)
    if elf.is_dynamic and elf.relro == "none":
        fact = "its relocated data stays writable (no PT_GNU_RELRO)"
        # It protects against other faults alone: without it a library works.
        yield finding(name, "relro", fact, "warning" if case.contract else "note")


def _rpath_findings(name: str, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield entries that depend on the machine, and entries for folders without libraries.

    The latter are harmless in a third-party wheel: its needs are checked by another rule.
    """
    path = installed_path(name)
    for entry in dict.fromkeys((*elf.rpath, *elf.runpath)):
        folder = resolve_entry(path, entry) if path else None
        if folder is None:
            named = entry or '"", the current folder of the program,'
            fact = f"the entry {named} doesn't point to a folder below site-packages"
            severity: Severity = "warning" if _is_risky(entry, elf, case) else "note"
            yield finding(name, "rpath", fact, case.severity(severity))
        elif not _leads_to_libraries(folder, case):
            fact = f"the entry {entry} points to a missing folder or one without libraries"
            severity = case.severity("note")
            yield finding(name, "rpath", fact, severity)


def _is_risky(entry: str, elf: Elf, case: AuditCase) -> bool:
    """Return True if users may have other libraries there, which are loaded instead.

    That is so in the current folder, in one in which everybody may write, and in CUDA's or the
    system's own, if it is searched before the wheel's. Elsewhere only the build machine has them.
    """
    if _STUBS.match(entry):  # it holds the driver's library under names without a number
        return any(is_from_driver(f"{name}.1") for name in elf.needed if not is_from_driver(name))
    if _ANYBODYS.match(entry):
        return True
    if not entry.startswith(("/", *_ORIGINS)):  # few programs have a system's library there
        return any(name not in case.system and "ld-linux" not in name for name in elf.needed)
    path = elf.search_path
    is_before = any(other.startswith(_ORIGINS) for other in path[path.index(entry) + 1 :])
    others = (name for name in elf.needed if name in case.own or components_of(name))
    return is_before and bool(_SYSTEMS.match(entry)) and any(map(is_cuda_library, others))


def _leads_to_libraries(folder: PurePosixPath, case: AuditCase) -> bool:
    """Return True for a folder with libraries of the wheel, or of a wheel that it needs.

    In third-party wheels any folder of NVIDIA's wheels counts: libraries that they open by name
    aren't known.
    """
    if any(folder in folders for folders in case.own.values()):
        return True
    if case.contract is None:
        return str(folder) in _SITE_FOLDERS
    majors = frozenset({case.contract.cuda})
    suppliers = (part for soname in case.needed for part in case.candidates(soname, majors))
    return any(part.site_folder == str(folder) for part in suppliers)


def _driver_findings(library: ScannedLibrary, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what the oldest driver of the CUDA major doesn't have: functions, zstd, PTX."""
    yield from _code_findings(library, case)
    if not any(is_from_driver(soname) for soname in elf.needed):
        return
    cuda = case.named_cuda or min(case.majors[library.name], default=library.runtime_major)
    newer: dict[str, list[str]] = {}
    for function in elf.driver_functions:
        release = release_of_function(function)
        if release and _order(release) > (cuda or 0, 0):
            newer.setdefault(release, []).append(function)
    if not newer:
        return
    newest = max(newer, key=_order)
    functions = [name for release in sorted(newer, key=_order) for name in newer[release]]
    shown = ", ".join((*functions[-_SHOWN:], *(["…"] if len(functions) > _SHOWN else [])))
    fact = f"it needs the driver of CUDA {newest} ({shown})"
    if least := oldest_driver(cuda):
        fact += f", but it is for CUDA {cuda}, whose oldest driver is {least}"
    severity = case.severity("warning" if least else "note")
    yield finding(library.name, "driver", fact, severity)


def _driverless_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the first extension module that links the driver's library."""
    for library, elf in case.host_libraries if not case.contract else ():
        needed = case.loader_graph.needs(library.name) if elf.python_modules else ()
        if any(map(is_from_driver, needed)):
            fact = "it links the driver's library: importing it fails without a driver, as in CI"
            yield finding(library.name, "driver", fact, "note")
            return


def _code_findings(library: ScannedLibrary, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a runtime, or compressed code, that the oldest driver of the named CUDA can't run."""
    cuda = case.named_cuda or min(case.majors[library.name], default=library.runtime_major)
    least, runtime = oldest_driver(cuda), library.runtime_major
    is_newer = bool(runtime and cuda and runtime > cuda)
    if is_newer and case.majors[library.name]:
        fact = f"the runtime of CUDA {library.cudart} is linked into it, which needs driver "
        fact += f"{oldest_driver(runtime)} or newer, but it is for CUDA {cuda}"
        yield finding(library.name, "driver", fact, case.severity("warning"))
    code = library.device_code
    if code and code.is_zstd and least and is_older(least, ZSTD_DRIVER):
        fact = f"its machine code is compressed with zstd, which needs driver {ZSTD_DRIVER} or "
        fact += f"newer, but it is for CUDA {cuda}, whose oldest driver is {least}"
        yield finding(library.name, "driver", fact, "warning")


def _abi_findings(name: str, elf: Elf, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a finding for PyTorch's C++ interface in a wheel for several of its releases."""
    symbols = elf.torch_symbols
    if case.contract is None or not case.contract.is_stable or not symbols:
        return
    shown = ", ".join((*symbols[:_SHOWN], *(["…"] if len(symbols) > _SHOWN else [])))
    fact = f"it needs {plural(len(symbols), 'symbol')} outside PyTorch's stable ABI ({shown})"
    yield finding(name, "framework ABI", fact)


def _order(release: str) -> tuple[int, int]:
    major, minor = release.split(".")
    return int(major), int(minor)


def _arch_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files with device code for other archs than the recipe's."""
    contract, codes = case.contract, device_codes(case)
    if contract is None:
        for name, code in {**dict(codes), **case.scan.device_files}.items():
            yield from _ptx_findings(name, code, case)
            yield from _lto_findings(name, code, case)
        return
    if not codes and (contract.archs or contract.ptx_archs):
        fact = f"no library contains device code, the target is for {_archs('sm', contract.archs)}"
        yield finding(case.scan.file_name, "archs", fact)
    for name, code in codes:
        for kind, archs, required in (
            ("sm", code.sass, contract.archs),
            ("compute", code.ptx, contract.ptx_archs),
        ):
            if archs != required:
                fact = (
                    f"it contains {_archs(kind, archs)}, "
                    f"the target requires {_archs(kind, required)}"
                )
                yield finding(name, "archs", fact)


def _removed_findings(name: str, elf: Elf) -> Iterator[AuditFinding]:
    """Yield a library whose device code was removed; what registers it with the runtime is left."""
    sections = {part.name for part in elf.sections}
    if ".nvFatBinSegment" in sections and not sections & {LOADED_SECTION, RELOCATABLE_SECTION}:
        fact = f"its device code was removed: it has .nvFatBinSegment, but no {LOADED_SECTION}"
        yield finding(name, "library", fact)


def _ptx_findings(name: str, code: DeviceCode, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield PTX that drivers of the named CUDA refuse, or that newer GPUs can't compile."""
    version, release = ".".join(map(str, code.ptx_version)), release_of_ptx(code.ptx_version)
    named = case.name_release
    if code.ptx and named and release and _order(release)[: len(named)] > named:
        fact = f"its PTX {version} needs the driver of CUDA {release}, but the wheel's name says "
        severity: Severity = "warning" if code.sass else "error"
        if _order(release)[0] == named[0]:  # drivers of the major release run all but PTX
            severity = "note" if code.sass else "warning"
        yield finding(name, "driver", f"{fact}CUDA {'.'.join(map(str, named))}", severity)
    if code.is_debug:
        fact = "its device code is compiled for a debugger (nvcc -G), without optimisation"
        yield finding(name, "archs", fact, "warning")
    if name in case.scan.device_files or name == case.scan.file_name:
        return  # one file for each arch
    if code.ptx and not code.sass:
        needs = f", if it is of CUDA {release} or newer" if release else ""
        fact = f"it has only PTX {version}, no machine code: the driver compiles it at first use"
        lowest = min(int(arch.rstrip("af")) for arch in code.ptx)
        is_new = lowest > _OLDEST_IN_USE and case.is_loaded(name)
        needs += f"; no GPU below {lowest // 10}.{lowest % 10} can run it" if is_new else ""
        yield finding(name, "archs", fact + needs, "warning" if is_new else "note")
    elif code.sass and not code.ptx and _is_of_jetson(name, code, case):
        fact = (
            f"it has only {_archs('sm', code.sass)}, of Jetson modules with arm64 processors, and "
        )
        yield finding(name, "archs", f"{fact}no PTX: no GPU of an x86-64 system runs it", "warning")
    elif code.sass and not code.ptx and _is_for_few(code.sass):
        fact = f"it has only {_archs('sm', code.sass)}, and no PTX: no other kind of GPU runs it"
        wider = _wider_than(name, code, case)
        fact += f", but {wider} is for more" if wider else ""
        is_bad = case.is_loaded(name) and (wider or _is_old(case) or _is_undocumented(case))
        yield finding(name, "archs", fact, "warning" if is_bad else "note")
    elif code.sass and not code.ptx and (gaps := gaps_of(code)):
        fact = f"it has only {_archs('sm', code.sass)}, and no PTX: GPUs of {' and '.join(gaps)} "
        yield finding(name, "archs", f"{fact}can't run it", "note")
    elif code.ptx and not any(map(str.isdecimal, code.ptx)):
        fact = f"its only PTX is {_archs('compute', code.ptx)}, which newer GPUs can't compile"
        yield finding(name, "archs", fact, "note")


def _lto_findings(name: str, code: DeviceCode, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield LTO-IR alone, where no library, Python code or requirement links it while it runs."""
    texts: list[str] = []
    for library, elf in case.host_libraries:
        opened = () if library.cudart else library.opened  # the runtime opens the driver
        texts += (*elf.needed, *opened, *elf.driver_functions, *library.undefined)
    is_linked = any(map(_LINKS.match, texts)) or bool(case.gpu_projects)
    is_linked |= any(map(_LINKER.search, case.scan.sources.values())) or case.is_supplier
    is_alone = code.lto and not (code.sass or code.ptx or code.tile)
    if is_alone and not is_linked and name != case.scan.file_name:
        fact = f"it has only LTO-IR ({_archs('lto', code.lto)}), which nvJitLink or the driver has "
        fact += "to link before a GPU runs it, and nothing in the wheel uses these"
        yield finding(name, "archs", fact, "warning")


def _wider_than(name: str, code: DeviceCode, case: AuditCase) -> str:
    """Return a loaded library that more GPUs run; empty if the name has an arch.

    Code for features of one arch, as of `90a`, is chosen by the GPU.
    """
    if _OF_ARCH.search(name.partition(".")[0].lower()):
        return ""
    own = {*code.sass}
    for other, codes in device_codes(case):
        is_wider = own < {*codes.sass} and case.is_loaded(other)
        if is_wider and all(map(str.isdecimal, own)):
            return PurePosixPath(other).name
    return ""


def _is_of_jetson(name: str, code: DeviceCode, case: AuditCase) -> bool:
    """Return True for code that no GPU of an x86-64 system runs."""
    elf = case.loader_graph.elves.get(name)
    is_x86 = elf is not None and elf.machine == MACHINES["x86_64"]
    return is_x86 and {arch.rstrip("af") for arch in code.sass} <= {*JETSON_ARCHS}


def _is_undocumented(case: AuditCase) -> bool:
    """Return True if all code is for one kind of GPU, by features of its own (`90a`), unnamed."""
    archs = {arch for _, code in device_codes(case) for arch in (*code.sass, *code.ptx)}
    text = f"{case.scan.file_name}\n{case.scan.metadata}"
    return len(archs) == 1 and not archs.pop().isdecimal() and not _NAMED_GPU.search(text)


def _is_old(case: AuditCase) -> bool:
    """Return True if no code of the wheel runs on a GPU since Ampere."""
    codes = [code for _, code in device_codes(case)]
    newest = max(int(arch.rstrip("af")) for code in codes for arch in (*code.sass, *code.ptx, "0"))
    return newest < _AMPERE


def _is_for_few(archs: tuple[str, ...]) -> bool:
    """Return True for one arch, or for several that each run on one kind of GPU."""
    return len(archs) == 1 or all(arch.endswith("a") for arch in archs)


def device_codes(case: AuditCase) -> list[tuple[str, DeviceCode]]:
    """Return each library with its device code; if none has any, all device files as one.

    There is often one such file for each arch. Libraries that a recipe copies in have the archs of
    NVIDIA's choice, and are left out.
    """
    files = case.scan.device_files
    codes = [
        (library.name, library.device_code)
        for library in case.scan.libraries
        if library.device_code
        and library.name not in files
        and not library.has_empty_code
        and not (case.contract and is_grafted(library.name))
    ]
    if codes or not files:
        return codes
    return [(case.scan.file_name, join_codes(files.values()))]


def _archs(kind: str, archs: tuple[str, ...]) -> str:
    return " ".join(f"{kind}_{arch}" for arch in archs) or f"no {kind}"
