"""Stage smoke: the wheel installed with its declared requirements alone, and imported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from cuwheel.base.errors import SmokeError, UsageError
from cuwheel.base.system.files import remove_tree, sha256_of_file
from cuwheel.base.system.parallel import Stop
from cuwheel.base.system.quantities import first_of
from cuwheel.build.finish.smoke.environment import (
    ENVIRONMENT,
    SmokeEnvironment,
    prepare_environment,
)
from cuwheel.build.finish.smoke.loaded_libraries import merge, print_loaded_libraries
from cuwheel.build.finish.smoke.packages import install_ahead, take_ahead
from cuwheel.build.finish.smoke.probe import (
    SmokeAnswer,
    SmokeProblem,
    crashed,
    find_failures,
    foreign_libraries,
    mixed_releases,
    unloadable,
)
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.cross.emulation import PACKAGE, find_emulator
from cuwheel.build.toolchains.driver_stub import driver_stub_of
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import RepairedWheel, SmokeResult
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.suppliers import component_of, is_cuda_library, is_from_driver

_SHOWN = 5  # hidden paths that are named


def smoke(job: Job) -> SmokeResult:
    """Test the wheel where only its declared requirements are installed.

    The environment has no variable of the caller, and the machine's own CUDA is hidden where the
    system lets an ordinary user do it: the libraries come by the wheel's own rpath or from another
    wheel. No GPU is needed.

    A wheel for another kind of machine is tried under QEMU, in that machine's root folder. Without
    QEMU the stage warns, and its record has the reason.

    Raises:
        SmokeError: an import or the recipe's call failed, a library of the wheel can't be loaded,
            a CUDA library came from outside site-packages, or CUDA of two major releases is in
            one process; all of it together.
        UsageError: there is no wheel.
        InstallError: a requirement of the wheel can't be installed, or isn't in the recipe's lock.
        DiskFullError: no space is left.
    """
    target, workspace = job.target, job.workspace
    wheel = _find_wheel(target, workspace)
    folder = _folder(workspace)
    if target.platform.is_foreign or not take_ahead(folder / ENVIRONMENT, job):
        _clear(workspace)
    emulator = find_emulator(target.platform) if job.machine.target_root else None
    if target.platform.is_foreign and not emulator:
        return _skip(wheel, job)
    environment = prepare_environment(folder, wheel, job, driver_stub_of(job), emulator)
    tried = _Trial(environment, job)
    tried.run()
    for other in target.served:  # releases of the framework that it declares to work with
        other_job, subfolder = replace(job, target=other), folder / other.smoke_lock.stem
        stub = driver_stub_of(other_job)
        _Trial(prepare_environment(subfolder, wheel, other_job, stub, emulator), other_job).run()
        remove_tree(subfolder)
    loads = merge(answer.loads for answer in tried.answers)
    passed = SmokeResult(
        sha256=wheel.sha256,
        imported=tried.answers[0].imported,
        own=tuple(sorted(tried.own.items())),
        libraries=tuple((load.soname, load.location) for load in loads if not load.is_foreign),
        loaded=tuple((load.soname, load.location, load.supplier, load.requester) for load in loads),
        hidden=None if environment.hidden is None else tuple(map(str, environment.hidden)),
        has_driver_stub=any(answer.has_driver_stub for answer in tried.answers),
        served=tuple(other.framework.pin for other in target.served if other.framework),
        emulator=emulator.version if emulator else "",
    )
    _report(passed, wheel, job)
    _warn_of_gil(tried.answers, job)
    remove_tree(folder)
    return passed


def _warn_of_gil(answers: Iterable[SmokeAnswer], job: Job) -> None:
    for name in filter(None, dict.fromkeys(answer.turned_gil_on for answer in answers)):
        job.workspace.console.warn(
            f"{job.target.id}: importing {name} turns the GIL on, so that threads take turns: its "
            "extension module, or one that it imports, doesn't declare Py_MOD_GIL_NOT_USED "
            "(pybind11: `py::mod_gil_not_used()`); PYTHON_GIL=0 keeps it off"
        )


def prepare(job: Job, stop: Stop) -> None:
    """Install the wheel's known requirements before there is a wheel.

    A failure leaves nothing, and the stage installs them.

    Raises:
        CuwheelError: as `packages.install_ahead`.
        StoppedError: likewise.
    """
    if job.target.platform.is_foreign:  # nothing of it can be made before there is a wheel
        return
    _clear(job.workspace)
    try:
        install_ahead(_folder(job.workspace) / ENVIRONMENT, job, stop)
    except BaseException:
        _clear(job.workspace)
        raise


def _skip(wheel: RepairedWheel, job: Job) -> SmokeResult:
    """Warn that the wheel wasn't tested, and record why."""
    target, platform = job.target, job.target.platform
    why = (
        f"a static {platform.emulator}, which runs programs for {platform.machine}, isn't installed"
        if job.machine.target_root
        else f"there is no root folder of a Linux system for {platform.machine} to run them in"
    )
    fix = f"apt-get install {PACKAGE}" if job.machine.target_root else "pass one (`--target-root`)"
    job.workspace.console.warn(
        f"{target.id}: the smoke test wasn't run, so it is unknown whether the wheel can be "
        f"imported: {why}; {fix}, then `nox -s smoke -- {target.name}` with the same options"
    )
    return SmokeResult(sha256=wheel.sha256, imported=(), libraries=(), skipped=why)


def _folder(workspace: Workspace) -> Path:
    return (workspace.work / "smoke").resolve()


def _clear(workspace: Workspace) -> None:
    remove_tree(_folder(workspace))
    workspace.log("smoke").unlink(missing_ok=True)


def _find_wheel(target: Target, workspace: Workspace) -> RepairedWheel:
    wheel = workspace.load("repair", RepairedWheel) if workspace.has("repair") else None
    if wheel and wheel.path.is_file() and sha256_of_file(wheel.path) == wheel.sha256:
        return wheel
    if wheel is None:
        folders = f"neither {workspace.dist} nor {workspace.work}"
        why = f"{folders} has the wheel of a finished build, unchanged since"
    elif wheel.path.is_file():
        why = f"{wheel.path} is not the wheel that was built"
    else:
        why = f"{wheel.path} no longer exists"
    raise UsageError(
        f"{target.id}: there is no wheel to install",
        why=why,
        fix=f"build it first: `nox -s build-{target.name}`, with the same options",
    )


class _Trial:
    """Imports of a wheel, and each of its libraries that these didn't load.

    Attributes:
        own: the fate of each library of the wheel.
    """

    def __init__(self, environment: SmokeEnvironment, job: Job) -> None:
        self.answers: list[SmokeAnswer] = []
        self.problems: list[SmokeProblem] = []
        self.own: dict[str, str] = {}
        self._environment, self._job = environment, job
        self._hidden = environment.hidden or ()

    def run(self) -> None:
        """Run the recipe's imports, call and script, then load the other libraries.

        Raises:
            SmokeError: for all problems together.
        """
        target, environment = self._job.target, self._environment
        declared, toolkit = target.recipe.smoke, target.toolkit
        chosen = target.recipe.library_per_cuda
        values = {  # of `recipe.RELEASE_PLACEHOLDERS`
            "cuda": str(toolkit.major),
            "toolkit": toolkit.release,
            "toolkit_tag": toolkit.tag,
        }
        first = environment.probe.run(
            imports=declared.imports,
            call=declared.call,
            script=target.smoke_script,
            libraries=[chosen.file.format_map(values)] if chosen else [],
        )
        environment.compile_imported(first, self._job)
        self.answers.append(first)
        self.problems += find_failures(first, self._hidden, target)
        for library in environment.libraries:
            if (environment.probe.site / library).resolve() in first.files:
                self.own[library] = "loaded by the imports"
            elif _is_of_other_python(library, first):
                self.own[library] = "not loaded, because it is for another Python"
            else:
                self._load(library)
        for answer in self.answers:
            self.problems += [*foreign_libraries(answer), *mixed_releases(answer)]
        if problems := tuple(dict.fromkeys(self.problems)):
            raise SmokeError(
                f"{target.id}: the wheel doesn't work in a clean environment",
                why="; ".join(problem.fact for problem in problems),
                fix="; ".join(dict.fromkeys(problem.fix for problem in problems))
                + f"; the environment is kept in {self._job.workspace.work / 'smoke'}",
            )

    def _load(self, library: str) -> None:
        """Load a library in a process of its own."""
        first, probe = self.answers[0], self._environment.probe
        self.own[library] = "loaded alone"
        try:
            alone = probe.run(libraries=[library])
            if alone.failure and not first.failure and _may_load_after_imports(first, alone):
                alone = self._load_after_imports(library, alone)
                self.own[library] = "loaded after the imports"
        except SmokeError as error:
            self.problems.append(crashed(library, error))
            return
        self.answers.append(alone)
        # A library's own failure may follow from that of the imports.
        is_same = alone.lacking == first.lacking or not is_cuda_library(alone.lacking)
        if not alone.failure or (first.failure and is_same):
            return
        if is_from_driver(alone.lacking):
            self.own[library] = f"not loaded, because {alone.lacking} is missing"
            self._job.workspace.console.note(
                f"{library} needs {alone.lacking}, which comes with NVIDIA's driver: it was not "
                "loaded, because this machine has no driver"
            )
        else:
            self.problems.append(unloadable(library, alone, self._hidden))

    def _load_after_imports(self, library: str, alone: SmokeAnswer) -> SmokeAnswer:
        """Load a library as users do: some rely on libraries that imports have loaded."""
        target = self._job.target
        framework = (target.framework.name,) if target.framework else ()
        imports = tuple(dict.fromkeys((*framework, *target.recipe.smoke.imports)))
        answer = self._environment.probe.run(imports=imports, libraries=[library])
        if not answer.failure:
            self._job.workspace.console.note(
                f"{library} loads only after `import {', '.join(imports)}`: on its own it fails "
                f"with {alone.last_line}"
            )
        return answer


def _is_of_other_python(library: str, answer: SmokeAnswer) -> bool:
    """Return True if its name is that of an extension module of another Python."""
    own = tuple(suffix for suffix in answer.suffixes if suffix != ".so")
    return ".cpython-" in library and not library.endswith(own)


def _may_load_after_imports(first: SmokeAnswer, alone: SmokeAnswer) -> bool:
    """Return True if a library that can't be loaded alone might load after the imports.

    It may have an undefined symbol that they bring, or need a library that they have loaded. A
    framework may have to be imported on purpose.
    """
    component = component_of(alone.lacking)
    is_loaded = any(path.name.startswith(alone.lacking) for path in first.files)
    return is_loaded or (component is not None and component.cuda is None)


def _report(passed: SmokeResult, wheel: RepairedWheel, job: Job) -> None:
    """Print the supplier of each library, the limits of the test, and what wasn't loaded."""
    target, note = job.target, job.workspace.console.note
    if passed.emulator:
        note(f"run with {passed.emulator} on this machine, not on a {target.platform.machine} one")
    if job.sandbox == "none":
        note("there is no sandbox, so the wheel's code could access the network and other files")
    if passed.own:
        libraries = ", ".join(f"{file} ({fate})" for file, fate in passed.own)
        note(f"imported {', '.join(passed.imported)}; the wheel's own libraries: {libraries}")
    if passed.served:
        note(f"the same wheel also works with {', '.join(passed.served)}")
    if passed.loaded:
        print_loaded_libraries(passed.loaded, job.workspace.console)
    if passed.hidden is None:
        note(
            "without a sandbox the machine's CUDA is not hidden from the wheel; instead it was "
            "checked that no library came from it"
        )
    elif passed.hidden:
        note(f"hidden from the wheel: {first_of(passed.hidden, _SHOWN)}")
    if passed.has_driver_stub:
        note(
            "this machine has no NVIDIA driver: a stub was used, which can be loaded and whose "
            "functions all fail"
        )
    missing = set(wheel.external) - {soname for soname, *_ in passed.loaded}
    if missing:
        modules = ", ".join(target.recipe.smoke.imports)
        note(f"importing {modules} didn't load {', '.join(sorted(missing))}")
