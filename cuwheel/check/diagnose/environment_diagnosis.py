"""Diagnosis of an environment: its interpreter, frameworks and packages, and the verdicts."""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.check.cuda.library_choice import LibraryPerCuda
from cuwheel.check.diagnose.chosen_library import ChoosingRecipe, ChosenLibrary, LibraryJudge
from cuwheel.check.diagnose.document import DiagnosedEnvironment
from cuwheel.check.diagnose.facts.environment import ChosenPython, Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.gpu_packages import (
    DiagnosedPackage,
    links_torch,
    loader_of,
    may_be_gpu_package,
    needs_any,
    read_package,
    uses_gpu,
    with_loaded,
)
from cuwheel.check.diagnose.facts.imports import (
    IMPORT_TIME_LIMIT,
    ONLY_READ,
    FrameworkFacts,
    FrameworkImport,
    ImportCall,
    PackageImport,
    find_variable,
    frameworks_of,
    import_framework,
    import_package,
    is_late,
    run_module,
    start_imports,
)
from cuwheel.check.diagnose.facts.installed_files import (
    STRAY,
    InstallationFacts,
    Shadow,
    importable_modules,
    modules_of,
    read_installation,
)
from cuwheel.check.diagnose.facts.isolation import EXPERIMENTS_TIME_LIMIT, Isolation, Isolator, Run
from cuwheel.check.diagnose.facts.library_pairs import LackingLibrary, find_lacking
from cuwheel.check.diagnose.facts.machine import OF_SYSTEM, Driver, HostFacts
from cuwheel.check.diagnose.facts.probe import Answer, Experiment, Other, TimedCall
from cuwheel.check.diagnose.facts.shadows import (
    find_late_shadows,
    find_shadows,
    find_standard_shadows,
)
from cuwheel.check.diagnose.facts.variables import VariableChange
from cuwheel.check.diagnose.rules.caches import judge_caches
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.elsewhere import judge_absent
from cuwheel.check.diagnose.rules.frameworks import (
    judge_frameworks,
    judge_nvidia_wheels,
    judge_pairs,
    nvidia_wheels,
    remedies_of,
)
from cuwheel.check.diagnose.rules.import_failures import exception_in
from cuwheel.check.diagnose.rules.installed_files import InstallationJudge
from cuwheel.check.diagnose.rules.installer import installer_of
from cuwheel.check.diagnose.rules.packages import judge_package
from cuwheel.check.diagnose.rules.requirements import (
    UnmetJudge,
    find_unmet_requirements,
    is_nvidias,
    required_by,
)
from cuwheel.check.diagnose.verdict import Diagnosis, not_examined, worst_level
from cuwheel.check.linkage.installed_loader import InstalledLoader, read_loader_cache

_GPU_LIBRARIES = ("libcu", "libnv", "libnccl", "libtorch", "libc10")  # beginnings of their names
_CALL_TIME_LIMIT = IMPORT_TIME_LIMIT + 5  # seconds, beyond that of the program
_CACHE_TIME_LIMIT = 10.0  # seconds for ldconfig and the system's folders
_VERIFY_TIME_LIMIT = 600.0  # seconds for reading all files of all packages
_FAILED_TIME_LIMIT = 300.0  # seconds for reading all files of those that can't be imported
_OTHERS = 8  # packages without GPU code that are imported where there are no others
_PACKAGE_TIME_LIMIT = 120.0  # seconds for the libraries of all packages
_OTHER_SIZE = re.compile(r"numpy\.dtype size changed")  # of Cython, built for NumPy 1


class EnvironmentDiagnosis:
    """The facts of an environment and the verdicts on them; slow calls run at the same time.

    Args:
        packages: requested projects, or names of modules; none: all with GPU code.
        start: the folder that the user works in.

    `frameworks`, `packages`, `chosen_libraries` and `verdicts` are complete after `judge`.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a caller has chosen
        self,
        environment: PythonEnvironment,
        chosen: ChosenPython,
        packages: tuple[str, ...],
        environ: Mapping[str, str],
        choosing: Mapping[str, ChoosingRecipe],
        start: Path,
    ) -> None:
        self.frameworks: tuple[FrameworkFacts, ...] = ()
        self.packages: tuple[DiagnosedPackage, ...] = ()
        self.chosen_libraries: dict[str, ChosenLibrary] = {}
        self.verdicts: list[Diagnosis] = []
        # For a folder of packages this command sets PYTHONPATH; packages of that Python come after.
        self._fixed = ("PYTHONPATH",) if chosen.packages else ()
        environment = replace(environment, shadowed=()) if chosen.packages else environment
        self._environment = environment
        self._start = start
        self._frameworks = frameworks_of(environment)
        self._requested = dict(requested_projects(environment, packages))
        self._environ = environ
        self._choosing = choosing
        self._installer = installer_of(environment, chosen, environ)
        self._cache = TimedCall(_CACHE_TIME_LIMIT, read_loader_cache)
        self._chosen = self._chosen_packages()
        self._calls: dict[str, ImportCall] = {
            name: partial(import_framework, name, environment)
            for name in self._frameworks_to_import()
        }
        self._calls |= {package.name: self._import_of(package) for package in self._chosen}
        self._changed: frozenset[str] = frozenset()  # projects that fail with a variable only
        self._loaded: dict[str, frozenset[str]] = {}  # what an import has loaded, by project
        self._answers: Mapping[str, FrameworkImport | PackageImport | None] = {}
        self._end = 0.0  # of experiments
        self._isolated: dict[str, Isolation | None] = {}  # by project
        self._imports = start_imports(
            {name: partial(call, environ) for name, call in self._calls.items()}, environ
        )

    def _import_of(self, package: Distribution) -> ImportCall:
        """Return the call that imports a package; the frameworks that it requires come before."""
        required = {project_of(line) for line in package.requires}
        if links_torch(package):
            required.add("torch")
        before = [name for name, own in self._frameworks.items() if own.name in required]
        modules = importable_modules(package)
        return partial(import_package, modules, before, self._environment)

    def _frameworks_to_import(self) -> tuple[str, ...]:
        """Return those that requested packages are or require, as imports take long; else all."""
        installed = self._environment.distributions
        requested = [installed[name] for name in self._requested if name in installed]
        required = {project_of(line) for package in requested for line in package.requires}
        required |= self._requested.keys()
        frameworks = self._frameworks.items()
        needed = tuple(name for name, project in frameworks if project.name in required)
        return needed or tuple(self._frameworks)

    def judge(self, driver: Driver, host: HostFacts | None, *, verifies_files: bool) -> None:
        """Wait for the imports, read the packages and append all verdicts."""
        environment, installer = self._environment, self._installer
        choices = list(self._declared_choices())
        checks = {
            project: TimedCall(
                _CALL_TIME_LIMIT, partial(run_module, declared.check, environment, self._environ)
            )
            for project, _, declared in choices
            if declared.check and driver.gpus
        }
        answers = {name: self._answer(name, call, None) for name, call in self._imports.items()}
        self._answers = answers
        changes = self._find_variables(answers)
        self._changed = frozenset(map(self._project, changes))
        self.frameworks = tuple(
            answer.facts for answer in answers.values() if isinstance(answer, FrameworkImport)
        )
        imports = {
            name: answer for name, answer in answers.items() if isinstance(answer, PackageImport)
        }
        packages = self._chosen
        examined = self._examined(packages)
        context = RuleContext(
            environment=environment,
            environ=self._environ,
            installer=installer,
            frameworks=self.frameworks,
            driver=driver,
            host=host,
            files_were_read=False,
            changes={self._project(name): change for name, change in changes.items()},
            isolate=self._isolate,
            printed=lambda: {verdict.command for verdict in self.verdicts},
        )
        failed = {
            self._project(name)
            for name, answer in answers.items()
            if answer is None or answer.problem
        }
        loaded = {name for answer in answers.values() if answer for name in answer.modules}
        self._loaded = {
            self._project(name): self._owners_of(answer.modules)
            for name, answer in answers.items()
            if answer
        }
        facts = self._read_installation(examined, failed, loaded, verifies_files=verifies_files)
        facts, proven = self._with_cython(self._with_changed(facts))
        works = {self._project(name) for name, answer in answers.items() if _works(answer)}
        lacking = find_unmet_requirements(environment)
        files = InstallationJudge(
            context=context,
            facts=facts,
            needed=self._needed(examined),
            works=frozenset(works - proven),
            replaced=frozenset(unmet.project for unmet in lacking if unmet.installed),
        )
        self.frameworks = tuple(map(files.unless_hidden, self.frameworks))
        context = replace(context, frameworks=self.frameworks, files_were_read=facts.is_complete)
        for project, recipe, declared in choices:
            judge = LibraryJudge(
                context=context,
                distribution=environment.distributions[project],
                recipe=recipe,
                declared=declared,
            )
            self.chosen_libraries[project] = judge.choice
            check = checks.get(project)
            result = self._answer(f"python -m {declared.check}", check, None) if check else None
            self.verdicts += judge.judge(result)
        self._read_packages(packages, context.torch, imports)
        self._judge_distributions(context, files, examined)
        has_problems = worst_level(self.verdicts) in ("warning", "broken")
        commands = "\n".join(verdict.command for verdict in self.verdicts)
        self.verdicts += installer.judge_variables(self._environ, commands)
        if installer.obstacle and (has_problems or installer.obstacle.level != "note"):
            self.verdicts.insert(0, installer.obstacle)  # why other things fail

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Names of frameworks and packages that fail, and no variable of the caller is why."""
        failing = [one.name for one in self.frameworks if one.failure or one.trouble]
        failing += [one.name for one in self.packages if one.failure or one.without_cuda]
        return tuple(name for name in failing if self._project(name) not in self._changed)

    def _project(self, name: str) -> str:
        """Return the project of a framework, or of a package."""
        return self._frameworks[name].name if name in self._frameworks else name

    def _find_variables(
        self, answers: Mapping[str, FrameworkImport | PackageImport | None]
    ) -> dict[str, VariableChange]:
        """Return the variables with which imports fail, by name of the import."""
        known: list[VariableChange] = []
        self._end = time.monotonic() + EXPERIMENTS_TIME_LIMIT
        trials = {
            name: partial(
                find_variable,
                self._calls[name],
                self._environ,
                self._fixed,
                known,
                is_import=bool(answer.import_failure),
                end=self._end,
            )
            for name, answer in answers.items()
            if answer and answer.problem and not is_late(answer.problem)
        }
        calls = start_imports(trials, self._environ) if trials else {}
        found = {name: call.answer(None)[0] for name, call in calls.items()}
        return {name: change for name, change in found.items() if change}

    def _isolate(self, project: str) -> Isolation | None:
        """Make experiments with an import that fails; without a result, first with the others.

        All of them take no more than the time for those of a report.
        """
        isolator = self._isolator(project)
        found = isolator.again(self._isolated.values()) or isolator.isolate()
        self._isolated[project] = found
        if found is None or found.kind:
            return found
        answers = self._answers.items()
        failing = [self._project(name) for name, one in answers if one and one.problem]
        others = [self._isolate(other) for other in failing if other not in self._isolated]
        return isolator.again(others) or found

    def _isolator(self, project: str) -> Isolator:
        name = next(name for name in self._calls if self._project(name) == project)
        is_import = bool(getattr(self._answers[name], "import_failure", ""))

        def run(environ: Mapping[str, str], experiment: Experiment) -> Run:
            result = self._calls[name](environ, experiment)
            return Run(result.import_failure if is_import else result.problem, result.seen)

        def run_alone(own: Distribution, seconds: float) -> str:
            experiment = Experiment(seconds=seconds)
            modules = importable_modules(own)
            return import_package(modules, (), self._environment, self._environ, experiment).failure

        return Isolator(
            call=run,
            environment=self._environment,
            environ=self._environ,
            end=self._end,
            project=project,
            required=frozenset(required_by(self._environment, (project,))),
            alone=run_alone,
        )

    def _owners_of(self, modules: Iterable[str]) -> frozenset[str]:
        """Return the projects that modules are of, which need not be required: numpy, for torch."""
        names = frozenset(modules)
        return frozenset(name for name, own in self._modules.items() if not names.isdisjoint(own))

    @functools.cached_property
    def _modules(self) -> dict[str, tuple[str, ...]]:
        """The modules of each project."""
        installed = self._environment.distributions.values()
        return {own.name: modules_of(own) for own in installed}

    def _needed(self, examined: tuple[Distribution, ...]) -> frozenset[str]:
        """Return the packages that are examined, and what they require."""
        names = {own.name for own in (*examined, *self._chosen)}
        return frozenset(names | required_by(self._environment, names))

    def _judge_distributions(
        self, context: RuleContext, files: InstallationJudge, examined: tuple[Distribution, ...]
    ) -> None:
        unreadable, installed = files.unreadable, context.environment.distributions
        lacking = tuple(
            unmet
            for unmet in find_unmet_requirements(context.environment)
            if unmet.project not in unreadable
        )
        unmet = UnmetJudge(
            context=context,
            unmet=lacking,
            examined=self._needed(examined),  # what is required by what is required, too
            cuda={package.name: package.cuda for package in self.packages},
        ).judge()
        self.verdicts += files.judge()
        absent = (item for item in self._requested.items() if item[0] not in installed)
        self.verdicts += [judge_absent(context, project, name) for project, name in absent]
        self.verdicts += unmet.values()
        repairs = {root: verdict.command for root, verdict in unmet.items()} | files.remedies
        remedies = {**self._remedies_of_loaded(repairs), **remedies_of(context, repairs)}
        self.verdicts += judge_frameworks(context, remedies)
        self.verdicts += judge_caches(context)
        pairs = judge_pairs(context, self._lacking_pairs())
        self.verdicts += pairs.values()
        faulty = frozenset(
            (*files.remedies, *pairs, *(requirement.project for requirement in lacking))
        )
        majors = frozenset(major for package in self.packages for major in package.cuda)
        self.verdicts += judge_nvidia_wheels(context, faulty, majors)
        for package in map(self._without_repetition, self.packages):
            choice = self.chosen_libraries.get(package.name)
            own = installed[package.name]
            optional = set(map(project_of, own.requires))
            needed = required_by(context.environment, (package.name,)) | optional
            used = self._loaded.get(package.name, ())
            names = [package.name, *sorted(needed), *sorted(used)]
            self.verdicts += judge_package(
                package,
                context,
                remedy=next((repairs[name] for name in names if name in repairs), None),
                is_faulty=package.name in repairs,
                hint=choice.hint if choice else "",
            )
        self.verdicts = [*{verdict.what: verdict for verdict in reversed(self.verdicts)}.values()]
        self.verdicts.reverse()

    def _remedies_of_loaded(self, repairs: Mapping[str, str]) -> dict[str, str]:
        """Return, by framework that fails, the command of a fault in what its import has loaded."""
        failed = {known.name for known in self.frameworks if known.failure}
        users = [(name, sorted(self._loaded.get(self._project(name), ()))) for name in failed]
        return {
            name: repairs[used]
            for name, owners in users
            for used in reversed(owners)
            if used in repairs
        }

    def _without_repetition(self, package: DiagnosedPackage) -> DiagnosedPackage:
        """Return a package; what fails in one that extends it, numba-cuda, is that one's."""
        installed = self._environment.distributions
        same = [one for one in self.packages if one.without_cuda == package.without_cuda]
        for other in same:
            requires = map(project_of, installed[other.name].requires)
            if other is not package and package.name in requires:
                return replace(package, without_cuda="", available=None)
        return package

    def _answer(self, what: str, call: TimedCall[Answer], otherwise: Other) -> Answer | Other:
        """Return the result of a call; without one `otherwise`, with a verdict about `what`."""
        answer, fault = call.answer(otherwise)
        self.verdicts += [not_examined(what, fault)] if fault else []
        return answer

    def _declared_choices(self) -> Iterator[tuple[str, ChoosingRecipe, LibraryPerCuda]]:
        """Yield each examined package that chooses among libraries, with its recipe."""
        for project, recipe in self._choosing.items():
            is_examined = not self._requested or project in self._requested
            is_installed = project in self._environment.distributions
            if recipe.library_per_cuda and is_examined and is_installed:
                yield project, recipe, recipe.library_per_cuda

    def _chosen_packages(self) -> list[Distribution]:
        """Return the requested packages, else all with GPU code."""
        installed = self._environment.distributions
        read = {self._frameworks[name].name for name in ONLY_READ if name in self._frameworks}
        if not self._requested:
            absent, packages = self._absent_of_system(), [*installed.values()]
            others = [own for own in packages if may_be_gpu_package(own)]
            chosen = [
                *(own for own in packages if own.name in read),
                *(own for own in others if uses_gpu(own) or needs_any(own, absent)),
                *(own for own in others if own.name == "keras" and self._has_backend()),
            ]
            # Without any of them, what is compiled shows whether the environment works.
            compiled = (own for own in others if own.libraries and importable_modules(own))
            is_other = not chosen and not self._frameworks
            return [*itertools.islice(compiled, _OTHERS)] if is_other else chosen
        named = [installed[project] for project in self._requested if project in installed]
        imported = {self._frameworks[name].name for name in self._frameworks} - read
        return [
            own
            for own in named
            if own.name not in imported and (may_be_gpu_package(own) or importable_modules(own))
        ]

    def _has_backend(self) -> bool:
        """Return True if Keras doesn't wait for a program to choose its backend."""
        home = Path(self._environ.get("HOME") or Path.home())
        names = ("KERAS_BACKEND", "KERAS_HOME")
        is_set = any(map(self._environ.get, names)) or (home / ".keras/keras.json").exists()
        return is_set or "tensorflow" in self._frameworks

    def _absent_of_system(self) -> frozenset[str]:
        """Return the libraries that wheels leave to the system, and that its loader doesn't know.

        What needs one is imported too: only that shows whether it comes from elsewhere.
        """
        cache = self._cache.answer({})[0]
        there = {soname for soname, path in cache.items() if path.exists()}
        return frozenset(OF_SYSTEM.keys() - there) if cache else frozenset()

    def _examined(self, packages: list[Distribution]) -> tuple[Distribution, ...]:
        """Return frameworks and packages; without a request, also NVIDIA's wheels and the like."""
        installed = self._environment.distributions.values()
        frameworks = [self._frameworks[imported.name] for imported in self.frameworks]
        parts = [*itertools.filterfalse(may_be_gpu_package, installed)]
        if self._requested:  # jax-cuda13-plugin, of an extra
            names = {project_of(line) for own in frameworks for line in own.requires}
            parts = [own for own in parts if own.name in names and _is_part(own, frameworks)]
        return tuple(dict.fromkeys((*frameworks, *parts, *packages)))

    def _read_installation(
        self,
        examined: tuple[Distribution, ...],
        failed: set[str],
        loaded: set[str],
        *,
        verifies_files: bool,
    ) -> InstallationFacts:
        """Read every file of what can't be imported, and of what it requires: that may be why."""
        environment, installed = self._environment, self._environment.distributions
        used = frozenset[str]().union(*self._loaded.values())
        imported = [installed[name] for name in sorted(self._needed(examined) | used)]
        causes = {*required_by(environment, failed)}.union(
            *(self._loaded.get(name, ()) for name in failed)
        )
        causes = {name for name in causes if not is_nvidias(name)}
        checked = tuple(installed.values())
        if self._requested:
            wheels = (own for own in checked if is_nvidias(own.name))  # others open their libraries
            checked = tuple(dict.fromkeys((*examined, *imported, *wheels)))
        limit, verified = _VERIFY_TIME_LIMIT, {distribution.name for distribution in checked}
        if not verifies_files:
            limit, verified = _FAILED_TIME_LIMIT, failed | causes

        def read(verified: Collection[str] = ()) -> InstallationFacts:
            facts = read_installation(environment, examined, checked, verified)
            found = [find_shadows(owner, environment, self._start) for owner in imported]
            found += map(self._shadows_of_compiled, set(installed.values()).difference(imported))
            own = find_standard_shadows(environment, self._start, loaded)
            late = find_late_shadows(environment, self._start, imported, loaded)
            shadows = dict.fromkeys((*itertools.chain.from_iterable(found), *own, *late))
            return replace(facts, shadows=tuple(shadows))

        # Their sizes tell most, and hashes take long.
        what, none = "the files of the packages", InstallationFacts(is_complete=False)
        quick = self._answer(what, TimedCall(_PACKAGE_TIME_LIMIT, read), none)
        if not verified or not quick.is_complete:
            return quick
        partly = replace(quick, is_complete=False)
        return self._answer(what, TimedCall(limit, partial(read, verified)), partly)

    def _shadows_of_compiled(self, owner: Distribution) -> Iterator[Shadow]:
        """Yield what hides a package with libraries that nothing examined needs."""
        if owner.libraries and not self._requested:
            own = importable_modules(owner)
            shadows = find_shadows(owner, self._environment, self._start)
            yield from (shadow for shadow in shadows if shadow.module in own)

    def _with_cython(self, facts: InstallationFacts) -> tuple[InstallationFacts, set[str]]:
        """Import extensions that may be for NumPy 1; return the facts, and of whom some are."""
        failed = {}
        for name, modules in facts.cython.items():
            result = import_package(modules, (), self._environment, self._environ)
            if _OTHER_SIZE.search(result.failure):
                failed[name] = modules.get(result.module, "")
        return replace(facts, for_numpy_1={**facts.for_numpy_1, **failed}), {*failed}

    def _with_changed(self, facts: InstallationFacts) -> InstallationFacts:
        """Import what has changed modules; return the facts, where that fails with damage."""
        faults = dict(facts.faults)
        for name, found in facts.faults.items():
            site, first = self._environment.distributions[name].site, found[0]
            changed = [one.path.parent for one in found if one.path.suffix == ".py"]
            inside = [folder.relative_to(site).parts for folder in dict.fromkeys(changed)]
            modules = [".".join(parts) for parts in inside if parts and STRAY.isdisjoint(parts)]
            if any(fault.is_damage for fault in found) or not modules:
                continue
            result = import_package(modules[:_OTHERS], (), self._environment, self._environ)
            if result.failure:
                failure = exception_in(result.failure)
                what = f"{first.what}; the import of {result.module} fails: {failure}"
                faults[name] = (replace(first, what=what, is_damage=True), *found[1:])
        return replace(facts, faults=faults)

    @functools.cached_property
    def _loader(self) -> InstalledLoader:
        cache = self._cache.answer({})[0]
        return loader_of(self._environment, self._environ, self.frameworks, cache)

    def _lacking_pairs(self) -> dict[str, LackingLibrary]:
        """Return what a library of NVIDIA's wheels lacks of another one, by wheel."""
        wheels = nvidia_wheels(self._environment)

        def read() -> dict[str, LackingLibrary]:
            found = {own.name: next(find_lacking(own, self._loader), None) for own in wheels}
            return {name: lacking for name, lacking in found.items() if lacking}

        return self._answer("NVIDIA's wheels", TimedCall(_PACKAGE_TIME_LIMIT, read), {})

    def _read_packages(
        self,
        packages: list[Distribution],
        torch: FrameworkFacts | None,
        imports: Mapping[str, PackageImport],
    ) -> None:
        """Read packages; what their import has loaded is known, the rest is searched."""
        environment, choices = self._environment, self.chosen_libraries
        loader = self._loader
        only = {name: (choice.library,) for name, choice in choices.items()}
        major = torch.major if torch else ""
        wanted = [one for one in packages if one.name not in choices or choices[one.name].is_held]

        def read() -> list[DiagnosedPackage]:
            return [
                read_package(one, environment, loader, major=major, only=only.get(one.name, ()))
                for one in wanted
            ]

        complete = self._answer("the packages", TimedCall(_PACKAGE_TIME_LIMIT, read), [])
        self.packages = tuple(
            with_loaded(package, loader, imports.get(package.name, PackageImport()))
            for package in complete
        )


def _is_part(distribution: Distribution, frameworks: Iterable[Distribution]) -> bool:
    return any(distribution.name.startswith(f"{own.name}-") for own in frameworks)


def _works(answer: FrameworkImport | PackageImport | None) -> bool:
    return answer is not None and not (
        answer.problem if isinstance(answer, FrameworkImport) else answer.failure
    )


def requested_projects(
    environment: PythonEnvironment, names: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the project of each name; one without it may be a module: `cupy` of cupy-cuda13x."""
    installed = environment.distributions
    for name in names:
        project, module = canonicalize_name(name), name.replace("-", "_").lower()
        if project in installed:
            yield project, name
            continue
        owners = [own for own in installed.values() if module in map(str.lower, modules_of(own))]
        yield from ((own.name, name) for own in owners)
        if not owners:
            yield project, name


def describe_environment(
    chosen: ChosenPython,
    environment: PythonEnvironment | None,
    frameworks: tuple[FrameworkFacts, ...],
) -> DiagnosedEnvironment:
    """Return an environment as in the document; of loaded libraries only those of GPUs."""
    wheels = nvidia_wheels(environment) if environment else ()
    loaded = [
        [path for path in framework.libraries if path.name.startswith(_GPU_LIBRARIES)]
        for framework in frameworks
    ]
    return DiagnosedEnvironment(
        python=str(chosen.path or ""),
        chosen_by=chosen.how,
        version=environment.version if environment else "",
        prefix=str(environment.prefix) if environment else "",
        is_conda=environment.is_conda if environment else None,
        frameworks=tuple(
            replace(framework, libraries=tuple(libraries))
            for framework, libraries in zip(frameworks, loaded, strict=True)
        ),
        leftovers=environment.leftovers if environment else (),
        nvidia_wheels={wheel.name: wheel.version for wheel in wheels},
    )
