"""The subject of an audit: a scanned wheel, and the contract of its recipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cuwheel.base import limits
from cuwheel.base.formats.binaries.elf import Elf
from cuwheel.base.formats.wheel.metadata import header, installed_path, parse_requirement
from cuwheel.check.audit.findings import Severity
from cuwheel.check.audit.installed_projects import unknown_among
from cuwheel.check.audit.python_code import PythonCode
from cuwheel.check.audit.scan import ScannedLibrary, WheelScan
from cuwheel.check.audit.tags import MACHINES, minor_of, oldest_minor, policies, policy_of
from cuwheel.check.cuda.components import KNOWN_COMPONENTS, Component
from cuwheel.check.cuda.driver_functions import release_of_function
from cuwheel.check.cuda.drivers import (
    ZSTD_DRIVER,
    driver_of_release,
    newest_driver,
    oldest_driver,
)
from cuwheel.check.cuda.frameworks import (
    Dependency,
    dependencies_of,
    extras_of,
    is_known,
    preloads,
)
from cuwheel.check.cuda.suppliers import components_of, cuda_major_of, is_from_driver
from cuwheel.check.linkage.loader_graph import LoaderGraph

if TYPE_CHECKING:
    from auditwheel.policy import Policy
    from packaging.tags import Tag
_MINORS, _PATCH = 40, 99  # of Python 3: more than there will be
_OLDEST_WITH_WHEELS = 11  # CUDA major
_OF_ENTRY = re.compile(r"^[^\[\n=]+=\s*([\w.]+)\s*:", re.MULTILINE)
_DIGITS = re.compile(r"\d+")
# A release of PyTorch in a file's name.
_OF_TORCH = re.compile(r"(?i)(torch|pt)[-_.v]?[12]\D?\d|[-_][12][._]\d+[._]\d")
_READ = re.compile(r"any$|linux_|manylinux")
_FOR_GPU = re.compile(r"^(lib|jax|tensorflow)|-cu1\d$|cuda|cupy|torch")
_NAMED_LIBRARY = re.compile(rb"""["'/](lib[\w+-]+)(\.so[.\d]*)?(["'{*?[])""")
# `+cu130`, `cupy-cuda13x`, `nvidia-cublas-cu12`: the CUDA major in a name.
_CUDA_IN_NAME = re.compile(r"(?:^|[-_+.])cu(?:da)?(1[1-9])(?:(\d)|x)?(?=$|[-_.]|torch)")


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The promises of a recipe about its wheel.

    Attributes:
        local_version: the part after `+`, without the mark of a source given with `--source`;
            empty: none.
        python: `3.12`; None if one wheel serves every Python.
        is_abi3: True if one wheel serves this Python and all later ones.
        mode: `external`, `bundled` or `static`.
        bundles: libraries of the build machine that it may hold, `libgomp`.
        extra: the extra that brings CUDA's libraries; empty if the wheel requires them itself.
        max_size: bytes.
    """

    project: str
    release: str
    local_version: str
    cuda: int
    python: str | None
    is_abi3: bool
    links: tuple[str, ...]
    has_driver: bool
    mode: str
    bundles: tuple[str, ...]
    extra: str
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    is_stable: bool
    max_size: int


@dataclass(frozen=True, kw_only=True)
class AuditCase:
    """A wheel under audit.

    Attributes:
        contract: of its recipe; None for a third-party wheel.
    """

    scan: WheelScan
    contract: Contract | None
    excludes: tuple[str, ...] = ()

    @cached_property
    def project(self) -> str:
        """The normalised project in the file name."""
        return canonicalize_name(self.scan.file_name.split("-")[0])

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """The tags in the file name; empty where that is no wheel's."""
        try:
            return parse_wheel_filename(self.scan.file_name)[3]
        except InvalidWheelFilename:
            return frozenset()

    @cached_property
    def oldest_python(self) -> int | None:
        """The minor release of the oldest Python that tags and `Requires-Python` allow."""
        known = (oldest_minor(self.tags), next(iter(self._stated_pythons), None))
        return max((minor for minor in known if minor is not None), default=None)

    @cached_property
    def newest_python(self) -> int:
        """The minor release of the newest Python that tags and `Requires-Python` allow."""
        minors = {minor_of(tag) for tag in self.tags}
        if minors and None not in minors:
            return max(filter(None, minors))
        return next(reversed(self._stated_pythons), _MINORS)

    @cached_property
    def _stated_pythons(self) -> tuple[int, ...]:
        """The minor releases in `Requires-Python`; empty where it isn't stated, or is invalid."""
        required = next(iter(header(self.scan.metadata, "requires-python")), "")
        try:
            allowed = SpecifierSet(required)
        except InvalidSpecifier:
            return ()
        minors = range(_MINORS if required else 0)
        return tuple(n for n in minors if allowed.contains(f"3.{n}.{_PATCH}"))

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags in the file name."""
        return tuple(sorted({tag.platform for tag in self.tags}))

    @cached_property
    def is_read(self) -> bool:
        """True if the tags are for Linux with glibc, the libraries of which are checked."""
        return not self.platforms or any(_READ.match(platform) for platform in self.platforms)

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """The manylinux policies of the platform tags, the one for the oldest systems first."""
        by_name = {policy.name: policy for tag in self.platforms if (policy := policy_of(tag))}
        return tuple(sorted(by_name.values(), key=lambda policy: -policy.priority))

    @cached_property
    def markers(self) -> Mapping[str, str]:
        """The values of requirements' markers that the tags decide."""
        machines = (name for name in MACHINES for tag in self.platforms if tag.endswith(name))
        values = {"platform_machine": next(machines, "x86_64")}
        minors = set(map(minor_of, self.tags))
        if len(minors) == 1 and (minor := minors.pop()) is not None:
            values |= {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.9"}
        return values

    @cached_property
    def system(self) -> frozenset[str]:
        """Sonames on every system of the tags; without a manylinux tag, of the newest manylinux."""
        fallback = policies(self.markers["platform_machine"])[-1:]
        lists = [policy.whitelist for policy in self.policies or fallback]
        return frozenset[str].intersection(*lists) if lists else frozenset()

    @cached_property
    def requires(self) -> tuple[str, ...]:
        """The `Requires-Dist` lines, except those nested too deeply for any installer."""
        lines = header(self.scan.metadata, "requires-dist")
        return tuple(line for line in lines if line.count("(") <= limits.BRACKETS)

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """The different `Requires-Dist` lines that can be parsed, in their order."""
        return tuple(filter(None, map(parse_requirement, dict.fromkeys(self.requires))))

    @cached_property
    def code(self) -> PythonCode:
        """The modules of Python code."""
        return PythonCode(names=self.scan.names, sources=self.scan.sources)

    @cached_property
    def started(self) -> frozenset[str]:
        """The modules that entry points load, and what these import."""
        return self.code.run_from(_OF_ENTRY.findall(self.scan.entry_points))

    def is_opened(self, name: str) -> bool:
        """Return True if Python code loads a library of the wheel, or one that it names, itself.

        Named are `libx.so.1`, `libx`, the pattern `libx.so.*` and the beginning of
        `f"libx{number}"`, in modules that load libraries, or the whole name in a data file.
        """
        stem = name.partition(".so")[0]
        is_module = any(map(self.code.is_always_loaded, self.loader_graph.owners(name)))
        is_named = bool({(name, True), (stem, True)} & self._named_by_python)
        return (is_module or is_named) or any(
            stem.startswith(text) for text, is_whole in self._named_by_python if not is_whole
        )

    @cached_property
    def _named_by_python(self) -> frozenset[tuple[str, bool]]:
        # A module in its folder may make the names: `libinfo.py` of projects with TVM's code.
        folders = {PurePosixPath(name).parent for name in self.scan.loaders}
        sources = (
            text
            for name, text in self.scan.sources.items()
            if name in self.scan.loaders
            or (name.endswith("libinfo.py") and PurePosixPath(name).parent in folders)
        )
        found = (match for text in sources for match in _NAMED_LIBRARY.findall(text))
        listed = self.scan.listed if self.scan.loaders else ()
        named = set()
        for stem, release, end in found:
            is_pattern = end in b"*?["
            name = stem if is_pattern else stem + release
            named.add((name.decode(), end in b"\"'" or (is_pattern and bool(release))))
        return frozenset(named.union((name, True) for name in listed))

    @cached_property
    def required(self) -> frozenset[str]:
        """Projects that the wheel requires on Linux without an extra."""
        always = (each for each in self.requirements if "" in extras_of(each, self.markers))
        return frozenset(canonicalize_name(each.name) for each in always)

    @cached_property
    def declared(self) -> tuple[Dependency, ...]:
        """Everything that the requirements install, as far as is known."""
        return dependencies_of(self.requires, self.markers)

    @cached_property
    def unknown_projects(self) -> tuple[str, ...]:
        """Required projects that may bring others, or libraries that no table has."""
        return unknown_among(name for name in self.required if not is_known(name))

    @property
    def gpu_projects(self) -> tuple[str, ...]:
        """Those of them that may bring libraries of CUDA, by their names."""
        return tuple(name for name in self.unknown_projects if _FOR_GPU.search(name))

    @cached_property
    def assumed(self) -> tuple[str, ...]:
        """Frameworks without a requirement that supply needed libraries.

        Only an import of the framework loads these libraries: users of the wheel have it, and its
        dependencies.
        """
        frameworks = {
            component.distribution
            for soname in self.needed - self.own.keys()
            for component in components_of(soname)
            if component.cuda is None and preloads(component.distribution)
        }
        return tuple(sorted(frameworks - {dependency.distribution for dependency in self.declared}))

    @cached_property
    def dependencies(self) -> tuple[Dependency, ...]:
        """Everything that the requirements and the assumed frameworks install."""
        return (*self.declared, *dependencies_of(self.assumed, self.markers))

    @cached_property
    def host_libraries(self) -> tuple[tuple[ScannedLibrary, Elf], ...]:
        """The readable libraries and programs for the host."""
        libraries = self.scan.libraries
        return tuple((lib, lib.elf) for lib in libraries if lib.elf and lib.elf.is_host_code)

    @cached_property
    def loader_graph(self) -> LoaderGraph:
        """The search of the loader among these."""
        return LoaderGraph(elves={library.name: elf for library, elf in self.host_libraries})

    @cached_property
    def needed(self) -> frozenset[str]:
        """Every soname in a `DT_NEEDED` of the wheel."""
        return frozenset(soname for _, elf in self.host_libraries for soname in elf.needed)

    @cached_property
    def majors(self) -> dict[str, frozenset[int]]:
        """CUDA majors of each library's needs, by name; ambiguous sonames don't count."""
        majors: dict[str, frozenset[int]] = {}
        for library, elf in self.host_libraries:
            known = [
                {part.cuda for part in components_of(name) if part.cuda} for name in elf.needed
            ]
            majors[library.name] = frozenset().union(*(ones for ones in known if len(ones) == 1))
        return majors

    @cached_property
    def cuda(self) -> tuple[int, ...]:
        """The CUDA majors that the wheel needs, in order; empty for none, or unknown.

        A linked or lazily opened runtime counts if it is newer than all needed libraries. The name
        and the requirements count only for code whose libraries tell nothing.
        """
        libraries = [library for library, _ in self.host_libraries]
        if not self.is_read or not (libraries or self.scan.device_files):
            return ()
        majors = {major for needed in self.majors.values() for major in needed}
        linked = {library.runtime_major for library in libraries} - {None}
        opened = {library.opened_major for library in libraries} - {None}
        for others in (linked, opened):
            newest = max(majors, default=0)
            majors |= {major for major in others if major and major > newest}
        return tuple(sorted(majors or ({self.named_cuda} if self.named_cuda else set())))

    @cached_property
    def drivers(self) -> tuple[tuple[int, str], ...]:
        """The oldest Linux driver for each of `cuda`, as far as it is known."""
        needs = {major: [oldest_driver(major)] for major in self.cuda}
        for library, elf in self.host_libraries:
            added = (release_of_function(function) for function in elf.driver_functions)
            needs_driver = any(map(is_from_driver, elf.needed))
            extra = [driver_of_release(release) for release in added if release and needs_driver]
            if library.device_code and library.device_code.is_zstd:
                extra.append(ZSTD_DRIVER)
            for major in self.majors[library.name] or self.cuda:
                needs.setdefault(major, []).extend(extra)
        found = ((major, newest_driver(drivers)) for major, drivers in sorted(needs.items()))
        return tuple((major, driver) for major, driver in found if driver)

    @cached_property
    def runtimes(self) -> tuple[str, ...]:
        """The releases of CUDA's runtime that are linked into the libraries, `12.8`."""
        releases = {library.cudart for library, _ in self.host_libraries if library.cudart}
        return tuple(sorted(releases, key=Version))

    @cached_property
    def files(self) -> dict[str, tuple[PurePosixPath, ...]]:
        """Folders of the libraries below site-packages, by file name, as the loader searches."""
        folders: dict[str, tuple[PurePosixPath, ...]] = {}
        for library, _ in self.host_libraries:
            if path := installed_path(library.name):
                folders[path.name] = (*folders.get(path.name, ()), path.parent)
        return folders

    @cached_property
    def own(self) -> dict[str, tuple[PurePosixPath, ...]]:
        """Folders by file name and by soname, under which a loaded library is found too."""
        folders = dict(self.files)
        for library, elf in self.host_libraries:
            path = installed_path(library.name)
            if path and elf.soname and elf.soname != path.name:
                folders[elf.soname] = (*folders.get(elf.soname, ()), path.parent)
        return folders

    def files_of(self, soname: str) -> tuple[str, ...]:
        """Return the files of libraries with this soname; empty if one has it as file name."""
        if soname in self.files:
            return ()
        libraries = (lib for lib, elf in self.host_libraries if elf.soname == soname)
        return tuple(PurePosixPath(library.name).name for library in libraries)

    @cached_property
    def is_supplier(self) -> bool:
        """True if this is a wheel of NVIDIA, which contains CUDA's libraries itself."""
        known = {component.distribution for component in KNOWN_COMPONENTS}
        return self.project in known or self.project.startswith("nvidia-")

    @cached_property
    def name_cuda(self) -> int | None:
        """The CUDA major in the file name: `cupy_cuda13x`, `+cu130`."""
        return next(iter(self.name_release), None)

    @cached_property
    def name_release(self) -> tuple[int, ...]:
        """The release of CUDA in the file name: (13, 0) of `+cu130`, (13,) of `cupy_cuda13x`."""
        match = _CUDA_IN_NAME.search(self.scan.dist_info.removesuffix(".dist-info"))
        return tuple(int(part) for part in match.groups() if part) if match else ()

    @cached_property
    def named_cuda(self) -> int | None:
        """The CUDA major in the contract, the wheel's name, or its requirements."""
        if self.contract:
            return self.contract.cuda
        if self.name_cuda:
            return self.name_cuda
        majors = {dep.cuda for dep in self.declared if dep.cuda and not dep.extra}
        return majors.pop() if len(majors) == 1 else None

    def is_imported(self, library: str) -> bool:
        """Return True if importing a module of the wheel loads a library."""
        return library in self._imported

    def is_loaded(self, library: str) -> bool:
        """Return True if importing a package loads a library, as a module or by its file name."""
        return library in self._imported or library in self._loaded

    @cached_property
    def _loaded(self) -> frozenset[str]:
        run = [self.scan.sources[name] for name in self.code.run if name in self.scan.loaders]
        names = (library.name for library, _ in self.host_libraries)
        files = {name: PurePosixPath(name).name.encode() for name in (names if run else ())}
        named = (name for name, file in files.items() if any(file in text for text in run))
        return frozenset[str]().union(*map(self.loader_graph.loaded_by, named))

    @cached_property
    def _imported(self) -> frozenset[str]:
        modules = (module.name for module, elf in self.host_libraries if elf.python_modules)
        return frozenset[str]().union(*map(self.loader_graph.loaded_by, modules))

    def severity(self, third_party: Severity) -> Severity:
        """Return `error` for a wheel with a contract, `third_party` for others."""
        return "error" if self.contract else third_party

    def candidates(self, soname: str, majors: frozenset[int]) -> tuple[Component, ...]:
        """Return the components with a soname, if possible those of the given CUDA majors.

        A contract is for one major, and excludes components of another.
        """
        known = components_of(soname)
        accepted = frozenset({self.contract.cuda}) if self.contract else majors
        fitting = tuple(part for part in known if part.cuda is None or part.cuda in accepted)
        is_old = bool(majors) and max(majors) < _OLDEST_WITH_WHEELS
        return fitting if self.contract or is_old else fitting or known

    def is_torch_variant(self, library: str) -> bool:
        """Return True for one of several, `ext_torch211.so` and `ext_torch212.so`."""
        stem = _DIGITS.sub("", library)
        same = [other for other, _ in self.host_libraries if _DIGITS.sub("", other.name) == stem]
        return len(same) > 1 and all(_OF_TORCH.search(other.name) for other in same)


def old_majors(sonames: Iterable[str]) -> frozenset[int]:
    """Return the CUDA majors of libraries that no wheel of NVIDIA's has, as of CUDA 10."""
    majors = (int(cuda_major_of(soname) or _OLDEST_WITH_WHEELS) for soname in sonames)
    return frozenset(major for major in majors if major < _OLDEST_WITH_WHEELS)
