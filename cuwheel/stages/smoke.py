"""Smoke: install the wheel with only what it declares, import it, see what got loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuwheel.cross.emulation import PACKAGE, find_emulator
from cuwheel.cuda.suppliers import component_of, is_cuda_library, is_from_driver
from cuwheel.errors import SmokeError, StageOrderError
from cuwheel.smoke.emulated import prepare_emulated
from cuwheel.smoke.environment import ENVIRONMENT, prepare_environment
from cuwheel.smoke.loaded_libraries import merge, print_loaded_libraries
from cuwheel.smoke.packages import install_ahead, take_ahead
from cuwheel.smoke.problems import (
    SmokeProblem,
    crashed,
    find_failures,
    foreign_libraries,
    mixed_releases,
    unloadable,
)
from cuwheel.system.files import naming_full_disk, remove_tree
from cuwheel.toolchains.driver_stub import driver_stub_of
from cuwheel.workspace.records import RepairedWheel, SmokeResult

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.cross.emulation import Emulator
    from cuwheel.model.target import Target
    from cuwheel.smoke.environment import SmokeEnvironment
    from cuwheel.smoke.probe import SmokeAnswer
    from cuwheel.system.parallel import Stop
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


_SHOWN = 5  # hidden paths that are named


def smoke(job: Job) -> SmokeResult:
    """See that the wheel works where nothing is installed but what it declares.

    No variable of the caller is there, and the machine's own CUDA is hidden where the system lets
    an ordinary user do it. So a library that is found is found through the wheel's own rpath or
    through another wheel. No GPU is needed.

    A wheel for another kind of machine is tried under QEMU, in that machine's root folder. Without
    a QEMU the stage says so and leaves a record of nothing tried.

    Raises:
        SmokeError: an import or the recipe's call failed, a library of the wheel can't be loaded,
            a CUDA library came from outside site-packages, or CUDA of two major releases is in
            one process; all of it together.
        StageOrderError: there is no wheel yet, or no more.
        InstallError: what the wheel declares can't be installed, or isn't in the recipe's lock.
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
    with naming_full_disk(folder):
        environment = _prepare(folder, wheel, job, emulator)
        tried = _run_probes(environment, job)
        _raise_problems(tried.problems, target, workspace)
        for other in target.served:
            _try_beside(other, folder, wheel, job, emulator)
    loads = merge(answer.loads for answer in tried.answers)
    passed = SmokeResult(
        sha256=wheel.sha256,
        imported=tried.answers[0].imported,
        own=tuple(sorted(tried.own.items())),
        libraries=tuple((load.soname, load.location) for load in loads if not load.is_foreign),
        loaded=tuple((load.soname, load.location, load.supplier, load.requester) for load in loads),
        hidden=None if environment.hidden is None else tuple(map(str, environment.hidden)),
        has_driver_stub=any(answer.has_driver_stub for answer in tried.answers),
        served=tuple(one.pin for one in target.framework.served) if target.framework else (),
        emulator=emulator.version if emulator else "",
    )
    _report(passed, wheel, job)
    remove_tree(folder)
    return passed


def prepare(job: Job, stop: Stop) -> None:
    """Install what the wheel will declare before there is a wheel, as far as that is known.

    Where it fails nothing is left of it, and the stage does all of it.

    Args:
        job: as the stage gets it.
        stop: ends it early once it asks for that.

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


def _prepare(
    folder: Path, wheel: RepairedWheel, job: Job, emulator: Emulator | None
) -> SmokeEnvironment:
    root, stub = job.machine.target_root, driver_stub_of(job)
    if root and emulator:
        return prepare_emulated(folder, wheel, job, stub, root=root, emulator=emulator)
    return prepare_environment(folder, wheel, job, stub)


def _skip(wheel: RepairedWheel, job: Job) -> SmokeResult:
    """Say that nothing was tried, and why."""
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


def _try_beside(
    other: Target, folder: Path, wheel: RepairedWheel, job: Job, emulator: Emulator | None
) -> None:
    """Do the same beside another release of the framework that the wheel says it works with.

    Raises:
        SmokeError: it doesn't.
        InstallError: that release can't be installed.
    """
    beside = replace(job, target=other)
    own = folder / other.smoke_lock.stem
    environment = _prepare(own, wheel, beside, emulator)
    tried = _run_probes(environment, beside)
    _raise_problems(tried.problems, other, job.workspace)
    remove_tree(own)


def _find_wheel(target: Target, workspace: Workspace) -> RepairedWheel:
    wheel = workspace.load("repair", RepairedWheel) if workspace.has("repair") else None
    if wheel is None or not wheel.path.is_file():
        raise StageOrderError(
            f"{target.id}: there is no wheel to install",
            why=f"{wheel.path} no longer exists"
            if wheel
            else f"{workspace.work} has no wheel of a finished build",
            fix=f"build it first: `nox -s build-{target.name}`, with the same options after `--`",
        )
    return wheel


@dataclass
class _Tried:
    """What was found so far: answers, problems, and the fate of each library of the wheel."""

    answers: list[SmokeAnswer]
    problems: list[SmokeProblem]
    own: dict[str, str]


def _run_probes(environment: SmokeEnvironment, job: Job) -> _Tried:
    """Do what the recipe says, then load each library that this did not load."""
    target, workspace = job.target, job.workspace
    declared = target.recipe.smoke
    chosen = target.recipe.library_per_cuda
    libraries = [chosen.file.format_map(_values(target))] if chosen else []
    first = environment.probe.ask(
        imports=declared.imports,
        call=declared.call,
        script=target.smoke_script,
        libraries=libraries,
    )
    hidden = environment.hidden or ()
    environment.compile_imported(first, job)
    tried = _Tried([first], list(find_failures(first, hidden, target)), {})
    for library in environment.libraries:
        if (environment.probe.site / library).resolve() in first.files:
            tried.own[library] = "loaded by the imports"
        elif _is_of_other_python(library, first):
            tried.own[library] = "not loaded, because it is for another Python"
        else:
            _load(library, tried, environment, target, workspace)
    for answer in tried.answers:
        tried.problems += [*foreign_libraries(answer), *mixed_releases(answer)]
    tried.problems = list(dict.fromkeys(tried.problems))
    return tried


def _load(
    library: str,
    tried: _Tried,
    environment: SmokeEnvironment,
    target: Target,
    workspace: Workspace,
) -> None:
    """Load a library that the imports left alone, in a process of its own."""
    first = tried.answers[0]
    tried.own[library] = "loaded alone"
    try:
        alone = environment.probe.ask(libraries=[library])
        if alone.failure and not first.failure and _may_load_after_imports(first, alone):
            alone = _load_after_imports(library, alone, environment, target, workspace)
            tried.own[library] = "loaded after the imports"
    except SmokeError as error:
        tried.problems.append(crashed(library, error))
        return
    tried.answers.append(alone)
    if not alone.failure or (first.failure and _has_same_cause(first, alone)):
        return
    if is_from_driver(alone.lacking):
        tried.own[library] = f"not loaded, because {alone.lacking} is missing"
        workspace.console.note(
            f"{library} needs {alone.lacking}, which comes with NVIDIA's driver: it was not "
            "loaded, because this machine has no driver"
        )
    else:
        tried.problems.append(unloadable(library, alone, environment.hidden or ()))


def _values(target: Target) -> dict[str, str]:
    """What `recipe.RELEASE_PLACEHOLDERS` stand for."""
    toolkit = target.toolkit
    return {
        "cuda": str(toolkit.major),
        "toolkit": toolkit.release,
        "toolkit_tag": toolkit.tag,
    }


def _is_of_other_python(library: str, answer: SmokeAnswer) -> bool:
    """Whether it is an extension module that this Python doesn't import, by its name."""
    own = tuple(suffix for suffix in answer.suffixes if suffix != ".so")
    return ".cpython-" in library and not library.endswith(own)


def _may_load_after_imports(first: SmokeAnswer, alone: SmokeAnswer) -> bool:
    """Whether a library that can't be loaded alone might load after the imports.

    It may have an undefined symbol that they bring, or need a library that they have loaded. A
    framework may have to be imported on purpose.
    """
    component = component_of(alone.lacking)
    is_there = any(path.name.startswith(alone.lacking) for path in first.files)
    return is_there or (component is not None and component.cuda is None)


def _load_after_imports(
    library: str,
    alone: SmokeAnswer,
    environment: SmokeEnvironment,
    target: Target,
    workspace: Workspace,
) -> SmokeAnswer:
    """Load a library as users do: some are made to find theirs among what imports have loaded."""
    framework = (target.framework.name,) if target.framework else ()
    imports = tuple(dict.fromkeys((*framework, *target.recipe.smoke.imports)))
    answer = environment.probe.ask(imports=imports, libraries=[library])
    if not answer.failure:
        workspace.console.note(
            f"{library} loads only after `import {', '.join(imports)}`: on its own it fails with "
            f"{alone.last_words}"
        )
    return answer


def _has_same_cause(first: SmokeAnswer, alone: SmokeAnswer) -> bool:
    """Whether failed imports say, or may be the reason for, what a library alone then says too."""
    return alone.lacking == first.lacking or not is_cuda_library(alone.lacking)


def _raise_problems(problems: list[SmokeProblem], target: Target, workspace: Workspace) -> None:
    """Raise one error for all problems.

    Raises:
        SmokeError: there are any.
    """
    if problems:
        raise SmokeError(
            f"{target.id}: the wheel doesn't work in a clean environment",
            why="; ".join(problem.fact for problem in problems),
            fix="; ".join(dict.fromkeys(problem.fix for problem in problems))
            + f"; the environment is kept in {workspace.work / 'smoke'}",
        )


def _report(passed: SmokeResult, wheel: RepairedWheel, job: Job) -> None:
    """Say who supplied what, how sure that is, and what these imports did not load."""
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
            "this system refuses a mount namespace, so the machine's CUDA could not be hidden; "
            "instead it was checked that no library came from it"
        )
    elif passed.hidden:
        more = len(passed.hidden) - _SHOWN
        named = ", ".join(passed.hidden[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        note(f"hidden from the wheel: {named}")
    if passed.has_driver_stub:
        note(
            "this machine has no NVIDIA driver: a stub was used, which can be loaded and whose "
            "functions all fail"
        )
    missing = set(wheel.external) - {soname for soname, *_ in passed.loaded}
    if missing:
        modules = ", ".join(target.recipe.smoke.imports)
        note(f"importing {modules} didn't load {', '.join(sorted(missing))}")
