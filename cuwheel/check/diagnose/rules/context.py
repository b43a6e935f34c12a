"""The machine and the environment that rules judge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.imports import FrameworkFacts, frameworks_of
from cuwheel.check.diagnose.facts.isolation import Isolation
from cuwheel.check.diagnose.facts.machine import Driver, HostFacts
from cuwheel.check.diagnose.facts.variables import VariableChange
from cuwheel.check.diagnose.rules.installer import Installer


@dataclass(frozen=True, kw_only=True)
class RuleContext:
    """The facts that rules share.

    Attributes:
        environ: of the caller.
        frameworks: those that were imported.
        host: None if it couldn't be read.
        files_were_read: the installed files were compared with what their RECORD lists.
        changes: of a variable, with which an import works that fails now, by project.
        isolate: makes experiments with the import of a project that fails.
        printed: returns the commands of the verdicts until now.
    """

    environment: PythonEnvironment
    environ: Mapping[str, str]
    installer: Installer
    frameworks: tuple[FrameworkFacts, ...]
    driver: Driver
    host: HostFacts | None
    files_were_read: bool = True
    changes: Mapping[str, VariableChange] = field(default_factory=dict)
    isolate: Callable[[str], Isolation | None] = lambda _: None
    printed: Callable[[], Collection[str]] = frozenset

    def framework(self, name: str) -> FrameworkFacts | None:
        """Return an imported framework; None if it isn't installed, or wasn't imported."""
        return next((known for known in self.frameworks if known.name == name), None)

    @property
    def torch(self) -> FrameworkFacts | None:
        """PyTorch."""
        return self.framework("torch")

    @cached_property
    def projects(self) -> dict[str, Distribution]:
        """The installed frameworks, by the name that they are imported by."""
        return frameworks_of(self.environment)

    def cuda_build(self, framework: str) -> str:
        """Return the command that installs the same release from the package index, or empty.

        PyTorch's has CUDA on Linux; conda chooses its build by other means.
        """
        project = self.projects.get(framework)
        if project is None or self.environment.is_conda:
            return ""
        release = project.version.partition("+")[0]
        # `==` would take a build for the CPU, `2.13.0+cpu`, where an index or a folder has one.
        return self.installer.exchange(project.name, f"{project.name}==={release}")
