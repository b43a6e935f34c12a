"""Smoke: install the wheel with only what it declares, import it, see what got loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import parse_wheel_filename

from cuwheel.artefacts import Environment, RepairedWheel, Smoke
from cuwheel.elf import ElfFormatError, read_elf
from cuwheel.errors import SmokeError
from cuwheel.files import naming_full_disk, remove_tree, write_atomically
from cuwheel.installer import install, make_environment
from cuwheel.linkage import component_of, is_cuda_library, is_from_driver
from cuwheel.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.target import Target
    from cuwheel.workspace import Workspace

_PROBE = Path(__file__).parent.parent / "probes" / "smoke_probe.py"
_PATIENCE = 600.0  # seconds for the imports; a framework takes several on a slow disk
_TRACEBACK = 6  # last lines of a traceback that the error shows


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """One thing that is wrong: the fact, and what to do about it."""

    fact: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """A library of CUDA or a framework that got loaded; a foreign one is outside site-packages."""

    soname: str
    path: Path
    is_foreign: bool


# What the loader or Python says → what to do; the first that is found counts.
_HINTS = {
    "undefined symbol": "build against the framework and toolkit that the wheel will run with",
    "GLIBC": "smoke on a system that is as new as the wheel's platform tag says",
    "No module named": "correct `imports` in the recipe's smoke, or add what is missing to the "
    "package's requirements",
    "cannot open shared object": "declare the library's component in the recipe's `link`, so that "
    "the wheel requires it and has an rpath to it",
}


def smoke(target: Target, space: Workspace) -> Smoke:
    """See that the wheel works where nothing is installed but what it declares.

    No variable of the caller is there, so a library that is found is found through the wheel's
    own rpath or through another wheel. No GPU is needed.

    Raises:
        SmokeError: an import or the recipe's call failed, or a CUDA library came from outside
            site-packages; all of it together.
        InstallError: what the wheel declares can't be installed, or isn't in the recipe's lock.
        DiskFullError: no space is left.
    """
    wheel = space.load("repair", RepairedWheel)
    folder = space.work / "smoke"
    remove_tree(folder)
    space.log("smoke").unlink(missing_ok=True)
    with naming_full_disk(folder):
        python = _make_environment(folder, wheel, target, space)
        answer = _ask(python, folder, target, space)
    loaded = tuple(_loaded_libraries(answer))
    _refuse([*_failures(answer, target), *_foreign(loaded)], target, space)
    _tell_of_unloaded(wheel, loaded, target, space)
    remove_tree(folder)
    return Smoke(
        sha256=wheel.sha256,
        imported=tuple(answer["imported"]),
        libraries=tuple(
            (library.soname, str(library.path.relative_to(answer["site"])))
            for library in loaded
            if not library.is_foreign
        ),
    )


def _make_environment(folder: Path, wheel: RepairedWheel, target: Target, space: Workspace) -> Path:
    """An environment with the wheel and what it declares, pinned and hashed by the smoke lock.

    The lock's other packages, the build's tools, stay out.
    """
    log, environment = space.log("smoke"), folder / "environment"
    base = space.load("environment", Environment).base_python
    make_environment(environment, base, cache=space.cache, log=log)
    python = environment / "bin" / "python"
    project = parse_wheel_filename(wheel.path.name)[0]
    requirement = folder / f"{project}.txt"
    uri = wheel.path.absolute().as_uri()
    write_atomically(requirement, f"{project} @ {uri} --hash=sha256:{wheel.sha256}\n")
    kind = target.smoke_lock.parent.name
    install(
        python,
        target.smoke_lock,
        cache=space.cache,
        offline=space.offline,
        log=log,
        console=space.console,
        only=requirement,
        unlocked_fix=f"the wheel requires it and the recipe's lock doesn't hold it: add it to "
        f"envs/{kind}/{target.recipe.folder}.in, then `nox -s lock -- {kind}:{target.recipe.name}`",
    )
    return python


def _ask(python: Path, folder: Path, target: Target, space: Workspace) -> dict[str, Any]:
    """Run the probe in the environment, with nothing of the caller's variables.

    Raises:
        SmokeError: the interpreter died, or took too long.
    """
    wanted, written, log = target.recipe.smoke, folder / "answer.json", space.log("smoke")
    libraries = [text.format_map(_values(target)) for text in wanted.libraries]
    question = json.dumps({"imports": wanted.imports, "call": wanted.call, "libraries": libraries})
    finished = run(
        [python, "-I", _PROBE, question, written],
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder)},
        cwd=folder,
        log=log,
        timeout=_PATIENCE,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(written.read_text())
    except (OSError, ValueError):
        last = " / ".join(finished.output.strip().splitlines()[-_TRACEBACK:])
        raise SmokeError(
            f"{target.id}: the interpreter died while it imported the wheel",
            why=f"status {finished.status} after {finished.duration:.0f} s: {last or 'no word'}",
            fix="a crash at import most often means a library built for another release of the "
            f"framework; everything that was said is in {log}",
        ) from None
    return answer


def _values(target: Target) -> dict[str, str]:
    """What `recipe.SMOKE_PLACEHOLDERS` stand for."""
    return {
        "toolkit": target.toolkit.release,
        "toolkit_tag": target.toolkit.tag,
        "version": target.recipe.version,
    }


def _loaded_libraries(answer: dict[str, Any]) -> Iterator[_Loaded]:
    for path in map(Path, answer["libraries"]):
        is_foreign = not path.is_relative_to(answer["site"])
        # A link's name isn't seen, only its target's; outside, any file may be CUDA's.
        if is_foreign or _is_watched(path.name):
            soname = _soname(path)
            if _is_watched(path.name) or _is_watched(soname):
                yield _Loaded(soname=soname, path=path, is_foreign=is_foreign)


def _is_watched(name: str) -> bool:
    return is_cuda_library(name) or component_of(name) is not None


def _soname(path: Path) -> str:
    """What the library calls itself; its file name where it doesn't, or can't be read."""
    try:
        with path.open("rb") as stream:
            return read_elf(stream).soname or path.name
    except (OSError, ElfFormatError):
        return path.name


def _failures(answer: dict[str, Any], target: Target) -> Iterator[_Problem]:
    wanted = target.recipe.smoke
    if failure := answer["failure"]:
        lines = failure.strip().splitlines()
        tail = "\n    ".join(lines[-_TRACEBACK:])
        yield _Problem(fact=f"Python says:\n    {tail}", fix=_hint(lines[-1]))
    elif wanted.expect and answer["value"] != wanted.expect:
        yield _Problem(
            fact=f"{wanted.call} gives {answer['value']}, not {wanted.expect}",
            fix="correct the package, or `smoke` in the recipe",
        )


def _hint(said: str) -> str:
    soname = said.partition(": ")[2].partition(":")[0]
    if is_from_driver(soname):
        return "run this stage on a machine with NVIDIA's driver, which brings that library"
    return next(
        (fix for sign, fix in _HINTS.items() if sign in said), "make the package importable"
    )


def _foreign(loaded: tuple[_Loaded, ...]) -> Iterator[_Problem]:
    """Only the driver's own libraries may come from the machine."""
    found = [lib for lib in loaded if lib.is_foreign and not is_from_driver(lib.soname)]
    if found:
        files = ", ".join(f"{library.soname} is {library.path}" for library in found)
        yield _Problem(
            fact=f"libraries came from outside site-packages: {files}",
            fix="declare their components in the recipe's `link`, so that the wheel requires them "
            "and finds them by its rpath; as it is, it only works where they lie about by chance",
        )


def _refuse(problems: list[_Problem], target: Target, space: Workspace) -> None:
    """Raise one error for all problems.

    Raises:
        SmokeError: there are any.
    """
    if problems:
        raise SmokeError(
            f"{target.id}: the wheel doesn't work in a clean environment",
            why="; ".join(problem.fact for problem in problems),
            fix="; ".join(problem.fix for problem in problems)
            + f"; the environment is kept in {space.work / 'smoke'}",
        )


def _tell_of_unloaded(
    wheel: RepairedWheel, loaded: tuple[_Loaded, ...], target: Target, space: Workspace
) -> None:
    """Say which libraries the wheel needs that these imports never asked for: they are untested."""
    missing = set(wheel.external) - {library.soname for library in loaded}
    if missing:
        modules = ", ".join(target.recipe.smoke.imports)
        space.console.note(f"importing {modules} didn't load {', '.join(sorted(missing))}")
