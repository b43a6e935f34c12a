"""Look into an environment: ask its interpreter, its frameworks, its packages, and judge them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.diagnose.facts.chosen_library import choose_library
from cuwheel.diagnose.facts.deadline import TimedCall
from cuwheel.diagnose.facts.environment import FACTS_TIME_LIMIT, PythonEnvironment, ask_environment
from cuwheel.diagnose.facts.gpu_packages import may_be_gpu_package, needs_gpu, read_package
from cuwheel.diagnose.facts.imports import (
    IMPORT_TIME_LIMIT,
    FrameworkFacts,
    ModuleRun,
    ask_framework,
    ask_module,
    frameworks_of,
)
from cuwheel.diagnose.facts.loader import Loader, read_loader_cache
from cuwheel.diagnose.rules.chosen_library import LibraryJudge
from cuwheel.diagnose.rules.environment import judge_frameworks, judge_nvidia_wheels
from cuwheel.diagnose.rules.packages import PackageJudge
from cuwheel.diagnose.rules.requirements import find_unmet_requirements
from cuwheel.diagnose.verdict import broken, not_asked, warns
from cuwheel.wheel.metadata import project_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cuwheel.diagnose.facts.chosen_library import ChosenLibrary
    from cuwheel.diagnose.facts.environment import Distribution
    from cuwheel.diagnose.facts.gpu_packages import InstalledPackage
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.host import HostFacts
    from cuwheel.diagnose.facts.python_choice import ChosenPython
    from cuwheel.diagnose.verdict import Verdict
    from cuwheel.model.recipe import LibraryPerCuda, Recipe


_SLACK = 5.0  # seconds that a question gets beyond what its programs get
_CACHE_TIME_LIMIT = 10.0  # seconds for ldconfig and the system's folders
_PACKAGE_TIME_LIMIT = 30.0  # seconds for the libraries of all packages


class EnvironmentDiagnosis:
    """What is inside an environment; all that takes long runs at the same time.

    Args:
        chosen: the interpreter.
        packages: projects that the person names; none: all with GPU code.
        environ: of the caller.
        choosing: recipes of packages that choose among libraries, by project.

    `environment`, `frameworks`, `packages`, `chosen_libraries` and `verdicts` hold what was found,
    once `judge` has returned.
    """

    def __init__(
        self,
        chosen: ChosenPython,
        packages: tuple[str, ...],
        environ: Mapping[str, str],
        choosing: Mapping[str, Recipe],
    ) -> None:
        self._named = packages
        self._environ = environ
        self._choosing = choosing
        self._imports: dict[str, TimedCall[FrameworkFacts | None]] = {}
        self._checks: dict[str, TimedCall[ModuleRun | None]] = {}
        self._cache = TimedCall(_CACHE_TIME_LIMIT, read_loader_cache)
        self.environment: PythonEnvironment | None = None
        self.frameworks: tuple[FrameworkFacts, ...] = ()
        self.packages: tuple[InstalledPackage, ...] = ()
        self.chosen_libraries: dict[str, ChosenLibrary] = {}
        self.verdicts: list[Verdict] = []
        self._start(chosen)

    def framework(self, name: str) -> FrameworkFacts | None:
        """A framework, once it has answered."""
        return next((one for one in self.frameworks if one.name == name), None)

    def has(self, project: str) -> bool:
        """Whether a project is installed."""
        return self.environment is not None and project in self.environment.distributions

    def _start(self, chosen: ChosenPython) -> None:
        """Ask for what is installed, then start what takes long."""
        if chosen.path is None:
            self.verdicts.append(
                broken(
                    "python-not-found",
                    "there is no environment to look at",
                    chosen.fault,
                    chosen.fix,
                )
            )
            return
        python, environ = chosen.path, self._environ
        environment, fault = TimedCall[PythonEnvironment | None](
            FACTS_TIME_LIMIT + _SLACK, lambda: ask_environment(python, environ)
        ).answer(None)
        if environment is None:
            fix = "name another interpreter or environment with --python, or activate another one"
            self.verdicts.append(broken("python-not-found", f"{python} can't be asked", fault, fix))
            return
        self.environment = environment
        limit = IMPORT_TIME_LIMIT + _SLACK
        for name in self._frameworks_of(environment):
            self._imports[name] = TimedCall[FrameworkFacts | None](
                limit, partial(ask_framework, name, environment, environ)
            )

    def _frameworks_of(self, environment: PythonEnvironment) -> tuple[str, ...]:
        """Those that named packages are or require, as imports take long; else all."""
        installed = frameworks_of(environment)
        names = {canonicalize_name(name) for name in self._named}
        known = [environment.distributions[name] for name in names if self.has(name)]
        required = {*names, *(project_of(line) for one in known for line in one.requires)}
        chosen = tuple(name for name, one in installed.items() if one.name in required)
        return chosen or tuple(installed)

    def judge(self, driver: Driver, host: HostFacts | None) -> None:
        """Wait for what was started, read the packages, judge it all."""
        environment = self.environment
        if environment is None:
            return
        self.verdicts += _judge_metadata(environment)
        if driver.gpus:
            self._start_checks(environment)
        answers = {name: question.answer(None) for name, question in self._imports.items()}
        self.frameworks = tuple(one for one, _ in answers.values() if one)
        self.verdicts += [not_asked(name, fault) for name, (_, fault) in answers.items() if fault]
        disagreements = find_unmet_requirements(environment)
        self.verdicts += judge_frameworks(self.frameworks, driver, disagreements)
        self.verdicts += judge_nvidia_wheels(environment, disagreements, self.frameworks)
        known, _ = self._cache.answer({})
        loader = Loader(
            environment=environment,
            environ=self._environ,
            frameworks=self.frameworks,
            known=known,
        )
        for project, recipe, declared in self._declared_choices():
            self._judge_choice(project, recipe, declared, environment, driver)
        question = TimedCall(_PACKAGE_TIME_LIMIT, lambda: self._read_packages(environment, loader))
        self.packages, fault = question.answer(())
        self.verdicts += [not_asked("the packages", fault)] if fault else []
        judge = PackageJudge(
            torch=self.framework("torch"),
            driver=driver,
            host=host,
            loader=loader,
            disagreements=disagreements,
            hints={name: choice.hint for name, choice in self.chosen_libraries.items()},
        )
        self.verdicts += [verdict for one in self.packages for verdict in judge.judge(one)]

    def _wants(self, project: str) -> bool:
        if not self.has(project):
            return False
        return not self._named or project in {canonicalize_name(name) for name in self._named}

    def _declared_choices(self) -> Iterator[tuple[str, Recipe, LibraryPerCuda]]:
        """Installed packages that choose among libraries, each with what says how."""
        for project, recipe in self._choosing.items():
            if recipe.library_per_cuda and self._wants(project):
                yield project, recipe, recipe.library_per_cuda

    def _start_checks(self, environment: PythonEnvironment) -> None:
        for project, _, declared in self._declared_choices():
            if declared.check:
                self._checks[project] = TimedCall[ModuleRun | None](
                    IMPORT_TIME_LIMIT + _SLACK,
                    partial(ask_module, declared.check, environment, self._environ),
                )

    def _judge_choice(
        self,
        project: str,
        recipe: Recipe,
        declared: LibraryPerCuda,
        environment: PythonEnvironment,
        driver: Driver,
    ) -> None:
        framework = self.framework(declared.framework)
        distribution = environment.distributions[project]
        choice = choose_library(declared, distribution, framework, self._environ)
        self.chosen_libraries[project] = choice
        check = self._checks.get(project)
        done, fault = check.answer(None) if check else (None, "")
        self.verdicts += [not_asked(f"python -m {declared.check}", fault)] if fault else []
        judge = LibraryJudge(
            project=project,
            recipe=recipe,
            declared=declared,
            choice=choice,
            driver=driver,
            framework=framework,
        )
        self.verdicts += judge.judge(done)

    def _read_packages(
        self, environment: PythonEnvironment, loader: Loader
    ) -> tuple[InstalledPackage, ...]:
        torch = self.framework("torch")
        major, choices = torch.major if torch else "", self.chosen_libraries
        only = {name: (choice.library,) for name, choice in choices.items()}
        return tuple(
            read_package(one, environment, loader, major=major, only=only.get(one.name, ()))
            for one in self._chosen_packages(environment)
            if one.name not in choices or choices[one.name].is_held
        )

    def _chosen_packages(self, environment: PythonEnvironment) -> Sequence[Distribution]:
        if not self._named:
            installed = environment.distributions.values()
            return [one for one in installed if may_be_gpu_package(one) and needs_gpu(one)]
        found = []
        for name in self._named:
            project = canonicalize_name(name)
            if one := environment.distributions.get(project):
                found += [one] if may_be_gpu_package(one) else []
                continue
            self.verdicts.append(
                broken(
                    "diagnose-not-installed",
                    f"{name} isn't installed",
                    f"{environment.python} has no distribution of that name",
                    f"pip install {name}, or name another environment with --python",
                )
            )
        return found


def _judge_metadata(environment: PythonEnvironment) -> Iterable[Verdict]:
    for path, fault in environment.damaged:
        yield warns(
            "diagnose-damaged-installation",
            f"{path.rpartition('/')[2] or 'a distribution'} can't be read",
            f"{path}: {fault}",
            "remove that folder and install the package again",
        )
    for one in environment.shadowed:
        first = environment.distributions[one.name]
        if not may_be_gpu_package(one) or needs_gpu(one):
            yield warns(
                "diagnose-versions",
                f"{one.name} is installed twice",
                f"{first.version} in {first.site} comes before {one.version} in {one.site}",
                f"remove one: pip uninstall {one.name}",
            )
