"""Whether NVIDIA's wheels in an environment go together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.cuda.components import COMPONENTS
from cuwheel.diagnose.rules.requirements import requirers
from cuwheel.diagnose.verdict import warns, works

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.rules.installer import Installer
    from cuwheel.diagnose.verdict import Anchor, Verdict


# What is to be read where one of NVIDIA's wheels is missing; others hold mathematical libraries.
_ANCHORS: dict[str, Anchor] = {
    "cudart": "libcudart-not-found",
    "cudnn": "libcudnn-not-found",
    "nvrtc": "libnvrtc-missing",
    "nccl": "nccl-version-mismatch",
}
# The same where it is of another version than the one that is required.
_OTHER_VERSION: dict[str, Anchor] = {
    "nvJitLink": "nvjitlink-mismatch",
    "cudnn": "cudnn-version-mismatch",
    "nccl": "nccl-version-mismatch",
}
_NAMES = {one.distribution: one.name for one in reversed(COMPONENTS)}
_NVIDIAS = re.compile(r"nvidia-.*")
_SUFFIX = re.compile(r"-cu(\d+)$")


@dataclass(frozen=True, kw_only=True)
class NvidiaWheelsJudge:
    """Judges whether NVIDIA's wheels in an environment are of one CUDA.

    Attributes:
        environment: which.
        frameworks: what they are for.
        faulty: wheels of which something else is said: damaged, of another version, with files that
            another has too.
        installer: writes the commands.
    """

    environment: PythonEnvironment
    frameworks: tuple[FrameworkFacts, ...]
    faulty: frozenset[str]
    installer: Installer

    def judge(self) -> Iterator[Verdict]:
        """What is wrong with them together, or that nothing is wrong with any."""
        wheels = nvidia_wheels(self.environment)
        faults = [*self._majors(wheels)]
        yield from faults
        if wheels and not faults and not any(map(is_nvidias, self.faulty)):
            majors = sorted(cuda_majors(wheels))
            of = f" of CUDA {' and '.join(majors)}" if majors else ""
            yield works(f"the {len(wheels)} NVIDIA wheels{of} meet all requirements")

    def _majors(self, wheels: Iterable[Distribution]) -> Iterator[Verdict]:
        majors = cuda_majors(wheels)
        used = {one.major: one for one in self.frameworks if one.major}
        if len(used) > 1:
            (_, first), (_, second) = sorted(used.items())[:2]
            yield warns(
                "diagnose-mixed-cuda",
                f"{first.name} is for CUDA {first.major}, {second.name} for CUDA {second.major}",
                "in one process each would load the libraries of its own release",
                "install both for the same CUDA",
            )
        elif len(majors) > 1:
            listed = "; ".join(
                f"CUDA {major}: {_few(names)}" for major, names in sorted(majors.items())
            )
            of = next((f", {one.name}'s is {one.cuda}" for one in used.values()), "")
            others = [
                name for major, found in majors.items() if major not in used for name in found
            ]
            if used and self.faulty.issuperset(others):
                return
            spare = self._spare(others) if used else []
            yield warns(
                "diagnose-mixed-cuda",
                f"the NVIDIA wheels are for CUDA {' and '.join(sorted(majors))}{of}",
                listed,
                "remove those that nothing requires"
                if spare
                else "install what requires them for the same CUDA",
                self.installer.remove(spare) if spare else "",
            )

    def _spare(self, names: list[str]) -> list[str]:
        """Those that nothing requires but each other, and that share no file with another."""
        owners = requirers(self.environment)
        spare = {name for name in names if name not in self.faulty}
        while needed := {name for name in spare if not spare.issuperset(owners.get(name, ()))}:
            spare -= needed
        return sorted(spare)


def nvidia_wheels(environment: PythonEnvironment) -> tuple[Distribution, ...]:
    """The wheels of NVIDIA's libraries in an environment."""
    return tuple(one for name, one in sorted(environment.distributions.items()) if is_nvidias(name))


def cuda_majors(wheels: Iterable[Distribution]) -> dict[str, list[str]]:
    """Which of NVIDIA's wheels are for which CUDA: `13`, and the names; others tell nothing."""
    found: dict[str, list[str]] = {}
    for wheel in wheels:
        suffix = _SUFFIX.search(wheel.name)
        known = next((one.cuda for one in COMPONENTS if one.distribution == wheel.name), None)
        if major := (suffix[1] if suffix else str(known or "")):
            found.setdefault(major, []).append(wheel.name)
    return found


def is_nvidias(name: str) -> bool:
    """Whether a project is one of NVIDIA's libraries."""
    return bool(_NVIDIAS.fullmatch(name)) or (name in _NAMES and name != "torch")


def missing_anchor(project: str) -> Anchor:
    """What to read where one of NVIDIA's wheels isn't installed."""
    return _anchor(project, _ANCHORS, "cuda-math-lib-not-found")


def other_version_anchor(project: str) -> Anchor:
    """What to read where it is of another version than is required."""
    return _anchor(project, _OTHER_VERSION, "diagnose-versions")


def _anchor(project: str, table: dict[str, Anchor], otherwise: Anchor) -> Anchor:
    names = (one.name for one in COMPONENTS if one.distribution == project)
    return next((table[name] for name in names if name in table), otherwise)


def _few(names: list[str]) -> str:
    return f"{', '.join(names[:2])}{f' and {len(names) - 2} more' if len(names) > 2 else ''}"  # noqa: PLR2004
