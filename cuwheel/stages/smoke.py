"""Smoke: install the wheel with only what it declares, import it, see what got loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.cuda.suppliers import component_of, is_cuda_library, is_from_driver
from cuwheel.errors import SmokeError, StageOrderError
from cuwheel.smoke.environment import prepare_environment
from cuwheel.smoke.hide_cuda import supplier_among
from cuwheel.smoke.loaded_libraries import cuda_releases, merge, print_loaded_libraries
from cuwheel.system.files import naming_full_disk, remove_tree
from cuwheel.workspace.records import RepairedWheel, SmokeResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.model.target import Target
    from cuwheel.smoke.environment import SmokeEnvironment
    from cuwheel.smoke.probe import SmokeAnswer
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """One thing that is wrong: the fact, and what to do about it."""

    fact: str
    fix: str


_SHOWN = 5  # hidden places that are named
_CRASHED = (
    "look at what the library runs when it is loaded: its constructors have to do without GPU"
)

# What the loader or Python says → what to do; the first that is found counts.
_HINTS = {
    "undefined symbol: cu": "declare the component that has this symbol in the recipe's `link`",
    "undefined symbol: nv": "declare the component that has this symbol in the recipe's `link`",
    "undefined symbol": "build against the framework and toolkit that the wheel will run with",
    "GLIBC": "smoke on a system that is as new as the wheel's platform tag says",
    "No module named": "correct `imports` in the recipe's smoke, or add what is missing to the "
    "package's requirements",
    "cannot open shared object": "declare the library's component in the recipe's `link`, so that "
    "the wheel requires it and has an rpath to it",
}


def smoke(job: Job) -> SmokeResult:
    """See that the wheel works where nothing is installed but what it declares.

    No variable of the caller is there, and the machine's own CUDA is hidden where the system lets
    an ordinary user do it. So a library that is found is found through the wheel's own rpath or
    through another wheel. No GPU is needed.

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
    folder = (workspace.work / "smoke").absolute()
    remove_tree(folder)
    workspace.log("smoke").unlink(missing_ok=True)
    with naming_full_disk(folder):
        room = prepare_environment(folder, wheel, job)
        answers, problems = _try(room, target, workspace)
    _refuse(problems, target, workspace)
    loads = merge(answer.loads for answer in answers)
    passed = SmokeResult(
        sha256=wheel.sha256,
        imported=answers[0].imported,
        libraries=tuple((load.soname, load.place) for load in loads if not load.is_foreign),
        loaded=tuple((load.soname, load.place, load.supplier, load.asker) for load in loads),
        hidden=None if room.hidden is None else tuple(map(str, room.hidden)),
        has_driver_stub=any(answer.has_driver_stub for answer in answers),
    )
    _tell(passed, wheel, target, workspace)
    remove_tree(folder)
    return passed


def _find_wheel(target: Target, workspace: Workspace) -> RepairedWheel:
    wheel = workspace.load("repair", RepairedWheel) if workspace.has("repair") else None
    if wheel is None or not wheel.path.is_file():
        raise StageOrderError(
            f"{target.id}: there is no wheel to install",
            why=f"{wheel.path} is gone"
            if wheel
            else f"{workspace.work} has none of a finished build",
            fix=f"build it first: `nox -s build-{target.name}`, with the same options behind `--`",
        )
    return wheel


def _try(
    room: SmokeEnvironment, target: Target, workspace: Workspace
) -> tuple[list[SmokeAnswer], list[_Problem]]:
    """Do what the recipe says, then load each library that this left alone."""
    wanted = target.recipe.smoke
    libraries = [text.format_map(_values(target)) for text in wanted.libraries]
    first = room.probe.ask(imports=wanted.imports, call=wanted.call, libraries=libraries)
    answers, problems = [first], list(_failures(first, room, target))
    for library in _left_alone(room, first):
        try:
            alone = room.probe.ask(libraries=[library])
            if alone.failure and not first.failure and _may_help(first, alone):
                alone = _load_after_imports(library, alone, room, target, workspace)
        except SmokeError as error:
            problems.append(
                _Problem(fact=f"loading {library} ends the interpreter: {error.why}", fix=_CRASHED)
            )
            continue
        answers.append(alone)
        if alone.failure and not (first.failure and _is_said(first, alone)):
            problems += _unloadable(library, alone, room, workspace)
    for answer in answers:
        problems += [*_foreign(answer), *_mixed(answer)]
    return answers, list(dict.fromkeys(problems))


def _values(target: Target) -> dict[str, str]:
    """What `recipe.SMOKE_PLACEHOLDERS` stand for."""
    return {
        "toolkit": target.toolkit.release,
        "toolkit_tag": target.toolkit.tag,
        "version": target.recipe.version,
    }


def _left_alone(room: SmokeEnvironment, answer: SmokeAnswer) -> Iterator[str]:
    """Libraries of the wheel that nothing loaded, without extension modules of other Pythons."""
    own = tuple(suffix for suffix in answer.suffixes if suffix != ".so")
    for name in room.libraries:
        is_others = ".cpython-" in name and not name.endswith(own)
        if not is_others and (room.probe.site / name).resolve() not in answer.files:
            yield name


def _may_help(first: SmokeAnswer, alone: SmokeAnswer) -> bool:
    """Whether a library that can't be loaded alone might load after the imports.

    It may have an undefined symbol that they bring, or lack a library that they have loaded. A
    framework may have to be imported on purpose.
    """
    component = component_of(alone.lacking)
    is_there = any(path.name.startswith(alone.lacking) for path in first.files)
    return is_there or (component is not None and component.cuda is None)


def _load_after_imports(
    library: str, alone: SmokeAnswer, room: SmokeEnvironment, target: Target, workspace: Workspace
) -> SmokeAnswer:
    """Load a library as users do: some are made to find theirs among what imports have loaded."""
    framework = (target.framework.name,) if target.framework else ()
    imports = tuple(dict.fromkeys((*framework, *target.recipe.smoke.imports)))
    answer = room.probe.ask(imports=imports, libraries=[library])
    if not answer.failure:
        workspace.console.note(
            f"{library} loads only after `import {', '.join(imports)}`: alone it says "
            f"{alone.last_words}"
        )
    return answer


def _is_said(first: SmokeAnswer, alone: SmokeAnswer) -> bool:
    """Whether failed imports say, or may be the reason for, what a library alone then says too."""
    return alone.lacking == first.lacking or not is_cuda_library(alone.lacking)


def _unloadable(
    library: str, answer: SmokeAnswer, room: SmokeEnvironment, workspace: Workspace
) -> Iterator[_Problem]:
    if is_from_driver(answer.lacking):
        workspace.console.note(
            f"{library} needs {answer.lacking}, which NVIDIA's driver brings: it was not loaded, "
            "as this machine has none"
        )
    else:
        yield _problem(f"{library} can't be loaded: {answer.last_words}", answer, room)


def _failures(answer: SmokeAnswer, room: SmokeEnvironment, target: Target) -> Iterator[_Problem]:
    wanted = target.recipe.smoke
    if answer.failure:
        yield _problem(f"Python says:\n    {answer.traceback}", answer, room)
    elif wanted.expect and answer.value != wanted.expect:
        yield _Problem(
            fact=f"{wanted.call} gives {answer.value}, not {wanted.expect}",
            fix="correct the package, or `smoke` in the recipe",
        )


def _problem(fact: str, answer: SmokeAnswer, room: SmokeEnvironment) -> _Problem:
    """A failure; where a hidden file would have helped, it says which."""
    if answer.lacking and (file := supplier_among(room.hidden or (), answer.lacking)):
        fact += f" ({file} has it, but what users may not have is hidden here)"
    return _Problem(fact=fact, fix=_hint(answer.last_words))


def _hint(said: str) -> str:
    soname = said.partition(": ")[2].partition(":")[0]
    if is_from_driver(soname):
        return "run this stage on a machine with NVIDIA's driver, which brings that library"
    component = component_of(soname)
    if component and "cannot open shared object" in said:
        return f'declare "{component.name}" in the recipe\'s `link`'
    return next(
        (fix for sign, fix in _HINTS.items() if sign in said), "make the package importable"
    )


def _foreign(answer: SmokeAnswer) -> Iterator[_Problem]:
    """Only the driver's own libraries may come from the machine."""
    found = [load for load in answer.loads if load.is_foreign and not is_from_driver(load.soname)]
    if found:
        files = ", ".join(f"{load.soname} is {load.path}" for load in found)
        yield _Problem(
            fact=f"libraries came from outside site-packages: {files}",
            fix="declare their components in the recipe's `link`, so that the wheel requires them "
            "and finds them by its rpath; as it is, it only works where they lie about by chance",
        )


def _mixed(answer: SmokeAnswer) -> Iterator[_Problem]:
    """Two CUDA runtimes in a process know nothing of each other's memory and streams."""
    releases = cuda_releases(answer.loads)
    if len(releases) > 1:
        files = ", ".join(
            f"{load.soname} ({load.supplier or load.place}, asked for by {load.asker or 'nobody'})"
            for loads in releases.values()
            for load in loads
        )
        yield _Problem(
            fact=f"CUDA {' and '.join(releases)} are in one process: {files}",
            fix="build for the CUDA release of the framework, or lock a framework of the wheel's",
        )


def _refuse(problems: list[_Problem], target: Target, workspace: Workspace) -> None:
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


def _tell(passed: SmokeResult, wheel: RepairedWheel, target: Target, workspace: Workspace) -> None:
    """Say who supplied what, how sure that is, and what these imports never asked for."""
    note = workspace.console.note
    if passed.loaded:
        print_loaded_libraries(passed.loaded, workspace.console)
    if passed.hidden is None:
        note(
            "this system refuses a mount namespace, so the machine's CUDA could not be hidden: "
            "that nothing came from it was checked instead"
        )
    elif passed.hidden:
        more = len(passed.hidden) - _SHOWN
        named = ", ".join(passed.hidden[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        note(f"hidden from the wheel: {named}")
    if passed.has_driver_stub:
        note(
            "NVIDIA's driver isn't here: the toolkit's stub stood in for it while libraries were "
            "loaded"
        )
    missing = set(wheel.external) - {soname for soname, *_ in passed.loaded}
    if missing:
        modules = ", ".join(target.recipe.smoke.imports)
        note(f"importing {modules} didn't load {', '.join(sorted(missing))}")
