"""What an audit judges: a wheel as read, and the contract it is held to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cuwheel import limits
from cuwheel.audit.manylinux import MACHINES, policies, policy_of
from cuwheel.cuda.components import KNOWN_COMPONENTS
from cuwheel.cuda.frameworks import Dependency, dependencies_of, extras_of, preloads
from cuwheel.cuda.suppliers import components_of
from cuwheel.wheel.metadata import header, installed_path, parse_requirement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditwheel.policy import Policy
    from packaging.tags import Tag

    from cuwheel.audit.contract import Contract
    from cuwheel.audit.findings import Severity
    from cuwheel.audit.scan import ScannedLibrary, WheelScan
    from cuwheel.binaries.elf import Elf
    from cuwheel.cuda.components import Component


@dataclass(frozen=True, kw_only=True)
class Case:
    """A wheel that is judged.

    Attributes:
        scan: what was read of it.
        contract: of its recipe; None for a wheel of others.
        excludes: patterns that were given to auditwheel, where they are known.
    """

    scan: WheelScan
    contract: Contract | None
    excludes: tuple[str, ...] = ()

    @cached_property
    def project(self) -> str:
        """The normalised name in the file name."""
        return canonicalize_name(self.scan.file_name.split("-")[0])

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """Those in the file name; none where that is no wheel's."""
        try:
            return parse_wheel_filename(self.scan.file_name)[3]
        except InvalidWheelFilename:
            return frozenset()

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags in its name."""
        return tuple(sorted({tag.platform for tag in self.tags}))

    @cached_property
    def is_read(self) -> bool:
        """Whether its libraries can be judged: those of Linux with glibc, for which CUDA is."""
        return not self.platforms or any(_READ.match(platform) for platform in self.platforms)

    @cached_property
    def machine(self) -> str:
        """The kind of machine that the platform tags name; without one, `x86_64`."""
        named = (name for name in MACHINES if any(one.endswith(name) for one in self.platforms))
        return next(named, "x86_64")

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """The manylinux policies for these, the one for the oldest systems first."""
        found = {policy.name: policy for tag in self.platforms if (policy := policy_of(tag))}
        return tuple(sorted(found.values(), key=lambda policy: -policy.priority))

    @cached_property
    def system(self) -> frozenset[str]:
        """Sonames that every system has which the tags promise; without one, any manylinux."""
        lists = [policy.whitelist for policy in self.policies or policies(self.machine)[-1:]]
        return frozenset[str].intersection(*lists) if lists else frozenset()

    @cached_property
    def requires(self) -> tuple[str, ...]:
        """Its `Requires-Dist` lines, but what nests so deeply that no installer reads it."""
        stated = header(self.scan.metadata, "requires-dist")
        return tuple(text for text in stated if text.count("(") <= limits.BRACKETS)

    @cached_property
    def required(self) -> frozenset[str]:
        """Projects that it requires itself on Linux, without any extra."""
        parsed = (parse_requirement(text) for text in self.requires)
        return frozenset(
            canonicalize_name(one.name) for one in parsed if one and "" in extras_of(one)
        )

    @cached_property
    def declared(self) -> tuple[Dependency, ...]:
        """Everything that its requirements bring, as far as is known."""
        return dependencies_of(self.requires)

    @cached_property
    def assumed(self) -> tuple[str, ...]:
        """Frameworks whose libraries it needs and that no requirement brings.

        Nothing but importing such a framework loads these libraries, so who can use the wheel has
        it, and all that it brings.
        """
        found = {
            component.distribution
            for soname in self.needed - self.own.keys()
            for component in components_of(soname)
            if component.cuda is None and preloads(component.distribution)
        }
        return tuple(sorted(found - {one.distribution for one in self.declared}))

    @cached_property
    def dependencies(self) -> tuple[Dependency, ...]:
        """What its requirements bring, and what the frameworks that it assumes bring."""
        return (*self.declared, *dependencies_of(self.assumed))

    @cached_property
    def host_libraries(self) -> tuple[tuple[ScannedLibrary, Elf], ...]:
        """Its libraries and programs that run on the host, those that could be read."""
        return tuple(
            (one, one.elf) for one in self.scan.libraries if one.elf and one.elf.is_host_code
        )

    @cached_property
    def needed(self) -> frozenset[str]:
        """Every soname that one of them needs itself."""
        return frozenset(soname for _, elf in self.host_libraries for soname in elf.needed)

    @cached_property
    def majors(self) -> dict[str, frozenset[int]]:
        """CUDA majors of what each of them needs; ambiguous sonames say nothing."""
        return {library.name: _decided(elf.needed) for library, elf in self.host_libraries}

    @cached_property
    def runtimes(self) -> tuple[str, ...]:
        """The releases of CUDA's runtime that are linked into its libraries, `12.8`."""
        found = {library.cudart for library, _ in self.host_libraries if library.cudart}
        return tuple(sorted(found, key=Version))

    @cached_property
    def files(self) -> dict[str, tuple[PurePosixPath, ...]]:
        """Folders below site-packages of each of them, by file name, as the loader searches."""
        found: dict[str, tuple[PurePosixPath, ...]] = {}
        for library, _ in self.host_libraries:
            if path := installed_path(library.name):
                found[path.name] = (*found.get(path.name, ()), path.parent)
        return found

    @cached_property
    def own(self) -> dict[str, tuple[PurePosixPath, ...]]:
        """The same, by soname too: under that one a library is found once it was loaded."""
        found = dict(self.files)
        for library, elf in self.host_libraries:
            path = installed_path(library.name)
            if path and elf.soname and elf.soname != path.name:
                found[elf.soname] = (*found.get(elf.soname, ()), path.parent)
        return found

    def files_of(self, soname: str) -> tuple[str, ...]:
        """Files of libraries that say this soname, where none of them is called so."""
        if soname in self.files:
            return ()
        return tuple(
            PurePosixPath(one.name).name for one, elf in self.host_libraries if elf.soname == soname
        )

    @cached_property
    def is_supplier(self) -> bool:
        """Whether it is one of NVIDIA's wheels itself: then CUDA's libraries in it are its own."""
        known = {canonicalize_name(component.distribution) for component in KNOWN_COMPONENTS}
        return self.project in known or self.project.startswith("nvidia-")

    @cached_property
    def name_cuda(self) -> int | None:
        """The CUDA major that its file name says: `cupy_cuda13x`, `+cu130`."""
        found = _CUDA_IN_NAME.search(self.scan.dist_info.removesuffix(".dist-info"))
        return int(found[1]) if found else None

    @cached_property
    def named_cuda(self) -> int | None:
        """The CUDA major that the contract, the wheel's name, or its requirements say."""
        if self.contract:
            return self.contract.cuda
        if self.name_cuda:
            return self.name_cuda
        majors = {one.cuda for one in self.declared if one.cuda and not one.extra}
        return majors.pop() if len(majors) == 1 else None

    def severity(self, otherwise: Severity) -> Severity:
        """An error where a contract promises it; for a wheel of others what is given."""
        return "error" if self.contract else otherwise

    def candidates(self, soname: str, majors: frozenset[int]) -> tuple[Component, ...]:
        """Components that may supply a soname, those of the given CUDA majors where there are.

        A contract is about one major, and takes nothing of another.
        """
        found = components_of(soname)
        accepted = frozenset({self.contract.cuda}) if self.contract else majors
        fitting = tuple(one for one in found if one.cuda is None or one.cuda in accepted)
        return fitting if self.contract else fitting or found


_READ = re.compile(r"any$|linux_|manylinux")
# `+cu130`, `cupy-cuda13x`, `nvidia-cublas-cu12`: what a name says of the CUDA major.
_CUDA_IN_NAME = re.compile(r"(?:^|[-_+.])cu(?:da)?(1[1-9])(?:\d|x)?(?=$|[-_.]|torch)")


def _decided(sonames: Iterable[str]) -> frozenset[int]:
    """The CUDA majors that these sonames leave no doubt about."""
    found = set()
    for soname in sonames:
        majors = {one.cuda for one in components_of(soname) if one.cuda is not None}
        if len(majors) == 1:
            found |= majors
    return frozenset(found)
