"""Whether the distributions of an environment have what they require of each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment


@dataclass(frozen=True, kw_only=True)
class UnmetRequirement:
    """A requirement that isn't met.

    Attributes:
        owner: name and version of the distribution that requires.
        project: what it requires, normalised.
        asked: the requirement, without its marker.
        installed: the version that is there; empty where there is none.
    """

    owner: str
    project: str
    asked: str
    installed: str


def find_unmet_requirements(environment: PythonEnvironment) -> tuple[UnmetRequirement, ...]:
    """Every requirement that isn't met, those of extras that are asked for too.

    Args:
        environment: what is installed.
    """
    queue = [(one, "") for one in environment.distributions.values()]
    seen = {(one.name, "") for one, _ in queue}
    found: dict[UnmetRequirement, None] = {}
    for distribution, extra in queue:
        for requirement in _requirements(distribution, extra, environment.markers):
            project = canonicalize_name(requirement.name)
            there = environment.distributions.get(project)
            if there is None or not _fits(requirement, there.version):
                found[_disagreement(distribution, requirement, there)] = None
            for name in map(canonicalize_name, requirement.extras if there else ()):
                if there and (project, name) not in seen:
                    seen.add((project, name))
                    queue.append((there, name))
    return tuple(found)


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


def _fits(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True


def _disagreement(
    owner: Distribution, requirement: Requirement, there: Distribution | None
) -> UnmetRequirement:
    return UnmetRequirement(
        owner=f"{owner.name} {owner.version}",
        project=canonicalize_name(requirement.name),
        asked=f"{requirement.name}{requirement.specifier}",
        installed=there.version if there else "",
    )
