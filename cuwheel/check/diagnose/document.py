"""The JSON document of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cuwheel.base.system.output.documents import Schema
from cuwheel.check.diagnose.chosen_library import ChosenLibrary
from cuwheel.check.diagnose.facts.gpu_packages import DiagnosedPackage
from cuwheel.check.diagnose.facts.imports import FrameworkFacts
from cuwheel.check.diagnose.facts.machine import Driver, HostFacts
from cuwheel.check.diagnose.toolkits import Installations
from cuwheel.check.diagnose.verdict import Diagnosis, Level


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

    SCHEMA: ClassVar[Schema] = Schema("diagnose", "2.6")

    verdict: Level
    exit_code: int
    machine: DiagnosedMachine
    environment: DiagnosedEnvironment
    packages: tuple[DiagnosedPackage, ...]
    chosen_libraries: dict[str, ChosenLibrary]
    targets: tuple[DiagnosedTarget, ...]
    verdicts: tuple[Diagnosis, ...]
