"""The suppliers of the symbols that a wheel's libraries need: itself, PyTorch, the system.

Only symbols without a library and a version count: they are bound when a library is loaded, and
Python loads with `RTLD_NOW`. A symbol counts as undefined if all possible suppliers are known.

A symbol of this machine's glibc and compiler libraries counts as theirs, which only removes
findings. The absence of one is no proof, as the libraries may be older than those of a wheel's tag:
functions of glibc 2.28 and later (its NEWS) are known by their names, those of libstdc++ by their
namespaces.
"""

from __future__ import annotations

import ctypes
import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from cuwheel.base.formats.binaries.elf_symbols import Exports, has_old_string
from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.scan import ScannedLibrary
from cuwheel.check.audit.tags import minor_of
from cuwheel.check.cuda.driver_functions import is_driver_function
from cuwheel.check.cuda.frameworks import extras_of, has_common_release
from cuwheel.check.cuda.library_functions import runtime_majors
from cuwheel.check.cuda.suppliers import (
    components_of,
    cuda_major_of,
    is_cuda_library,
    is_from_driver,
    stem_of,
)
from cuwheel.check.cuda.torch_exports import (
    MACHINES_OF_TABLE,
    NEW_STRING,
    is_judged,
    is_kept,
    torch_exports,
)

_PYTHON = re.compile(r"_?Py[A-Z_]")
_NUMBER = re.compile(r"\d+")
_CUDA = re.compile(r"(__)?(cu|nv|npp|ncc)|_ZN?K?\d+nv")
_RUNTIME = re.compile(r"cuda[A-Z]")
_OLDEST_RUNTIME = 11  # with known functions
_OF_RELEASE = re.compile(r"_(\d+)_\d+$")  # `__nvJitLinkCreate_13_0`
_STRING_ABI = re.compile(r"(?i)cxx11[-_.]?abi[-_.]?(true|false|)")
LINKED = "__cudaRegisterLinkedBinary_"  # which the device link defines
# Those that don't load the driver's library themselves (`DT_NEEDED`).
_NO_DRIVER = re.compile(
    r"lib(cudart|cublas(Lt)?|cufft|curand|cusparse|cusolver|nvrtc|nvJitLink|npp\w+)\.so"
)
_TENSORRT = re.compile(r"libnv(infer|onnxparser)")  # its functions have no prefix
# Up to librt, separate libraries before glibc 2.34.
_SONAMES = (
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
    *("libstdc++.so.6", "libgcc_s.so.1"),
)
_LOADER = re.compile(r"ld-linux.*\.so\.\d+")
# Of libstdc++, and of the libraries that compilers generate calls to.
_COMPILER = re.compile(
    r"_ZN?[VrK]*[RO]?S[tabsiod]|_ZT[VIS](N?S|N10__cxxabiv1)|_Z(nw|na|dl|da)|__cxa_|_ITM_|__gxx_|_Unwind_"
    r"|_ZNK?(9__gnu_cxx|11__gnu_debug|10__cxxabiv1)|_ZGTt"
    r"|GOMP_|omp_|__kmpc_|__tsan_|__asan_|__ubsan_|__gcov_|__sanitizer_"
)
# Libraries of compilers, each with what only it defines.
_RUNTIMES = {
    "libgomp": re.compile(r"GOMP_|GOACC_"),
    "libomp": re.compile(r"__kmpc_"),
    "libgfortran": re.compile(r"_gfortran_"),
    "libquadmath": re.compile(r"quadmath_snprintf|strtoflt128"),
    "libatomic": re.compile(r"__atomic_\w+_(16|8|4|2|1)$|__atomic_(load|store|is_lock_free)$"),
    "libasan": re.compile(r"__asan_(init|report_|register_|version_)"),
    "libtsan": re.compile(r"__tsan_(init|func_|read|write)"),
    "libubsan": re.compile(r"__ubsan_handle_"),
}
_LOADS_DRIVER = re.compile(rb"libcuda\b|RTLD_GLOBAL|find_library|pathfinder|[\"']cuda[\"']")
_PLAIN = frozenset({"libcudart", "libcuda", "libz"})  # in C, or with their C++ linked in
_NEW_IN_GLIBC = re.compile(
    r"(__libc_|__isoc\d\d_|__rseq_|_dl_|arc4random|pidfd_|stdc_|(thrd|mtx|cnd|tss)_)\w*"
    r"|(str|wcs)l(cpy|cat)|[fl]?stat(64|at|at64)?|statx|mknod(at)?|fcntl64|renameat2|mallinfo2"
    r"|getcpu|getdents64|gettid|tgkill|twalk_r|close_range|closefrom|execveat|_Fork|process_m(advise|release)|epoll_pwait2"
    r"|timespec_getres|(sem|pthread_\w+)_clock\w+|sched_[gs]etattr|call_once"
    r"|(sig\w+|strerror\w+|pthread_\w+|posix_spawn\w+)_np|__memcmpeq|c8rtomb|mbrtoc8"
)


@dataclass(frozen=True, kw_only=True)
class TorchFit:
    """The releases of PyTorch with which a library can be loaded.

    Attributes:
        lacking: a name that the newest of `wrong` doesn't export.
        count: of such names in all of `wrong`.
        is_for_none: no allowed release has all symbols.
        is_other_string_abi: compiled with the other one of libstdc++'s two strings than the allowed
            releases of the index; builds of these from elsewhere may have it.
    """

    lacking: str
    count: int
    fitting: tuple[str, ...]
    wrong: tuple[str, ...]
    newest: str
    is_for_none: bool
    is_newer_allowed: bool
    is_other_string_abi: bool


@dataclass(frozen=True, kw_only=True)
class SymbolNeeds:
    """The symbols that the libraries of a wheel need of others."""

    case: AuditCase

    @cached_property
    def torch_requirement(self) -> SpecifierSet | None:
        """The releases of PyTorch that the wheel requires; None: it requires none."""
        lines = [Requirement(text) for text in self.case.requires if project_of(text) == "torch"]
        active = [line.specifier for line in lines if "" in extras_of(line, self.case.markers)]
        return reduce(operator.and_, active, SpecifierSet()) if active else None

    @property
    def is_torch_judged(self) -> bool:
        """True if the libraries are PyTorch extensions for machines of the table of exports."""
        has_table = any(tag.endswith(MACHINES_OF_TABLE) for tag in self.case.platforms)
        return has_table and self._has_torch and self.case.project != "torch"

    def torch_fit(self, library: ScannedLibrary) -> TorchFit | None:
        """Return the allowed releases of PyTorch that lack symbols; None: none does.

        A wheel may contain one library for each release, `libx_torch2.4.so` and
        `libx_torch2.5.so`: then a release fits if it fits one of these.
        """
        table = torch_exports()
        required = self.torch_requirement or SpecifierSet()
        allowed = table.allowed_by(required, self._pythons)
        needed = self._torch_releases(library)
        fitting = self._fitting(library)
        wrong = tuple(release for release in allowed if release not in fitting)
        if not wrong:
            return None
        lacking = [name for name, releases in needed.items() if set(wrong) - releases]
        newest = [name for name in lacking if wrong[-1] not in needed[name]]
        beyond = SpecifierSet(f">{table.releases[-1]}")
        return TorchFit(
            lacking=min(newest, key=lambda name: (name.startswith("_ZT"), len(name), name)),
            count=len(lacking),
            fitting=tuple(release for release in table.releases if release in fitting),
            wrong=wrong,
            newest=allowed[-1],
            is_for_none=wrong == tuple(allowed),
            is_newer_allowed=has_common_release(beyond, self.torch_requirement or beyond),
            is_other_string_abi=wrong == allowed and self._is_other_string_abi(needed, wrong),
        )

    def loads_with(self) -> tuple[str, ...] | None:
        """Return the releases of PyTorch that have all symbols of all libraries, in order.

        None: no library uses PyTorch, or it isn't known which symbols it has for this machine.
        """
        libraries = [library for library, _ in self.case.host_libraries if self.uses_torch(library)]
        if not (self.is_torch_judged and libraries):
            return None
        releases = torch_exports().allowed_by(SpecifierSet(), self._pythons)
        fitting = [self._fitting(library) for library in libraries]
        return tuple(release for release in releases if all(release in fits for fits in fitting))

    @property
    def _pythons(self) -> list[int]:
        """Minor releases of the tags' Pythons; empty: a tag is for several, so any may be."""
        minors = [minor_of(tag) for tag in self.case.tags]
        return [] if None in minors else sorted(filter(None, minors))

    def _fitting(self, library: ScannedLibrary) -> set[str]:
        """Return the releases that have the symbols of a library, or of another one of its name."""
        stem = _NUMBER.sub("", library.name)
        same = (
            other for other, _ in self.case.host_libraries if _NUMBER.sub("", other.name) == stem
        )
        releases = torch_exports().releases
        needs = (self._torch_releases(other) for other in same)
        return set[str]().union(*(set(releases).intersection(*need.values()) for need in needs))

    def uses_torch(self, library: ScannedLibrary) -> bool:
        """Return True if a library needs a symbol of PyTorch."""
        return bool(self._torch_releases(library))

    def unsupplied(self, library: ScannedLibrary) -> tuple[str, ...]:
        """Return the symbols without a supplier."""
        if library.exports is None or ".so" not in PurePosixPath(library.name).name:
            return ()
        foreign = self.case.loader_graph.needs(library.name) - self.case.own.keys()
        kinds = {self._kind(soname) for soname in foreign}
        is_driver_missing = not (
            kinds & {"unknown", "torch"} or self._has_torch or self._may_load_driver
        ) and all(self._kind(name) != "cuda" or _NO_DRIVER.match(name) for name in foreign)
        loaded = frozenset(map(stem_of, self.case.loader_graph.needs(library.name)))
        is_runtime_known = all(self._kind(n) == "runtime" or stem_of(n) in _PLAIN for n in foreign)
        may_be_c = "system" in kinds
        runtimes = {
            int(cuda_major_of(name) or 0) for name in foreign if stem_of(name) == "libcudart"
        }
        unversioned = tuple(
            name
            for name in library.undefined
            if name not in self._own_exports
            and (
                name.startswith(LINKED)
                or (is_driver_missing and is_driver_function(name))
                or (is_runtime_known and _is_other_runtime(name, loaded))
                or (
                    "unknown" not in kinds
                    and not (may_be_c and not name.startswith("_Z"))
                    and not self._may_be_defined(name, kinds, runtimes)
                )
            )
        )
        return tuple(dict.fromkeys((*unversioned, *self._of_other_cuda(library))))

    def _of_other_cuda(self, library: ScannedLibrary) -> Iterator[str]:
        """Yield functions of a needed library that only other CUDA majors have, of any version."""
        loaded = self.case.loader_graph.needs(library.name)
        majors = {
            stem: {int(cuda_major_of(name) or 0) for name in loaded if stem_of(name) == stem}
            for stem in ("libcudart", "libnvJitLink")
        }
        functions = library.elf.runtime_functions if library.elf else ()
        for name in functions if min(majors["libcudart"], default=0) >= _OLDEST_RUNTIME else ():
            known = runtime_majors(name)
            if known and known.isdisjoint(majors["libcudart"]) and name not in self._own_exports:
                yield name
        newest = max(majors["libnvJitLink"], default=0)
        for name in library.elf.nvjitlink_functions if library.elf and newest else ():
            release = _OF_RELEASE.search(name)
            if release and int(release[1]) > newest and name not in self._own_exports:
                yield name

    def of_math(self, library: ScannedLibrary) -> list[str]:
        """Return the functions of libm that a library needs, and that no need of it loads."""
        if not set(self.case.loader_graph.needs(library.name)) <= {"libc.so.6", "libgcc_s.so.1"}:
            return []
        names = (name for name in library.undefined if name not in self._own_exports)
        return [
            name
            for name in names
            if _of_handle("libm.so.6", name) and not _of_handle("libc.so.6", name)
        ]

    def of_python(self, library: ScannedLibrary) -> tuple[list[str], bool]:
        """Return the names of Python that a library needs, and if no other library may define them.

        Those that an unknown library may define are none of Python's, whatever they begin with.
        """
        foreign = self.case.loader_graph.needs(library.name) - self.case.own.keys()
        names = [name for name in library.undefined if _PYTHON.match(name)]
        is_closed = "unknown" not in map(self._kind, foreign)
        return [name for name in names if name not in self._own_exports], is_closed

    @cached_property
    def unknown_suppliers(self) -> tuple[str, ...]:
        """Required projects with libraries that the wheel's Python code may load before its own.

        With `RTLD_GLOBAL` these define symbols for all others, and no table has theirs.
        """
        return self.case.unknown_projects if self.case.scan.loaders else ()

    @cached_property
    def _may_load_driver(self) -> bool:
        """True if Python code may load the driver's library before others, for all of them."""
        texts = [self.case.scan.sources.get(name, b"libcuda") for name in self.case.scan.loaders]
        return any(map(_LOADS_DRIVER.search, texts)) or bool(texts and self.case.unknown_projects)

    @cached_property
    def _may_load_cuda(self) -> bool:
        """True if something may load libraries of CUDA for all others; a requirement loads none."""
        case = self.case
        is_brought = any(dep.by != dep.distribution for dep in case.dependencies)
        is_needed = any(map(is_cuda_library, case.needed))
        may_load = is_brought or is_needed or bool(case.scan.loaders or case.unknown_projects)
        return bool(case.dependencies) and may_load

    @cached_property
    def _has_torch(self) -> bool:
        is_required = any(dep.by == "torch" for dep in self.case.dependencies)
        return is_required or "torch" in self.case.assumed

    def _torch_releases(self, library: ScannedLibrary) -> dict[str, set[str]]:
        """Return the releases of PyTorch with each symbol that a library needs of it."""
        table = torch_exports()
        return {
            name: set(table.releases_with(name))
            for name in library.undefined
            if (is_judged(name) or table.releases_with(name))
            and name not in self._own_exports
            and not runtime_defines(name)
        }

    @cached_property
    def _own_exports(self) -> Exports:
        """The symbols that the wheel's libraries define: each may be loaded before another."""
        tables = (lib.exports for lib, _ in self.case.host_libraries if lib.exports)
        return Exports.of(value for table in tables for value in table.hashes)

    def _is_other_string_abi(self, needed: dict[str, set[str]], releases: Iterable[str]) -> bool:
        """Return True if no release has the wheel's kind of strings.

        Builders write it into versions, `+cu123torch2.4cxx11abiTRUE`; otherwise it shows in all
        symbols that are missing.
        """
        table = torch_exports()
        if match := _STRING_ABI.search(self.case.scan.file_name):
            is_new = match[1].lower() != "false"
            return all(table.has_new_strings(release) != is_new for release in releases)
        return all(
            _has_other_string(name, release)
            for release in releases
            for name, exporting in needed.items()
            if release not in exporting
        )

    def _kind(self, soname: str) -> str:
        if soname in _SONAMES or _LOADER.fullmatch(soname):
            return "runtime"
        if _TENSORRT.match(soname):
            return "system"
        if is_from_driver(soname) or is_cuda_library(soname):
            return "cuda"
        suppliers = components_of(soname)
        if any(component.distribution == "torch" for component in suppliers):
            return "torch"
        if suppliers:
            return "cuda"
        return "system" if soname in self.case.system else "unknown"

    def _may_be_defined(self, name: str, kinds: set[str], runtimes: set[int]) -> bool:
        """Return True if a loaded library of these kinds may define a symbol.

        Args:
            runtimes: CUDA majors of the runtimes that it loads.
        """
        if _PYTHON.match(name) or runtime_defines(name):
            return True
        if ("torch" in kinds or self._has_torch) and (
            not is_kept(name) or is_judged(name) or torch_exports().releases_with(name)
        ):
            return True
        may_be_cuda = not kinds.isdisjoint({"cuda", "system"}) or self._may_load_cuda
        if _RUNTIME.match(name) and min(runtimes, default=0) >= _OLDEST_RUNTIME:
            return not runtimes.isdisjoint(runtime_majors(name))
        return may_be_cuda and bool(_CUDA.match(name))


def _stem(library: ScannedLibrary) -> str:
    """Return the name of a library without its releases, `libx_torch.so` of `libx_torch2.4.so`."""
    return _NUMBER.sub("", library.name)


def _has_other_string(name: str, release: str) -> bool:
    """Return True if a symbol has the string that this release of PyTorch doesn't have."""
    table = torch_exports()
    if not table.has_new_strings(release):
        return NEW_STRING in name
    return has_old_string(name) or table.returns_new_string(name)


def _is_other_runtime(name: str, loaded: frozenset[str]) -> bool:
    """Return True for a function of a compiler's library that isn't loaded: Python has none."""
    for stem, pattern in _RUNTIMES.items():
        if pattern.match(name):
            return stem not in loaded
    if "libstdc++" in loaded or not _of_handle("libstdc++.so.6", name):
        return False
    # libgcc's own are hidden, but for those that unwind the stack.
    is_gcc = _of_handle("libgcc_s.so.1", name)
    return not (is_gcc and ("libgcc_s" in loaded or not name.startswith("_Unwind_"))) and not (
        _of_handle("libm.so.6", name)
    )


@cache
def _of_handle(soname: str, name: str) -> bool:
    """Return True if a library of this machine, or one that it needs, has a symbol."""
    library = next((lib for lib in _libraries() if lib._name == soname), None)  # noqa: SLF001
    return library is not None and hasattr(library, name)


@cache
def runtime_defines(name: str) -> bool:
    """Return True if one of them has a symbol, on this machine or a newer one."""
    is_known = bool(_COMPILER.match(name) or _NEW_IN_GLIBC.fullmatch(name))
    return is_known or any(hasattr(library, name) for library in _libraries())


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    libraries = []
    for soname in _SONAMES:
        try:
            libraries.append(ctypes.CDLL(soname))
        except OSError:  # noqa: PERF203 - a machine without libstdc++
            continue
    return tuple(libraries)
