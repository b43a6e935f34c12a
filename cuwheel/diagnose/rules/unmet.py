"""What is said of requirements that aren't met: one verdict, and one command, for each package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.imports import frameworks_of
from cuwheel.diagnose.rules.installer import same_release
from cuwheel.diagnose.rules.nvidia_wheels import is_nvidias, missing_anchor, other_version_anchor
from cuwheel.diagnose.rules.requirements import requirers
from cuwheel.diagnose.verdict import broken, warns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.rules.installer import Installer
    from cuwheel.diagnose.rules.requirements import UnmetRequirement
    from cuwheel.diagnose.verdict import Anchor, Verdict


# PyTorch's own, each published together with a torch, for the same CUDA.
_SIBLINGS = frozenset({"torchaudio", "torchtext", "torchvision"})
_LISTED = 3  # requirements that a command names; more come with their package


@dataclass(frozen=True, kw_only=True)
class UnmetJudge:
    """Judges the unmet requirements of one environment.

    Attributes:
        environment: which.
        unmet: all that aren't met there.
        examined: the distributions whose requirements count, by name.
        frameworks: what is known of them.
        cuda: for which major releases of CUDA the libraries of packages are, by name.
        installer: writes the commands.
    """

    environment: PythonEnvironment
    unmet: tuple[UnmetRequirement, ...]
    examined: frozenset[str]
    frameworks: tuple[FrameworkFacts, ...]
    cuda: Mapping[str, frozenset[str]]
    installer: Installer

    @property
    def groups(self) -> Mapping[str, tuple[UnmetRequirement, ...]]:
        """What counts, by the distribution that is to be set right."""
        found: dict[str, list[UnmetRequirement]] = {}
        for one in self.unmet:
            # conda's packages supply the same libraries under other names.
            from_conda = self.environment.is_conda and is_nvidias(one.project) and not one.installed
            if one.root in self.examined and not from_conda:
                found.setdefault(one.root, []).append(one)
        return {root: tuple(ones) for root, ones in found.items() if not _is_covered(root, found)}

    @property
    def remedies(self) -> dict[str, str]:
        """What brings what is lacking, by the distribution that is to be set right."""
        return {root: self.command(root) for root in self.groups}

    def judge(self) -> Iterator[Verdict]:
        """A verdict for each distribution that lacks something."""
        for root, unmet in self.groups.items():
            yield self._judge(root, unmet)

    def command(self, root: str) -> str:
        """The command that brings what a distribution lacks; empty where nothing can, or need."""
        unmet = self.groups.get(root, ())
        if not unmet or self._contradiction(unmet):
            return ""
        distribution = self.environment.distributions[root]
        if kept := self._kept_framework(root, unmet):
            return self.installer.install(kept, root) if self._is_published_for_it(root) else ""
        if any(one.has_local_version for one in unmet):
            return ""
        whole = same_release(distribution)
        if len(unmet) > _LISTED and whole and not any(one.is_optional for one in unmet):
            return self.installer.install(whole)
        return self.installer.install(*dict.fromkeys(one.asked for one in unmet))

    def _judge(self, root: str, unmet: tuple[UnmetRequirement, ...]) -> Verdict:
        judged = broken if any(map(self._is_fatal, unmet)) else warns
        anchor = _anchor(root, unmet)
        fix = self._contradiction(unmet) or self._fix(root, unmet)
        first, *rest = unmet
        if not rest:
            there = f"{first.installed} is installed" if first.installed else "it isn't installed"
            works_with = "works only with" if first.is_optional else "requires"
            what = f"{first.owner} {works_with} {first.asked}"
            return judged(anchor, what, there, fix, self.command(root))
        distribution = self.environment.distributions[root]
        return judged(
            anchor,
            f"{root} {distribution.version} lacks {len(unmet)} of the packages that it requires",
            f"{', '.join(map(_shown, unmet[:_LISTED]))}"
            + f" and {len(unmet) - _LISTED} more" * (len(unmet) > _LISTED),
            fix,
            self.command(root),
        )

    def _is_fatal(self, one: UnmetRequirement) -> bool:
        """Whether it doesn't work so: a framework that doesn't start, a library of CUDA, a part."""
        if one.installed:
            return one.is_optional
        was_imported = {framework.name for framework in self.frameworks if framework.was_imported}
        started = {one.name for name, one in self._frameworks.items() if name in was_imported}
        owners = {one.name for one in self._frameworks.values()}
        return is_nvidias(one.project) or one.root in owners - started

    @property
    def _frameworks(self) -> Mapping[str, Distribution]:
        return frameworks_of(self.environment)

    def _kept_framework(self, root: str, unmet: Iterable[UnmetRequirement]) -> str:
        """The framework that stays as it is, where a package is for another release of it."""
        there = {one.name: one for one in self._frameworks.values()}
        if root in there:
            return ""
        other = next((one.project for one in unmet if one.installed and one.project in there), "")
        return f"{other}=={there[other].version.partition('+')[0]}" if other else ""

    def _is_published_for_it(self, root: str) -> bool:
        """Whether the index may have one for this torch: a build for another CUDA says no."""
        majors = self.cuda.get(root, frozenset())
        used = {one.major for one in self.frameworks if one.major}
        return root in _SIBLINGS or not majors or bool(used & majors)

    def _fix(self, root: str, unmet: Iterable[UnmetRequirement]) -> str:
        if kept := self._kept_framework(root, unmet):
            return f"install a {root} for {kept.replace('==', ' ')}"
        return "install what it requires"

    def _contradiction(self, unmet: Iterable[UnmetRequirement]) -> str:
        """What to do where two distributions require releases of one project that exclude another.

        Only a single release that is asked for can be held against what others ask.
        """
        owners = requirers(self.environment)
        frameworks = {one.name for one in self._frameworks.values()}
        for one in unmet:
            if not one.pin or one.project in frameworks:
                continue
            others = {**owners.get(one.project, {})}
            others.pop(one.owner.partition(" ")[0], None)
            for name, requirement in others.items():
                if not requirement.specifier.contains(one.pin, prereleases=True):
                    return (
                        f"{name} requires {requirement.name}{requirement.specifier}: use a "
                        "separate environment for each, or compatible releases of both"
                    )
        return ""


def _is_covered(root: str, found: Mapping[str, Iterable[UnmetRequirement]]) -> bool:
    """Whether what an NVIDIA wheel lacks is lacking for something else too, which is choosier."""
    if not is_nvidias(root):
        return False
    projects = {one.project for one in found[root]}
    others = (ones for name, ones in found.items() if not is_nvidias(name))
    return any(projects <= {one.project for one in ones} for ones in others)


def _anchor(root: str, unmet: tuple[UnmetRequirement, ...]) -> Anchor:
    if root == "torchvision" and any(one.project == "torch" for one in unmet):
        return "torchvision-mismatch"
    if missing := [one.project for one in unmet if not one.installed and is_nvidias(one.project)]:
        return missing_anchor(missing[0])
    other = [one.project for one in unmet if one.installed and is_nvidias(one.project)]
    return other_version_anchor(other[0]) if other else "diagnose-versions"


def _shown(one: UnmetRequirement) -> str:
    return f"{one.asked} ({one.installed} is installed)" if one.installed else one.asked
