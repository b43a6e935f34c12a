"""The conditions under which a wheel gets a component: required, by an extra, loaded before."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import installed_path, project_of
from cuwheel.check.audit.case import AuditCase, old_majors
from cuwheel.check.audit.findings import Severity
from cuwheel.check.audit.installed_projects import project_of_module
from cuwheel.check.audit.scan import ScannedLibrary
from cuwheel.check.cuda.components import KNOWN_COMPONENTS, Component
from cuwheel.check.cuda.frameworks import Dependency, extras_of, has_common_release, preloads
from cuwheel.check.cuda.suppliers import components_of, is_other_accelerator

# Loads NVIDIA's libraries by name, wherever they are (its README), and NVRTC's builtins with it
# (`load_dl_linux.py`, 1.9.0): a wheel that requires it leaves the search to it.
_FINDER = "cuda-pathfinder"
_CUDA_SUFFIX = re.compile(r"-cu(da)?[0-9]+x?$")
_SHARED_TOPS = (("lib",), ("lib64",))  # of no single project
_TENSORRT_LIBS = re.compile(r"(tensorrt-cu\d+)-libs")


@dataclass(frozen=True, kw_only=True)
class SupplierConditions:
    """The requirements of a wheel, and the packages that load its needs."""

    case: AuditCase

    @cached_property
    def has_alternatives(self) -> bool:
        """True if the wheel has libraries for several CUDA majors or GPU makers; one is loaded."""
        others = any(is_other_accelerator(soname) for soname in self.case.needed)
        decided = self.decided_majors
        is_chosen = any(not self._is_plain_module(root) for root in decided)
        return (len(set(decided.values())) > 1 and is_chosen) or (bool(decided) and others)

    @cached_property
    def decided_majors(self) -> dict[str, int]:
        """The CUDA major of each root that loads only one."""
        brought = {root: self.majors_brought_by(root) for root in self.case.loader_graph.roots}
        return {root: next(iter(majors)) for root, majors in brought.items() if len(majors) == 1}

    def _is_plain_module(self, library: str) -> bool:
        """Return True for an extension module without the CUDA in its name, so that any is used."""
        elf = self.case.loader_graph.elves[library]
        return bool(elf.python_modules) and not re.search(r"1[1-9]", library.partition(".")[0])

    def majors_brought_by(self, library: str) -> dict[int, str]:
        """Return the CUDA majors that a library loads, each with the library that needs it."""
        brought: dict[int, str] = {}
        for loaded in self.case.loader_graph.loaded_by(library):
            for major in sorted(self.case.majors[loaded]):
                brought.setdefault(major, loaded)
        return brought

    def majors_of(self, library: ScannedLibrary) -> frozenset[int]:
        """Return the CUDA majors for the choice between components with one soname."""
        own = self.case.majors[library.name]
        if not own and library.elf and (old := old_majors(library.elf.needed)):
            return old
        decided = self.case.named_cuda or library.runtime_major
        return own or (frozenset({decided}) if decided else frozenset())

    def component(self, library: ScannedLibrary, soname: str) -> Component | None:
        """Return the component that supplies a soname to a library."""
        return next(iter(self.case.candidates(soname, self.majors_of(library))), None)

    def dependencies_for(self, library: ScannedLibrary | None) -> tuple[Dependency, ...]:
        """Return what is installed where a library is loaded; None: where any is.

        A framework that nothing requires is there if the library, or Python code, loads it.
        """
        case = self.case
        needs = case.loader_graph.needs(library.name) if library else case.needed
        loaded = {part.distribution for name in needs for part in components_of(name)}
        loaded |= {item.module.partition(".")[0] for item in case.code.imports}
        absent = set(case.assumed) - loaded
        return tuple(dep for dep in case.dependencies if dep.by not in absent)

    def condition(
        self, component: Component, soname: str, library: ScannedLibrary | None = None
    ) -> tuple[str, Severity | None]:
        """Return the condition of a component's installation; a severity if there is none."""
        name, contract = component.distribution, self.case.contract
        if name in self.case.required:
            return "", None
        if contract:
            marker = f'extra == "{contract.extra}"'
            if any(name == project_of(text) for text in self.case.requires if marker in text):
                return f"with the extra {contract.extra}", None
            return "", "error"
        deps = [dep for dep in self.dependencies_for(library) if dep.distribution == name]
        if name in self.case.assumed or not deps:
            return "", self._severity_of_missing(component, soname, library)
        if sure := next((dep.by for dep in deps if not dep.extra), ""):
            return f"with {sure}", None
        text = f"with the extra {' or '.join(sorted({dep.extra for dep in deps}))}"
        others = self.case.scan.loaders or self.case.unknown_projects
        is_loaded = bool(others) or self.has_alternatives or _FINDER in self.case.required
        is_vital = not is_loaded and self.case.loader_graph.is_vital((soname,))
        return text, "warning" if is_vital else None

    def why_missing(self, component: Component) -> str:
        """Return why a component isn't installed with the wheel."""
        name = component.distribution
        lines = [line for line in self.case.requires if project_of(line) == name]
        if not lines:
            return "which isn't in Requires-Dist"
        extras = {
            extra for line in lines for extra in extras_of(Requirement(line), self.case.markers)
        }
        if extras:
            return f"which only the extra {' or '.join(sorted(extras))} requires"
        marker = lines[0].partition(";")[2].strip()
        return f"whose requirement is never true on a current Linux: {marker}"

    def contradiction(self, component: Component) -> str:
        """Return a requirement that brings no release with the component's sonames, or empty.

        If several requirements name the wheel, it is enough if one of them brings such a release.
        """
        names = {component.distribution}
        if match := _TENSORRT_LIBS.fullmatch(component.distribution):
            names |= {match[1], "tensorrt"}  # which require those of their own release
        lines = [Requirement(line) for line in self.case.requires if project_of(line) in names]
        active = [line for line in lines if extras_of(line, self.case.markers)]
        if not active or any(self._brings(component, line.specifier) for line in active):
            return ""
        return f"{active[0].name}{active[0].specifier}"

    def _brings(self, component: Component, allowed: SpecifierSet) -> bool:
        """Return True if a requirement allows the releases with the component's sonames.

        An installer takes the newest: it must not allow those with the next sonames, unless a
        framework decides.
        """
        deps = self.case.dependencies
        is_decided = any(d.distribution == component.distribution != d.by for d in deps)
        newer = (
            part.releases
            for part in KNOWN_COMPONENTS
            if part.distribution == component.distribution and _first(part) > _first(component)
        )
        return has_common_release(SpecifierSet(component.releases), allowed) and (
            is_decided or not any(has_common_release(SpecifierSet(text), allowed) for text in newer)
        )

    def other_release(self, component: Component) -> str:
        """Return the required wheel of the same library for another CUDA major, or empty."""
        same = (
            part.distribution
            for part in KNOWN_COMPONENTS
            if part.name == component.name and part.cuda != component.cuda
        )
        return next((name for name in same if name in self.case.required), "")

    def installed(self) -> frozenset[str]:
        """Return the projects that are installed with the wheel, and with the contract's extra."""
        contract = self.case.contract
        extras = {"", contract.extra if contract else ""}
        return frozenset(dep.distribution for dep in self.case.dependencies if dep.extra in extras)

    def loader_of(self, soname: str, component: Component, library: ScannedLibrary) -> str:
        """Return the known project that loads a library before the wheel does, or empty."""
        for dep in self.dependencies_for(library):
            if dep.distribution == component.distribution and preloads(dep.by, soname):
                return dep.by
        return _FINDER if _FINDER in self.case.required else ""

    def is_sibling(self, component: Component) -> bool:
        """Return True for the other part of a project, as of tensorrt-cu12, which requires both."""
        stem, _, _ = self.case.project.replace("-dispatch-", "-").rpartition("-")
        return bool(stem) and component.distribution.rpartition("-")[0] == stem

    def is_loaded(self, pattern: str) -> bool:
        """Return True if the wheel, a framework or the finder loads a library that is opened."""
        loaders = {self.case.project, *(dep.by for dep in self.case.dependencies)}
        return (
            any(fnmatchcase(soname, pattern) for soname in self.case.needed)
            or any(preloads(loader, pattern) for loader in loaders)
            or _FINDER in self.case.required
        )

    def required_releases(self, component: Component) -> list[SpecifierSet]:
        """Return the required releases of a component; any if the wheel names none.

        The parts of a toolkit have its release; cuda-toolkit requires those of its own.
        """
        names = {component.distribution}
        if "{release}" in component.requirement:
            names.add("cuda-toolkit")
        lines = [text for text in self.case.requires if project_of(text) in names]
        return [Requirement(text).specifier for text in lines] or [SpecifierSet()]

    def imported_namesake(self, soname: str) -> str:
        """Return the project with a library's name that Python code always imports, or empty."""
        modules = (item.module.partition(".")[0] for item in self.case.code.imports)
        others = (name for name in modules if name not in self.case.code.folders)
        return self.namesake(soname, filter(None, map(project_of_module, others)))

    def namesake(self, soname: str, projects: Iterable[str] | None = None) -> str:
        """Return the requirement with a library's name: `librmm-cu13` for `librmm.so`."""
        wanted = _normalised(soname.partition(".so")[0])
        projects = map(project_of, self.case.requires) if projects is None else projects
        for name in dict.fromkeys(projects):
            stem = _normalised(_CUDA_SUFFIX.sub("", name))
            if stem and (f"-{wanted}-" in f"-{stem}-" or f"{wanted}-".startswith(f"{stem}-")):
                return name
        return ""

    def expected_from(self, library: ScannedLibrary) -> str:
        """Return the requirement into which an rpath entry leads: `pyqt6-qt6` for `PyQt6/Qt6/lib`.

        One with the wheel's own name, `sherpa-onnx-core`, may share its folders.

        Empty if the entry's folder holds files of the wheel itself, or has no required name.
        """
        unknown = self.case.required - {part.distribution for part in KNOWN_COMPONENTS}
        for folder in self.case.loader_graph.folders(library.name):
            if any(folder in folders for folders in self.case.files.values()):
                continue
            parts = set(map(canonicalize_name, folder.parts))
            for name in sorted(unknown):
                if not parts.isdisjoint({name, *name.split("-")}):
                    return name
            if folder.parts[:1] not in self._own_tops:
                likely = self.case.gpu_projects or self.case.unknown_projects
                is_shared = folder.parts[:1] in _SHARED_TOPS
                if self.case.gpu_projects or (len(likely) == 1 and not is_shared):
                    return likely[0]
        own = f"{_CUDA_SUFFIX.sub('', self.case.project)}-"
        return next((name for name in sorted(unknown) if name.startswith(own)), "")

    @cached_property
    def _own_tops(self) -> frozenset[tuple[str, ...]]:
        """The wheel's folders directly below site-packages, and NVIDIA's."""
        paths = filter(None, map(installed_path, self.case.scan.names))
        return frozenset({("nvidia",), *(path.parts[:1] for path in paths)})

    def namesakes(self, library: ScannedLibrary) -> list[str]:
        """Return requirements that seem to supply another need of a library."""
        needed = library.elf.needed if library.elf else ()
        known = (*self.case.system, *self.case.files)
        unknown = [name for name in needed if name not in known and not components_of(name)]
        return [project for name in unknown if (project := self.namesake(name))]

    def _severity_of_missing(
        self, component: Component, soname: str, library: ScannedLibrary | None
    ) -> Severity:
        """Return the severity of a component without requirement, in a third-party wheel.

        A part of a wheel may be for users who have more than the wheel requires. NVIDIA's wheels
        leave the release of CUDA to the packages that require them. A framework is imported
        before, by users who chose its build.
        """
        if self.is_sibling(component):
            return "note"
        if preloads(component.distribution):
            return "warning"
        if self.has_alternatives:
            return "note"
        if _FINDER in self.case.required or self.case.is_supplier:
            return "warning"
        missing = {
            name
            for name in self.case.needed
            if any(part.distribution == component.distribution for part in components_of(name))
        }
        graph, names = self.case.loader_graph, {soname, *missing}
        is_lost = graph.is_vital(names) or (library is not None and self._is_run(library, names))
        return "error" if is_lost else "warning"

    def _is_run(self, library: ScannedLibrary, sonames: Iterable[str]) -> bool:
        """Return True if importing a package always loads a library, and nothing sonames before."""
        case, graph = self.case, self.case.loader_graph
        is_free = not (case.unknown_projects or any(map(case.is_opened, sonames)))
        roots = filter(case.code.is_always_loaded, graph.roots if is_free else ())
        return any(library.name in graph.loaded_by(root) for root in roots)


def _first(component: Component) -> int:
    """Return 8 for the releases `>=8,<9`; -1 where they aren't known."""
    start = component.releases.partition(",")[0].removeprefix(">=")
    return int(start) if start.isdigit() else -1


def _normalised(name: str) -> str:
    """Return `rapids-logger` for `librapids_logger` and `rapids-logger`."""
    return "-".join(part.removeprefix("lib") for part in re.split(r"[-_.]+", name.lower()))
