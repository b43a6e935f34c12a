"""Whether the distributions of an environment have what they require of each other."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment


_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")  # in a marker


@dataclass(frozen=True, kw_only=True)
class UnmetRequirement:
    """A requirement that isn't met.

    Attributes:
        owner: name and version of the distribution that requires.
        root: the distribution that must be installed again for it: the owner, or the one that asks
            for the owner's extra.
        project: what it requires, normalised.
        requirement: what of it.
        installed: the version that is there; empty where there is none.
        is_optional: only an extra requires it, which nobody asks for; it is there nevertheless, in
            a version that the owner doesn't work with.
    """

    owner: str
    root: str
    project: str
    requirement: Requirement
    installed: str
    is_optional: bool = False

    @property
    def asked(self) -> str:
        """The requirement, without its marker."""
        one = self.requirement
        extras = f"[{','.join(sorted(one.extras))}]" if one.extras else ""
        return f"{one.name}{extras}{f' @ {one.url}' if one.url else one.specifier}"

    @property
    def has_local_version(self) -> bool:
        """Whether it asks for a build (`==2.11.0+cu128`) that no index has which is known here."""
        return any("+" in one.version for one in self.requirement.specifier)

    @property
    def pin(self) -> str:
        """The one release that meets it; empty where several may."""
        pins = (one.version for one in self.requirement.specifier if one.operator == "==")
        return next((one for one in pins if not one.endswith(".*")), "")


def find_unmet_requirements(environment: PythonEnvironment) -> tuple[UnmetRequirement, ...]:
    """Every requirement that isn't met, those of extras that are asked for too.

    Args:
        environment: what is installed.
    """
    found: dict[tuple[str, str, str], UnmetRequirement] = {}
    for distribution, requirement, root in active_requirements(environment):
        there = environment.distributions.get(canonicalize_name(requirement.name))
        if there is None or not _fits(requirement, there.version):
            unmet = _unmet(distribution, requirement, there, root)
            found.setdefault((unmet.owner, unmet.project, unmet.asked), unmet)
    optional = (
        unmet
        for one in environment.distributions.values()
        for unmet in _optional_parts(one, environment)
    )
    return (*found.values(), *optional)


def active_requirements(
    environment: PythonEnvironment,
) -> Iterator[tuple[Distribution, Requirement, str]]:
    """Each requirement that counts: whose it is, and the distribution that it counts for.

    That is another one than the owner where it asks for an extra of the owner.
    """
    queue = [(one, "", one.name) for one in environment.distributions.values()]
    seen = {(one.name, "") for one, _, _ in queue}
    for distribution, extra, root in queue:
        for requirement in _requirements(distribution, extra, environment.markers):
            yield distribution, requirement, root
            project = canonicalize_name(requirement.name)
            there = environment.distributions.get(project)
            for name in map(canonicalize_name, requirement.extras if there else ()):
                if there and (project, name) not in seen:
                    seen.add((project, name))
                    queue.append((there, name, root))


def _requirements(
    distribution: Distribution, extra: str, markers: Mapping[str, str]
) -> Iterator[Requirement]:
    """Those that count: always, or, with an extra, only those that it brings."""
    for line in distribution.requires:
        try:
            requirement = Requirement(line)
            always = requirement.marker is None or requirement.marker.evaluate(
                {**markers, "extra": ""}
            )
            counts = requirement.marker is None or requirement.marker.evaluate(
                {**markers, "extra": extra}
            )
        except (InvalidRequirement, InvalidVersion, KeyError, ValueError):
            continue
        if counts and (not extra or not always):
            yield requirement


def extras_of(distribution: Distribution, markers: Mapping[str, str]) -> dict[str, set[str]]:
    """What each extra of a distribution brings: projects, normalised."""
    names = (_EXTRA.findall(line.partition(";")[2]) for line in distribution.requires)
    return {
        extra: {canonicalize_name(one.name) for one in _requirements(distribution, extra, markers)}
        for extra in dict.fromkeys(name for found in names for name in found)
    }


def _optional_parts(
    distribution: Distribution, environment: PythonEnvironment
) -> Iterator[UnmetRequirement]:
    """Parts of its own (`jax-cuda12-plugin`) in a version that none of its extras takes."""
    asked: dict[str, list[Requirement]] = {}
    for extra in extras_of(distribution, environment.markers):
        for requirement in _requirements(distribution, extra, environment.markers):
            project = canonicalize_name(requirement.name)
            if project.startswith(f"{distribution.name}-") and project in environment.distributions:
                asked.setdefault(project, []).append(requirement)
    for name, requirements in asked.items():
        there = environment.distributions[name]
        if not any(_fits(one, there.version) for one in requirements):
            plain = Requirement(f"{requirements[0].name}{requirements[0].specifier}")
            unmet = _unmet(distribution, plain, there, distribution.name)
            yield replace(unmet, is_optional=True)


def _fits(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True


def _unmet(
    owner: Distribution, requirement: Requirement, there: Distribution | None, root: str
) -> UnmetRequirement:
    return UnmetRequirement(
        owner=f"{owner.name} {owner.version}",
        root=root,
        project=canonicalize_name(requirement.name),
        requirement=requirement,
        installed=there.version if there else "",
    )


def requirers(environment: PythonEnvironment) -> dict[str, dict[str, Requirement]]:
    """Which distributions require a project, and what of it: by project, then by owner."""
    found: dict[str, dict[str, Requirement]] = {}
    for distribution, requirement, _ in active_requirements(environment):
        project = canonicalize_name(requirement.name)
        found.setdefault(project, {})[distribution.name] = requirement
    return found
