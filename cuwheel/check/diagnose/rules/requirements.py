"""Requirements that aren't met, and verdicts: one, with one command, for each distribution."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.check.cuda.components import COMPONENTS
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.import_failures import FIRST
from cuwheel.check.diagnose.rules.installer import is_from_folder, pin_of, same_release
from cuwheel.check.diagnose.verdict import Diagnosis, broken, warns

_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")  # in a marker
# The entry about a missing wheel, by component; others hold mathematical libraries.
_MISSING = {
    "cudart": "libcudart-not-found",
    "cudnn": "libcudnn-not-found",
    "nvrtc": "libnvrtc-missing",
    "nccl": "nccl-version-mismatch",
}
# The entry about a wheel of another version than the required one.
OTHER_VERSION = {
    "nvJitLink": "nvjitlink-mismatch",
    "cudnn": "cudnn-version-mismatch",
    "nccl": "nccl-version-mismatch",
}
_NAMES = {component.distribution for component in COMPONENTS} - {"torch"}
# PyTorch's own, each published together with a torch, for the same CUDA.
SIBLINGS = frozenset({"torchaudio", "torchtext", "torchvision"})
_NUMPY_1 = "1.26.4"  # the last NumPy 1, and the newest Python that it has wheels for
_LAST_WITH_NUMPY_1 = (3, 12)
# Of names: NVIDIA's own have the release of CUDA at their end, or as their version.
_FOR_CUDA = re.compile(r"-cu(\d\d)(?:-|$)|-cuda(\d\d)x?$|^cuda-(?:bindings|python|toolkit)$")
_METAPACKAGE = re.compile("cuda-(python|toolkit)")
# NVIDIA's wheels with the version of their toolkit; of one compiler all have to be alike.
_OF_RELEASE = re.compile(r"nvidia-(cuda-(cccl|crt|nvcc|nvrtc|runtime)|nvvm)(-cu\d+)?")
_LISTED = 3  # requirements that a command names; more come with their package


@dataclass(frozen=True, kw_only=True)
class UnmetRequirement:
    """A requirement that isn't met.

    Attributes:
        root: the distribution that must be installed again for it: the owner, or the one that
            requires the owner's extra.
        installed: the installed version; empty where there is none.
        is_optional: only an extra requires it, which is not required; it is installed nevertheless,
            in a version that the owner doesn't work with.
    """

    owner: str
    root: str
    project: str
    requirement: Requirement
    installed: str
    is_optional: bool = False

    @property
    def text(self) -> str:
        """The requirement, without its marker."""
        name, url = self.requirement.name, self.requirement.url
        extras = ",".join(sorted(self.requirement.extras))
        end = f" @ {url}" if url else self.requirement.specifier
        return f"{name}{f'[{extras}]' if extras else ''}{end}"

    @property
    def has_local_version(self) -> bool:
        """True if it requires a build (`==2.11.0+cu128`), which no known index has."""
        return any("+" in part.version for part in self.requirement.specifier)


def find_unmet_requirements(environment: PythonEnvironment) -> tuple[UnmetRequirement, ...]:
    """Return every requirement that isn't met, those of required extras too."""
    unmet: dict[tuple[str, str, str], UnmetRequirement] = {}
    for distribution, requirement, root in active_requirements(environment):
        there = environment.distributions.get(canonicalize_name(requirement.name))
        if there is None or not _fits(requirement, there.version):
            problem = _unmet(distribution, requirement, there, root)
            unmet.setdefault((problem.owner, problem.project, problem.text), problem)
    installed = environment.distributions.values()
    optional = (part for owner in installed for part in _optional_parts(owner, environment))
    return (*unmet.values(), *optional)


def active_requirements(
    environment: PythonEnvironment,
) -> Iterator[tuple[Distribution, Requirement, str]]:
    """Yield each requirement that counts, with its owner and its root.

    The root is another distribution than the owner if that requires an extra of the owner.
    """
    queue = [(owner, "", owner.name) for owner in environment.distributions.values()]
    queued = set()
    for distribution, extra, root in queue:
        for requirement in _requirements(distribution, extra, environment.markers):
            yield distribution, requirement, root
            project = canonicalize_name(requirement.name)
            there = environment.distributions.get(project)
            for name in map(canonicalize_name, requirement.extras):
                if there and (project, name) not in queued:
                    queued.add((project, name))
                    queue.append((there, name, root))


def _requirements(
    distribution: Distribution, extra: str, markers: Mapping[str, str]
) -> Iterator[Requirement]:
    """Yield those that always count, or, with an extra, only those that it adds."""
    for line in distribution.requires:
        try:
            requirement = _parse(line)
            always, counts = (
                requirement.marker is None
                or requirement.marker.evaluate({**markers, "extra": name})
                for name in ("", extra)
            )
        except (InvalidRequirement, InvalidVersion, KeyError, ValueError):
            continue
        if counts and (not extra or not always):
            yield requirement


@functools.cache  # each line is read for every extra, and parsing one takes 0.1 ms
def _parse(line: str) -> Requirement:
    return Requirement(line)


def extras_of(distribution: Distribution, markers: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the projects, normalised, that each extra of a distribution adds."""
    text = "\n".join(line.partition(";")[2] for line in distribution.requires)
    return {
        extra: {
            canonicalize_name(added.name) for added in _requirements(distribution, extra, markers)
        }
        for extra in dict.fromkeys(_EXTRA.findall(text))
    }


def extra_fix(context: RuleContext, distribution: Distribution) -> tuple[str, str]:
    """Return fix and command that install NVIDIA's wheels by an extra; empty without such a one.

    Of extras for several releases of CUDA the one whose requirements most of what is installed
    meets, then that of the CUDA in use, then the newest that the driver runs.
    """
    environment = context.environment
    offered = {
        extra: projects
        for extra, projects in extras_of(distribution, environment.markers).items()
        if all(name.startswith(("nvidia-", "cuda-")) for name in projects)
    }
    used, newest = cuda_of(context), context.driver.newest_cuda.partition(".")[0]

    def rank(extra: str) -> tuple[int, bool, bool]:
        present = [
            1 if _is_met(requirement, environment) else -1
            for requirement in _requirements(distribution, extra, environment.markers)
            if canonicalize_name(requirement.name) in environment.distributions
        ]
        major = extra.lstrip("abcdefghijklmnopqrstuvwxyz-_")
        runs = not newest or not major.isdigit() or int(major) <= int(newest)
        return sum(present), bool(used) and major == used, runs

    chosen = max(sorted(offered, reverse=True), key=rank, default="")
    lacking = [
        requirement
        for requirement in _requirements(distribution, chosen, environment.markers)
        if not _is_met(requirement, environment)
    ]
    if not chosen or not lacking or "+" in distribution.version:
        return "install the libraries of CUDA that it needs", ""
    others = f" (or {', '.join(sorted({*offered} - {chosen}))})" * (len(offered) > 1)
    texts = ", ".join(f"{one.name}{one.specifier}" for one in lacking[:_LISTED])
    more = f" and {len(lacking) - _LISTED} more" * (len(lacking) > _LISTED)
    requirement = f"{distribution.name}[{chosen}]=={distribution.version}"
    return (
        f"install its extra {chosen}{others}, which adds {texts}{more}",
        context.installer.install(requirement),
    )


def cuda_of(context: RuleContext) -> str:
    """Return the major release of CUDA, `12`, that an environment is for; empty: not known.

    That of most of NVIDIA's wheels, else of a framework, else of the driver.
    """
    majors = Counter(
        match[1] or match[2] or own.version.partition(".")[0]
        for own in context.environment.distributions.values()
        if (match := _FOR_CUDA.search(own.name))
    )
    if majors:
        return max(majors, key=lambda major: (majors[major], major))
    used = (framework.major for framework in context.frameworks if framework.major)
    return next(used, context.driver.newest_cuda.partition(".")[0])


def _is_met(requirement: Requirement, environment: PythonEnvironment) -> bool:
    there = environment.distributions.get(canonicalize_name(requirement.name))
    return bool(there and _fits(requirement, there.version))


def _optional_parts(
    distribution: Distribution, environment: PythonEnvironment
) -> Iterator[UnmetRequirement]:
    """Yield its own parts and NVIDIA's wheels in a version that none of its extras takes.

    Of a project that it requires without an extra, any version that this allows will do. Nothing
    notes which extras a user has requested: one of NVIDIA's wheels counts where it may have been,
    as all that it adds is there. A metapackage, cuda-toolkit, opens no library itself.
    """

    def is_part(project: str) -> bool:
        return project.startswith(f"{distribution.name}-") or is_nvidias(project)

    lines = (line for line in distribution.requires if "extra" in line)
    if not any(is_part(project_of(line)) for line in lines):
        return
    plain = _requirements(distribution, "", environment.markers)
    always = {canonicalize_name(requirement.name) for requirement in plain}
    parts: dict[str, list[Requirement]] = {}
    there = environment.distributions.keys()
    for extra, added in extras_of(distribution, environment.markers).items():
        may_be_requested = added <= there and not _METAPACKAGE.fullmatch(distribution.name)
        for requirement in _requirements(distribution, extra, environment.markers):
            project = canonicalize_name(requirement.name)
            counts = may_be_requested or not is_nvidias(project)
            if counts and is_part(project) and project in there - always:
                parts.setdefault(project, []).append(requirement)
    for name, requirements in parts.items():
        part = environment.distributions[name]
        if not any(_fits(requirement, part.version) for requirement in requirements):
            wanted = Requirement(f"{requirements[0].name}{requirements[0].specifier}")
            unmet = _unmet(distribution, wanted, part, distribution.name)
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
        owner=owner.title,
        root=root,
        project=canonicalize_name(requirement.name),
        requirement=requirement,
        installed=there.version if there else "",
    )


def requirers(environment: PythonEnvironment) -> dict[str, dict[str, Requirement]]:
    """Return the requirements of a project: by project, then by the distribution that has it."""
    owners: dict[str, dict[str, Requirement]] = {}
    for distribution, requirement, _ in active_requirements(environment):
        project = canonicalize_name(requirement.name)
        owners.setdefault(project, {})[distribution.name] = requirement
    return owners


def required_by(environment: PythonEnvironment, names: Iterable[str]) -> set[str]:
    """Return the installed projects that some projects require, directly or not."""
    owners = requirers(environment)
    reached, size = set(names), -1
    while len(reached) > size:
        size = len(reached)
        reached |= {name for name, of in owners.items() if not reached.isdisjoint(of)}
    return reached.intersection(environment.distributions).difference(names)


def is_nvidias(name: str) -> bool:
    """Return True if a project is one of NVIDIA's libraries."""
    return name.startswith("nvidia-") or name in _NAMES


def numpy_fix(context: RuleContext, distribution: Distribution) -> tuple[str, str]:
    """Return the fix of an extension for NumPy 1 under NumPy 2, and the command; empty without.

    NumPy 1 is installed only if the others that require NumPy, and this Python, take its last one.
    """
    if is_from_folder(distribution):
        return "build it again: its headers are those of the NumPy that is installed then", ""
    owners = requirers(context.environment).get("numpy", {}).values()
    newer = f"install a newer release of {distribution.name}, which may be built for NumPy 2"
    has_wheels = tuple(map(int, context.environment.release.split("."))) <= _LAST_WITH_NUMPY_1
    if has_wheels and all(owner.specifier.contains(_NUMPY_1) for owner in owners):
        return f"{newer}, or NumPy 1", context.installer.install("numpy<2")
    return newer, context.installer.install(f"{distribution.name}>{distribution.version}")


@dataclass(frozen=True, kw_only=True)
class UnmetJudge:
    """The judge of the unmet requirements of one environment.

    Attributes:
        examined: the distributions that count, by name.
        cuda: major releases of CUDA of the libraries of packages, by name.
    """

    context: RuleContext
    unmet: tuple[UnmetRequirement, ...]
    examined: frozenset[str]
    cuda: Mapping[str, frozenset[str]]

    def judge(self) -> dict[str, Diagnosis]:
        """Return a verdict for each distribution that is to be repaired, by name."""
        groups: dict[str, tuple[UnmetRequirement, ...]] = {}
        for unmet in self.unmet:
            # conda's packages supply the same libraries under other names.
            is_missing = is_nvidias(unmet.project) and not unmet.installed
            if unmet.root in self.examined and not (
                self.context.environment.is_conda and is_missing
            ):
                groups[unmet.root] = (*groups.get(unmet.root, ()), unmet)
        return {
            root: self._judge(root, lacking)
            for root, lacking in groups.items()
            if not _is_covered(root, groups) and not _is_replaced(root, groups)
        }

    def _judge(self, root: str, lacking: tuple[UnmetRequirement, ...]) -> Diagnosis:
        judged = broken if any(map(self._is_fatal, lacking)) else warns
        anchor, (fix, command) = _anchor(root, lacking), self._fix(root, lacking)
        first, *rest = lacking
        if not rest:
            cause = f"{first.installed} is installed" if first.installed else self._absence(first)
            works_with = "works only with" if first.is_optional else "requires"
            what = f"{first.owner} {works_with} {first.text}"
            return judged(anchor, what, cause, fix, command)
        version = self.context.environment.distributions[root].version
        what = f"{root} {version} lacks {len(lacking)} of the packages that it requires"
        shown = (
            f"{unmet.text} ({unmet.installed} is installed)" if unmet.installed else unmet.text
            for unmet in lacking[:_LISTED]
        )
        more = f" and {len(lacking) - _LISTED} more" * (len(lacking) > _LISTED)
        return judged(anchor, what, f"{', '.join(shown)}{more}", fix, command)

    def _absence(self, unmet: UnmetRequirement) -> str:
        """Return that a project isn't installed, or that only its metadata are gone."""
        site = self.context.environment.distributions[unmet.root].site
        folder = site / unmet.project.replace("-", "_")
        is_there = (folder / "__init__.py").is_file()
        return f"{folder} is there, and no .dist-info of it" if is_there else "it isn't installed"

    def _fix(self, root: str, lacking: tuple[UnmetRequirement, ...]) -> tuple[str, str]:
        """Return the fix in words, and as a command; empty where none ends in a clean report."""
        if obstacle := self._contradiction(lacking) or self._hidden(lacking):
            return obstacle, ""
        versions = {project.name: project.version for project in self.context.projects.values()}
        others = [unmet.project for unmet in lacking if unmet.installed and root not in versions]
        kept = next((name for name in others if name in versions), "")
        if kept:  # the framework stays, and the package is for another release of it
            return self._fix_for_framework(root, kept, versions[kept])
        words = "install what it requires"
        if any(unmet.has_local_version for unmet in lacking):
            return words, ""
        whole = same_release(self.context.environment.distributions[root])
        if len(lacking) > _LISTED and whole and not any(unmet.is_optional for unmet in lacking):
            return words, self.context.installer.complete(whole)
        texts = dict.fromkeys(self._text(unmet) for unmet in lacking)
        return words, self.context.installer.install(*texts)

    def _text(self, unmet: UnmetRequirement) -> str:
        """Return a requirement; one of nvcc's parts by another one, of the same CUDA."""
        name, version = unmet.owner.split(" ")
        parts = version.split(".")
        is_open = not unmet.requirement.specifier and not unmet.requirement.url
        if is_open and _OF_RELEASE.fullmatch(name) and _OF_RELEASE.fullmatch(unmet.project):
            return f"{unmet.text}=={parts[0]}.{parts[1]}.*"
        return unmet.text

    def _fix_for_framework(self, root: str, kept: str, version: str) -> tuple[str, str]:
        """Return fix and command of a package for another release of an installed framework."""
        release = version.partition("+")[0]
        frameworks = self.context.frameworks
        # Of a package for another CUDA the index can have none for this framework.
        majors = self.cuda.get(root, frozenset())
        if majors and any(own.is_cpu_only for own in frameworks if own.name == kept):
            return f"install a {root} for {kept} {version} from the index that {kept} is of", ""
        used = {framework.major for framework in frameworks if framework.major}
        may_be_published = root in SIBLINGS or not majors or used & majors
        command = self.context.installer.install(f"{kept}=={release}", root)
        return f"install a {root} for {kept} {release}", command if may_be_published else ""

    def _hidden(self, lacking: tuple[UnmetRequirement, ...]) -> str:
        """Return the fix if releases that fit are installed, and others come before them."""
        hidden = {known.name: known for known in self.context.environment.shadowed}
        fits = all(
            unmet.project in hidden and _fits(unmet.requirement, hidden[unmet.project].version)
            for unmet in lacking
        )
        return FIRST if fits else ""

    def _is_fatal(self, unmet: UnmetRequirement) -> bool:
        """Return True for a missing library of CUDA, or what stops a framework or its part."""
        if unmet.installed:
            return unmet.is_optional and not is_nvidias(unmet.project)
        imported = {known.name for known in self.context.frameworks if known.was_imported}
        failed = {own.name for name, own in self.context.projects.items() if name not in imported}
        return is_nvidias(unmet.project) or unmet.root in failed

    def _contradiction(self, lacking: Iterable[UnmetRequirement]) -> str:
        """Return the fix if two distributions require releases of one project that exclude another.

        Only a single release can be compared with the requirements of others.
        """
        owners = requirers(self.context.environment)
        frameworks = {project.name for project in self.context.projects.values()}
        for unmet in lacking:
            if unmet.project in frameworks:
                continue
            for name, requirement in owners.get(unmet.project, {}).items():
                is_other = name != unmet.owner.partition(" ")[0]
                if is_other and _exclude(unmet.requirement, requirement):
                    return (
                        f"{name} requires {requirement.name}{requirement.specifier}: use a "
                        "separate environment for each, or compatible releases of both"
                    )
        return ""


def _exclude(first: Requirement, second: Requirement) -> bool:
    """Return True if one of two requirements excludes the only release that meets the other."""
    return any(
        pin and not other.specifier.contains(pin, prereleases=True)
        for one, other in ((first, second), (second, first))
        for pin in [pin_of(one)]
    )


def _is_covered(root: str, groups: Mapping[str, Iterable[UnmetRequirement]]) -> bool:
    """Return True if a package that isn't NVIDIA's lacks the same as an NVIDIA wheel."""
    if not is_nvidias(root):
        return False
    projects = {unmet.project for unmet in groups[root]}
    others = (lacking for name, lacking in groups.items() if not is_nvidias(name))
    return any(projects <= {unmet.project for unmet in lacking} for lacking in others)


def _is_replaced(root: str, groups: Mapping[str, Iterable[UnmetRequirement]]) -> bool:
    """Return True if another package requires another release of this one, with its own needs."""

    def users(project: str) -> set[str]:
        return {
            name
            for name, lacking in groups.items()
            for unmet in lacking
            if unmet.project == project and unmet.installed and name != project
        }

    return any(not users(user) for user in users(root))


def _anchor(root: str, lacking: tuple[UnmetRequirement, ...]) -> str:
    if root == "torchvision" and any(unmet.project == "torch" for unmet in lacking):
        return "torchvision-mismatch"
    of_nvidia = [unmet for unmet in lacking if is_nvidias(unmet.project)]
    if not of_nvidia:
        return "diagnose-versions"
    first = min(of_nvidia, key=lambda unmet: bool(unmet.installed))
    table = OTHER_VERSION if first.installed else _MISSING
    names = (part.name for part in COMPONENTS if part.distribution == first.project)
    default = "diagnose-versions" if first.installed else "cuda-math-lib-not-found"
    return next((table[name] for name in names if name in table), default)
