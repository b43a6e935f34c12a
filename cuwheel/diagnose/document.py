"""A diagnosis as data for programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from cuwheel.diagnose.rules.nvidia_wheels import nvidia_wheels
from cuwheel.diagnose.verdict import exit_code_of
from cuwheel.system.output.documents import Schema

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.facts.chosen_library import ChosenLibrary
    from cuwheel.diagnose.facts.gpu_packages import InstalledLibrary, InstalledPackage
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.host import HostFacts
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.facts.installed_toolkits import Installations
    from cuwheel.diagnose.report import Report
    from cuwheel.diagnose.rules.target_fit import Fit
    from cuwheel.diagnose.verdict import FailsOn, Level, Verdict

_OF_GPU = ("libcu", "libnv", "libnccl", "libtorch", "libc10")


@dataclass(frozen=True, kw_only=True)
class DiagnosedMachine:
    """The machine.

    Attributes:
        surroundings: what it is; null: it couldn't be read in time.
        driver: NVIDIA's, and the GPUs.
        installations: what a build finds on it.
        settings: variables that decide something and are set, with their values.
    """

    surroundings: HostFacts | None
    driver: Driver
    installations: Installations
    settings: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class DiagnosedEnvironment:
    """The Python environment.

    Attributes:
        python: its interpreter; empty: there is none.
        chosen_by: what led to it.
        version: of Python; empty where it couldn't be asked, as the two behind it.
        prefix: its folder.
        is_conda: it is conda's; null: it couldn't be asked.
        frameworks: those that it has, with the libraries of GPUs that they load.
        leftovers: folders that an interrupted pip has left.
        nvidia_wheels: version of each, by its name.
    """

    python: str
    chosen_by: str
    version: str
    prefix: str
    is_conda: bool | None
    frameworks: tuple[FrameworkFacts, ...]
    leftovers: tuple[Path, ...]
    nvidia_wheels: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class DiagnosedPackage:
    """A package with GPU code.

    Attributes:
        name, version: of its distribution.
        archs: compute capabilities of its machine code.
        ptx_archs: compute capabilities of its PTX.
        suppliers: who supplies what it needs, by soname; empty: nobody.
        other_libraries: how many it has beside those that are judged.
        libraries: those that are judged.
    """

    name: str
    version: str
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    suppliers: dict[str, str]
    other_libraries: int
    libraries: tuple[InstalledLibrary, ...]


@dataclass(frozen=True, kw_only=True)
class DiagnosedTarget:
    """A target of the recipes, on this machine.

    Attributes:
        name: as in the session, `bitsandbytes-122`.
        fits: nothing speaks against it.
        runs: why its wheel doesn't run here; none: it does, as far as is known.
        builds: why it can't be built here.
    """

    name: str
    fits: bool
    runs: tuple[str, ...]
    builds: tuple[str, ...]

    @classmethod
    def of(cls, fit: Fit) -> DiagnosedTarget:
        """A target that was held against the machine."""
        fits = not (fit.runs or fit.builds)
        return cls(name=fit.name, fits=fits, runs=fit.runs, builds=fit.builds)


@dataclass(frozen=True, kw_only=True)
class DiagnoseDocument:
    """What `diagnose --json` prints.

    Attributes:
        verdict: the worst of all.
        exit_code: of the session.
        machine: what it is.
        environment: what was asked about.
        packages: those with GPU code.
        chosen_libraries: by project, what packages load that choose among libraries.
        targets: those of the recipes; none unless `--targets` asks for them.
        verdicts: the good first.
    """

    SCHEMA: ClassVar[Schema] = Schema("diagnose", "1.0")

    verdict: Level
    exit_code: int
    machine: DiagnosedMachine
    environment: DiagnosedEnvironment
    packages: tuple[DiagnosedPackage, ...]
    chosen_libraries: dict[str, ChosenLibrary]
    targets: tuple[DiagnosedTarget, ...]
    verdicts: tuple[Verdict, ...]


def diagnose_document(report: Report, fails_on: FailsOn = "broken") -> DiagnoseDocument:
    """A report as a document.

    Args:
        report: what was found out.
        fails_on: the least level that makes the session fail.
    """
    return DiagnoseDocument(
        verdict=report.level,
        exit_code=exit_code_of(report.level, fails_on),
        machine=DiagnosedMachine(
            surroundings=report.host,
            driver=report.driver,
            installations=report.installations,
            settings=dict(report.settings),
        ),
        environment=_environment(report),
        packages=tuple(map(_package, report.packages)),
        chosen_libraries=dict(report.chosen_libraries),
        targets=tuple(map(DiagnosedTarget.of, report.fits)),
        verdicts=report.verdicts,
    )


def _environment(report: Report) -> DiagnosedEnvironment:
    there = report.environment
    wheels = nvidia_wheels(there) if there else ()
    return DiagnosedEnvironment(
        python=str(report.chosen.path or ""),
        chosen_by=report.chosen.how,
        version=there.version if there else "",
        prefix=str(there.prefix) if there else "",
        is_conda=there.is_conda if there else None,
        frameworks=tuple(map(_framework, report.frameworks)),
        leftovers=tuple(there.leftovers) if there else (),
        nvidia_wheels={one.name: one.version for one in wheels},
    )


def _framework(facts: FrameworkFacts) -> FrameworkFacts:
    """Without the libraries that are no matter of GPUs, of which it loads hundreds."""
    return replace(
        facts, libraries=tuple(one for one in facts.libraries if one.name.startswith(_OF_GPU))
    )


def _package(package: InstalledPackage) -> DiagnosedPackage:
    code = package.code
    return DiagnosedPackage(
        name=package.name,
        version=package.version,
        archs=code.sass if code else (),
        ptx_archs=code.ptx if code else (),
        suppliers=package.suppliers,
        other_libraries=package.others,
        libraries=package.libraries,
    )
