"""When a wheel gets a component: required, by an extra, loaded before by another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cuwheel.audit.loader_paths import LoaderGraph
from cuwheel.cuda.components import KNOWN_COMPONENTS
from cuwheel.cuda.frameworks import extras_of, has_common_release, preloads
from cuwheel.cuda.suppliers import components_of, is_other_accelerator, resolve_entry
from cuwheel.wheel.metadata import installed_path, project_of

if TYPE_CHECKING:
    from cuwheel.audit.case import Case
    from cuwheel.audit.findings import Severity
    from cuwheel.audit.scan import ScannedLibrary
    from cuwheel.cuda.components import Component


# Loads NVIDIA's libraries by name, wherever they are (its README), and the builtins of NVRTC with
# it (`load_dl_linux.py`, 1.9.0): who requires it leaves finding them to it.
_FINDER = "cuda-pathfinder"
_CUDA_SUFFIX = re.compile(r"-cu(da)?[0-9]+x?$")


@dataclass(frozen=True, kw_only=True)
class SupplierConditions:
    """What a wheel's requirements bring, and who loads what.

    Attributes:
        case: the wheel.
    """

    case: Case

    @cached_property
    def loader_graph(self) -> LoaderGraph:
        """Which of its libraries the loader finds from which."""
        return LoaderGraph(case=self.case)

    @cached_property
    def has_alternatives(self) -> bool:
        """Whether it holds libraries for several kinds of GPU or CUDA, of which one gets loaded."""
        brought = [self.majors_brought_by(one) for one in self.loader_graph.roots]
        decided = {next(iter(majors)) for majors in brought if len(majors) == 1}
        others = any(is_other_accelerator(soname) for soname in self.case.needed)
        return len(decided) > 1 or (bool(decided) and others)

    def majors_brought_by(self, library: ScannedLibrary) -> dict[int, str]:
        """The CUDA majors that come into the process with a library, each with who needs it."""
        brought: dict[int, str] = {}
        for one in self.loader_graph.brought_by(library):
            for major in sorted(self.case.majors[one.name]):
                brought.setdefault(major, one.name)
        return brought

    def majors_of(self, library: ScannedLibrary) -> frozenset[int]:
        """The CUDA majors that decide an ambiguous soname of a library."""
        own = self.case.majors[library.name]
        decided = self.case.named_cuda or library.runtime_major
        return own or (frozenset({decided}) if decided else frozenset())

    def component(self, library: ScannedLibrary, soname: str) -> Component | None:
        """The component that a library takes a soname from."""
        found = self.case.candidates(soname, self.majors_of(library))
        return found[0] if found else None

    def condition(self, component: Component, soname: str) -> tuple[str, Severity | None]:
        """Under which condition a component's wheel is installed; a severity where nothing says."""
        name, contract = canonicalize_name(component.distribution), self.case.contract
        if name in self.case.required:
            return "", None
        if contract:
            marker = f'extra == "{contract.extra}"'
            if any(name == project_of(text) for text in self.case.requires if marker in text):
                return f"with the extra {contract.extra}", None
            return "", "error"
        found = [
            one for one in self.case.dependencies if canonicalize_name(one.distribution) == name
        ]
        if name in self.case.assumed or not found:
            return "", self._severity_of_missing(component, soname)
        if any(not one.extra for one in found):
            return f"with {next(one.by for one in found if not one.extra)}", None
        extras = sorted({one.extra for one in found})
        return f"with the extra {' or '.join(extras)}", None

    def contradiction(self, component: Component) -> str:
        """A requirement on a component's wheel that allows no release with its sonames, or empty.

        Where several lines are about the wheel, one that allows such a release is enough.
        """
        lines = [
            Requirement(text)
            for text in self.case.requires
            if project_of(text) == canonicalize_name(component.distribution)
        ]
        counting = [one for one in lines if extras_of(one)]
        allowed = [has_common_release(component.releases, one.specifier) for one in counting]
        return "" if not counting or any(allowed) else _plain(counting[0])

    def other_release(self, component: Component) -> str:
        """What the wheel requires of the same library for another CUDA; empty: nothing."""
        same = (
            one.distribution
            for one in KNOWN_COMPONENTS
            if one.name == component.name and one.cuda != component.cuda
        )
        return next((name for name in same if canonicalize_name(name) in self.case.required), "")

    def installed(self) -> frozenset[str]:
        """Projects that are there when the wheel is installed as it should be."""
        contract = self.case.contract
        extras = {"", contract.extra if contract else ""}
        return frozenset(
            canonicalize_name(one.distribution)
            for one in self.case.dependencies
            if one.extra in extras
        )

    def loader_of(self, soname: str, component: Component) -> str:
        """Who has loaded a library before; empty where nobody is known to."""
        name = canonicalize_name(component.distribution)
        for one in self.case.dependencies:
            if canonicalize_name(one.distribution) == name and preloads(one.by, soname):
                return f"loaded before by {one.by}"
        return f"loaded before by {_FINDER}" if _FINDER in self.case.required else ""

    def is_loaded(self, pattern: str) -> bool:
        """Whether the wheel itself, a framework or the finder loads a library that is opened."""
        loaders = {self.case.project, *(one.by for one in self.case.dependencies)}
        return (
            any(fnmatchcase(own, pattern) for own in self.case.needed)
            or any(preloads(loader, pattern) for loader in loaders)
            or _FINDER in self.case.required
        )

    def required_releases(self, component: Component) -> list[SpecifierSet]:
        """The releases of a component that the wheel requires; any where it names none.

        The parts of a toolkit have its release; cuda-toolkit brings those of its own.
        """
        names = {component.distribution}
        if "{release}" in component.requirement:
            names.add("cuda-toolkit")
        lines = [text for text in self.case.requires if project_of(text) in names]
        return [Requirement(text).specifier for text in lines] or [SpecifierSet()]

    def namesake(self, soname: str) -> str:
        """The requirement that has a library's name: `librmm-cu13` for `librmm.so`."""
        words = _words(soname.partition(".so")[0])
        for name in dict.fromkeys(map(project_of, self.case.requires)):
            own = _words(_CUDA_SUFFIX.sub("", name))
            if own and (f"-{words}-" in f"-{own}-" or f"{words}-".startswith(f"{own}-")):
                return name
        return ""

    def expected_from(self, library: ScannedLibrary) -> str:
        """The requirement into whose folder an rpath entry leads: `pyqt6-qt6` for `PyQt6/Qt6/lib`.

        Empty where the entry's folder holds files of the wheel itself, or bears no required name.
        """
        path = installed_path(library.name)
        unknown = self.case.required - {one.distribution for one in KNOWN_COMPONENTS}
        entries = library.elf.search_path if library.elf and path else ()
        for folder in (resolve_entry(path, entry) for entry in entries if path):
            if folder is None or any(folder in folders for folders in self.case.files.values()):
                continue
            parts = set(map(canonicalize_name, folder.parts))
            for name in sorted(unknown):
                if not parts.isdisjoint({name, *name.split("-")}):
                    return name
        return ""

    def namesakes(self, library: ScannedLibrary) -> list[str]:
        """Requirements that seem to supply something else of what a library needs."""
        needed = library.elf.needed if library.elf else ()
        known = (*self.case.system, *self.case.files)
        unknown = [one for one in needed if one not in known and not components_of(one)]
        return [name for one in unknown if (name := self.namesake(one))]

    def _severity_of_missing(self, component: Component, soname: str) -> Severity:
        """Of a component that nothing brings, in a wheel of others.

        A part of a wheel may well be for those who have more than it requires. NVIDIA's wheels
        leave it to whoever requires them which release of CUDA they go with.
        """
        if self.has_alternatives:
            return "note"
        if _FINDER in self.case.required or self.case.is_supplier:
            return "warning"
        missing = {
            one
            for one in self.case.needed
            if any(other.distribution == component.distribution for other in components_of(one))
        }
        return "error" if self.loader_graph.is_vital({soname, *missing}) else "warning"


def _plain(requirement: Requirement) -> str:
    """Without extras and marker."""
    return f"{requirement.name}{requirement.specifier}"


def _words(name: str) -> str:
    """`rapids-logger` of `librapids_logger` and `rapids-logger`: lower case, without `lib`."""
    words = re.split(r"[-_.]+", name.lower())
    return "-".join(word.removeprefix("lib") for word in words)
