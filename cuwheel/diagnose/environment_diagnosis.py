"""Look into an environment: ask its interpreter, its frameworks, its packages, and judge them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.diagnose.facts.chosen_library import choose_library
from cuwheel.diagnose.facts.deadline import TimedCall
from cuwheel.diagnose.facts.environment import FACTS_TIME_LIMIT, PythonEnvironment, ask_environment
from cuwheel.diagnose.facts.gpu_packages import (
    may_be_gpu_package,
    needs_gpu,
    read_package,
    with_opened,
)
from cuwheel.diagnose.facts.imports import (
    IMPORT_TIME_LIMIT,
    FrameworkFacts,
    ModuleRun,
    PackageImport,
    ask_framework,
    ask_module,
    ask_package,
    frameworks_of,
)
from cuwheel.diagnose.facts.installation import InstallationFacts, read_installation
from cuwheel.diagnose.facts.installed_files import modules_of
from cuwheel.diagnose.facts.loader import Loader, read_loader_cache
from cuwheel.diagnose.rules.chosen_library import LibraryJudge
from cuwheel.diagnose.rules.environment import cuda_builds, judge_frameworks, remedies_of
from cuwheel.diagnose.rules.installation import InstallationJudge
from cuwheel.diagnose.rules.installer import installer_of
from cuwheel.diagnose.rules.nvidia_wheels import NvidiaWheelsJudge
from cuwheel.diagnose.rules.packages import PackageJudge
from cuwheel.diagnose.rules.requirements import find_unmet_requirements
from cuwheel.diagnose.rules.unmet import UnmetJudge
from cuwheel.diagnose.verdict import broken, not_asked, worst_level
from cuwheel.wheel.metadata import project_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cuwheel.diagnose.facts.chosen_library import ChosenLibrary
    from cuwheel.diagnose.facts.environment import Distribution
    from cuwheel.diagnose.facts.gpu_packages import InstalledPackage
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.host import HostFacts
    from cuwheel.diagnose.facts.python_choice import ChosenPython
    from cuwheel.diagnose.rules.installer import Installer
    from cuwheel.diagnose.verdict import Verdict
    from cuwheel.model.recipe import LibraryPerCuda, Recipe


_SLACK = 5.0  # seconds that a question gets beyond what its programs get
_CACHE_TIME_LIMIT = 10.0  # seconds for ldconfig and the system's folders
_VERIFY_TIME_LIMIT = 600.0  # seconds for reading all files of all packages
_PACKAGE_TIME_LIMIT = 30.0  # seconds for the libraries of all packages


class EnvironmentDiagnosis:
    """What is inside an environment; all that takes long runs at the same time.

    Args:
        chosen: the interpreter.
        packages: projects that the person names; none: all with GPU code.
        environ: of the caller.
        choosing: recipes of packages that choose among libraries, by project.
        verifies_files: every file is read and held against its hash.

    `environment`, `frameworks`, `packages`, `chosen_libraries` and `verdicts` hold what was found,
    once `judge` has returned.
    """

    def __init__(
        self,
        chosen: ChosenPython,
        packages: tuple[str, ...],
        environ: Mapping[str, str],
        choosing: Mapping[str, Recipe],
        *,
        verifies_files: bool = False,
    ) -> None:
        self._named = packages
        self._environ = environ
        self._choosing = choosing
        self._chosen = chosen
        self._verifies_files = verifies_files
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
            self.verdicts.append(
                broken("python-not-found", f"{python} can't be examined", fault, fix)
            )
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
        if driver.gpus:
            self._start_checks(environment)
        answers = {name: question.answer(None) for name, question in self._imports.items()}
        self.frameworks = tuple(one for one, _ in answers.values() if one)
        self.verdicts += [not_asked(name, fault) for name, (_, fault) in answers.items() if fault]
        installer = installer_of(environment, self._chosen, self._environ)
        named = self._chosen_packages(environment, installer)
        examined = self._examined(environment, named)
        files = InstallationJudge(
            environment=environment,
            facts=self._read_installation(environment, examined),
            installer=installer,
            environ=self._environ,
        )
        self.frameworks = tuple(map(files.unless_hidden, self.frameworks))
        loader = Loader(
            environment=environment,
            environ=self._environ,
            frameworks=self.frameworks,
            known=self._cache.answer({})[0],
        )
        builds = cuda_builds(environment, installer)
        for project, recipe, declared in self._declared_choices():
            self._judge_choice(project, recipe, declared, driver, builds)
        self._read_packages(named, loader)
        unmet = UnmetJudge(
            environment=environment,
            unmet=find_unmet_requirements(environment),
            examined=frozenset(one.name for one in examined),
            frameworks=self.frameworks,
            cuda={one.name: one.cuda for one in self.packages},
            installer=installer,
        )
        judge = PackageJudge(
            torch=self.framework("torch"),
            driver=driver,
            host=host,
            loader=loader,
            installer=installer,
            faulty=files.faulty | unmet.groups.keys(),
            cuda_builds=builds,
            hints={name: choice.hint for name, choice in self.chosen_libraries.items()},
        )
        self.verdicts += [*files.judge(), *unmet.judge()]
        self.verdicts += self._judge_frameworks(files, unmet, driver, builds)
        self.verdicts += [verdict for one in self.packages for verdict in judge.judge(one)]
        if installer.obstacle and worst_level(self.verdicts) in ("warning", "broken"):
            self.verdicts.append(installer.obstacle)

    def _judge_frameworks(
        self,
        files: InstallationJudge,
        unmet: UnmetJudge,
        driver: Driver,
        builds: Mapping[str, str],
    ) -> Iterator[Verdict]:
        """Judge them and NVIDIA's wheels, for which what is said already is known."""
        remedies = {**unmet.remedies, **files.remedies}
        first = remedies_of(self.frameworks, files.environment, remedies)
        yield from judge_frameworks(self.frameworks, driver, first, builds)
        wheels = NvidiaWheelsJudge(
            environment=files.environment,
            frameworks=self.frameworks,
            faulty=files.faulty | frozenset(one.project for one in unmet.unmet),
            installer=files.installer,
        )
        yield from wheels.judge()

    def _examined(
        self, environment: PythonEnvironment, named: Sequence[Distribution]
    ) -> tuple[Distribution, ...]:
        """Frameworks with their parts, NVIDIA's wheels and GPU packages; or what is named."""
        installed = environment.distributions.values()
        parts = () if self._named else (one for one in installed if not may_be_gpu_package(one))
        frameworks = (frameworks_of(environment)[one.name] for one in self.frameworks)
        return tuple({one.name: one for one in (*frameworks, *parts, *named)}.values())

    def _read_installation(
        self, environment: PythonEnvironment, examined: tuple[Distribution, ...]
    ) -> InstallationFacts:
        """Every file of a framework that can't be imported is read, as that may be why."""
        failed = [frameworks_of(environment)[one.name] for one in self.frameworks if one.failure]
        held = examined if self._named else tuple(environment.distributions.values())
        verified = {one.name for one in (held if self._verifies_files else failed)}
        limit = _VERIFY_TIME_LIMIT if self._verifies_files else _PACKAGE_TIME_LIMIT
        question = TimedCall(
            limit, lambda: read_installation(environment, examined, held, verified)
        )
        facts, fault = question.answer(InstallationFacts())
        self.verdicts += [not_asked("the files of the packages", fault)] if fault else []
        return facts

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
        driver: Driver,
        builds: Mapping[str, str],
    ) -> None:
        framework = self.framework(declared.framework)
        distribution = self.environment.distributions[project]  # type: ignore[union-attr]
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
            cuda_build=builds.get(declared.framework, ""),
        )
        self.verdicts += judge.judge(done)

    def _read_packages(self, named: Sequence[Distribution], loader: Loader) -> None:
        """Read them, and import those of which the loader alone doesn't find all libraries."""
        question = TimedCall(_PACKAGE_TIME_LIMIT, lambda: self._read(named, loader))
        read, fault = question.answer(())
        self.verdicts += [not_asked("the packages", fault)] if fault else []
        environment = loader.environment
        imports = {
            one.name: TimedCall(
                IMPORT_TIME_LIMIT + _SLACK,
                partial(
                    ask_package,
                    modules_of(environment.distributions[one.name]),
                    environment,
                    self._environ,
                ),
            )
            for one in read
            if not one.is_complete
        }
        seen = {name: question.answer(PackageImport())[0] for name, question in imports.items()}
        self.packages = tuple(
            with_opened(one, loader, seen.get(one.name, PackageImport())) for one in read
        )

    def _read(self, named: Sequence[Distribution], loader: Loader) -> tuple[InstalledPackage, ...]:
        torch = self.framework("torch")
        major, choices = torch.major if torch else "", self.chosen_libraries
        only = {name: (choice.library,) for name, choice in choices.items()}
        return tuple(
            read_package(one, loader.environment, loader, major=major, only=only.get(one.name, ()))
            for one in named
            if one.name not in choices or choices[one.name].is_held
        )

    def _chosen_packages(
        self, environment: PythonEnvironment, installer: Installer
    ) -> Sequence[Distribution]:
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
                    "install it, or name another environment with --python",
                    installer.install(project),
                )
            )
        return found
