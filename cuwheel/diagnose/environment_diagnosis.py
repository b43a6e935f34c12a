"""Look into an environment: ask its interpreter, its frameworks, its packages, and judge them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.diagnose import bitsandbytes
from cuwheel.diagnose.bitsandbytes import choose_library, judge_bnb
from cuwheel.diagnose.facts.deadline import TimedCall
from cuwheel.diagnose.facts.environment import (
    FACTS_TIME_LIMIT,
    IMPORT_TIME_LIMIT,
    FrameworkFacts,
    ModuleRun,
    PythonEnvironment,
    ask_environment,
    ask_framework,
    ask_module,
    frameworks_of,
)
from cuwheel.diagnose.facts.gpu_packages import may_be_gpu_package, needs_gpu, read_package
from cuwheel.diagnose.facts.loader import Loader, read_loader_cache
from cuwheel.diagnose.rules.environment import judge_frameworks, judge_nvidia_wheels
from cuwheel.diagnose.rules.packages import PackageJudge
from cuwheel.diagnose.rules.requirements import find_unmet_requirements
from cuwheel.diagnose.verdict import broken, not_asked, warns
from cuwheel.wheel.metadata import project_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cuwheel.diagnose.bitsandbytes import BnbChoice
    from cuwheel.diagnose.facts.environment import Distribution
    from cuwheel.diagnose.facts.gpu_packages import InstalledPackage
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.host import HostFacts
    from cuwheel.diagnose.facts.python_choice import ChosenPython
    from cuwheel.diagnose.verdict import Verdict


_SLACK = 5.0  # seconds that a question gets beyond what its programs get
_CACHE_TIME_LIMIT = 10.0  # seconds for ldconfig and the system's folders
_PACKAGE_TIME_LIMIT = 30.0  # seconds for the libraries of all packages


class EnvironmentDiagnosis:
    """What is inside an environment; all that takes long runs at the same time.

    Args:
        chosen: the interpreter.
        packages: projects that the person names; none: all with GPU code.
        environ: of the caller.

    `environment`, `frameworks`, `packages`, `bnb` and `verdicts` hold what was found, once
    `judge` has returned.
    """

    def __init__(
        self, chosen: ChosenPython, packages: tuple[str, ...], environ: Mapping[str, str]
    ) -> None:
        self._named = packages
        self._environ = environ
        self._imports: dict[str, TimedCall[FrameworkFacts | None]] = {}
        self._bnb_run: TimedCall[ModuleRun | None] | None = None
        self._cache = TimedCall(_CACHE_TIME_LIMIT, read_loader_cache)
        self.environment: PythonEnvironment | None = None
        self.frameworks: tuple[FrameworkFacts, ...] = ()
        self.packages: tuple[InstalledPackage, ...] = ()
        self.bnb: BnbChoice | None = None
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
        wanted = {*names, *(project_of(line) for one in known for line in one.requires)}
        asked = tuple(name for name, one in installed.items() if one.name in wanted)
        return asked or tuple(installed)

    def judge(self, driver: Driver, around: HostFacts | None) -> None:
        """Wait for what was started, read the packages, judge it all."""
        environment = self.environment
        if environment is None:
            return
        self.verdicts += _judge_metadata(environment)
        if driver.gpus and self._wants(bitsandbytes.PROJECT):
            self._bnb_run = TimedCall[ModuleRun | None](
                IMPORT_TIME_LIMIT + _SLACK,
                lambda: ask_module(bitsandbytes.PROJECT, environment, self._environ),
            )
        told = {name: question.answer(None) for name, question in self._imports.items()}
        self.frameworks = tuple(one for one, _ in told.values() if one)
        self.verdicts += [not_asked(name, fault) for name, (_, fault) in told.items() if fault]
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
        self._judge_bnb(driver)
        question = TimedCall(_PACKAGE_TIME_LIMIT, lambda: self._read_packages(environment, loader))
        self.packages, fault = question.answer(())
        self.verdicts += [not_asked("the packages", fault)] if fault else []
        judge = PackageJudge(
            torch=self.framework("torch"),
            driver=driver,
            around=around,
            loader=loader,
            disagreements=disagreements,
            hints={bitsandbytes.PROJECT: self.bnb.hint} if self.bnb else {},
        )
        self.verdicts += [verdict for one in self.packages for verdict in judge.judge(one)]

    def _wants(self, project: str) -> bool:
        if not self.has(project):
            return False
        return not self._named or project in {canonicalize_name(name) for name in self._named}

    def _judge_bnb(self, driver: Driver) -> None:
        environment = self.environment
        if environment is None or not self._wants(bitsandbytes.PROJECT):
            return
        distribution = environment.distributions[bitsandbytes.PROJECT]
        torch = self.framework("torch")
        self.bnb = choose_library(distribution, torch, self._environ)
        done, fault = self._bnb_run.answer(None) if self._bnb_run else (None, "")
        self.verdicts += [not_asked(f"python -m {bitsandbytes.PROJECT}", fault)] if fault else []
        self.verdicts += judge_bnb(self.bnb, done, driver, torch)

    def _read_packages(
        self, environment: PythonEnvironment, loader: Loader
    ) -> tuple[InstalledPackage, ...]:
        torch = self.framework("torch")
        only = (self.bnb.library,) if self.bnb else ()
        return tuple(
            read_package(
                one,
                environment,
                loader,
                major=torch.major if torch else "",
                only=only if one.name == bitsandbytes.PROJECT else (),
            )
            for one in self._chosen_packages(environment)
            if one.name != bitsandbytes.PROJECT or not self.bnb or self.bnb.is_held
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
    for place, fault in environment.damaged:
        yield warns(
            "diagnose-damaged-installation",
            f"{place.rpartition('/')[2] or 'a distribution'} can't be read",
            f"{place}: {fault}",
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
