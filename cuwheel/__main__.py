"""The commands behind the nox sessions, and the one place that prints an error."""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel import options, pipeline
from cuwheel.catalogue import check_recipe, find_recipe, load_catalogue, missing_roots, sessions_of
from cuwheel.console import Console
from cuwheel.errors import (
    CuwheelError,
    InterpreterNotFoundError,
    UsageError,
    of_system_error,
    suggest,
)
from cuwheel.fatbin import sort_archs
from cuwheel.files import disk_full
from cuwheel.locks import conda_jobs, lock_jobs
from cuwheel.mirrorfolder import README
from cuwheel.mirrors import VARIABLE
from cuwheel.paths import ROOT, default_cache, project_roots
from cuwheel.pypitoolchain import check_has_compiler
from cuwheel.pythonchoice import choose_python
from cuwheel.pythons import find_python, own_python
from cuwheel.recipe import Framework
from cuwheel.reference import write_documents
from cuwheel.stages.lock import check_locks, lock, verify_locks
from cuwheel.stages.mirror import mirror
from cuwheel.stages.toolchain import toolchain
from cuwheel.summary import show
from cuwheel.target import Target
from cuwheel.toolkits import toolkit_by_release
from cuwheel.wheelindex import write_index
from cuwheel.workspace import Workspace, as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cuwheel.catalogue import Entry
    from cuwheel.recipe import Recipe

_PR_SET_PDEATHSIG = 1  # prctl(2)
_INTERRUPTED = 130  # what shells use for a program ended by Ctrl-C
_TERMINATED = 143


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        0, or the exit code of the error that was printed.
    """
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    _end_with_nox()
    console = Console()
    command, *rest = arguments or ("help",)
    try:
        _check_projects()
        _COMMANDS.get(command, _unknown)(console, rest)
    except CuwheelError as error:
        console.terminal.print(str(error), markup=False, style=None)
        return error.exit_code
    except KeyboardInterrupt:
        console.warn("interrupted; nothing half-made is left, the next run goes on from here")
        return _INTERRUPTED
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            problem: CuwheelError = disk_full(Path(error.filename or default_cache()))
        elif error.filename:
            problem = of_system_error(error)
        else:  # no file's fault, so a fault of cuwheel
            raise
        console.terminal.print(str(problem), markup=False, style=None)
        return problem.exit_code
    return 0


def _check_projects() -> None:
    if lost := missing_roots(project_roots()):
        raise UsageError(
            "CUWHEEL_PROJECT is wrong",
            why="\n".join(lost),
            fix="correct it, or unset it: cuwheel's own recipes need none",
        )


def _end(number: int, _: object) -> NoReturn:
    """Leave through the `finally` blocks: they end processes and remove what is half made."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(_TERMINATED)


def _end_with_nox() -> None:
    """Ask the kernel for SIGTERM when nox dies, so that killing nox ends the build too."""
    parent = os.environ.pop("CUWHEEL_PARENT", None)  # for this process, not for its children
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it died before the call above
        sys.exit(_TERMINATED)


def _build(console: Console, arguments: Sequence[str]) -> None:
    name, tag, *rest = arguments
    given = options.parse_build(f"build-{name}-{tag}", tuple(pipeline.STAGES), rest)
    entry = find_recipe(name, load_catalogue(project_roots()))
    for asked in given.python or [""]:
        asked = _provide_python(console, asked, entry, tag, given)  # noqa: PLW2901
        target = _target(entry, tag, asked, given)
        space = _workspace(console, target, asked, given)
        console.durations.clear()
        console.terminal.rule(f"[bold]{target.id}[/]", align="left")
        _build_one(target, space, given)


def _needs_own_headers(entry: Entry, tag: str, given: argparse.Namespace) -> bool:
    """Whether the wheel is compiled against Python, with a C library that isn't the system's."""
    provider = given.toolchain or toolkit_by_release(tag).provider
    return provider == "conda" and entry.recipe is not None and entry.recipe.python == "each"


def _provide_python(
    console: Console, asked: str, entry: Entry, tag: str, given: argparse.Namespace
) -> str:
    """A path or a release that the rest of a build finds a Python by."""
    if os.sep in asked:
        return str(_given_path(asked))
    return choose_python(
        asked,
        _bare_workspace(console, offline=given.offline),
        needs_own_headers=_needs_own_headers(entry, tag, given),
        may_install=not given.explain_key,
    )


def _build_one(target: Target, space: Workspace, given: argparse.Namespace) -> None:
    if given.explain_key:
        now, before = pipeline.explain(target, space)
        space.console.note("a build now would do nothing" if not now else "a build now would run:")
        for reason in now:
            space.console.note(f"  {reason}")
        for reason in before:
            space.console.note(f"the last build ran because {reason}")
    elif given.stage:
        artefact = pipeline.make_stage(given.stage, target, space)
        print(as_json(artefact), end="")  # noqa: T201 - data, for scripts
    else:
        show(pipeline.make(target, space, keep_work=given.keep_work), space.console)


def _target(entry: Entry, tag: str, asked: str, given: argparse.Namespace) -> Target:
    recipe = entry.recipe
    if recipe is None:  # pragma: no cover - find_recipe has refused it
        raise UsageError(f"{entry.name} can't be loaded", why=entry.fault)
    check_recipe(recipe)
    wanted = _framework(given.framework)
    _check_framework(recipe, wanted)
    toolkit = toolkit_by_release(tag)
    if given.toolchain == "pypi":
        check_has_compiler(toolkit)
    return Target(
        recipe=recipe,
        toolkit=toolkit,
        python=_release_of(asked),
        framework=wanted or recipe.framework,
        archs=_archs(given.arch) or recipe.archs_for(toolkit.release),
        provider=given.toolchain or toolkit.provider,
        root=entry.root,
        source_override=_given_path(given.source) if given.source else None,
    )


def _archs(given: Sequence[str]) -> tuple[str, ...]:
    """In order; what isn't written as an arch is preflight's to report."""
    if all(re.fullmatch("[0-9]+[af]?", arch) for arch in given):
        return sort_archs(given)
    return tuple(given)


def _release_of(asked: str) -> str:
    """`3.12` for what `--python` said; a Python that isn't there is preflight's to report.

    Raises:
        InterpreterNotFoundError: a path was given and nothing runs there.
    """
    try:
        return find_python(asked, os.environ).release
    except InterpreterNotFoundError:
        if os.sep in asked:
            raise
        if not re.fullmatch(r"\d+\.\d+(\.\d+)?", asked):
            raise UsageError(
                f"--python {asked} is neither a release nor a path",
                why="a release is written 3.12 or 3.12.1, a path holds a /",
                fix="e.g. -- --python 3.12, or -- --python /usr/bin/python3",
            ) from None
        return ".".join(asked.split(".")[:2])


def _framework(text: str | None) -> Framework | None:
    if not text:
        return None
    try:
        wanted = Requirement(text)
        [pin] = wanted.specifier
    except (InvalidRequirement, ValueError):
        pin = None
    if pin is None or pin.operator != "==" or "*" in pin.version:
        raise UsageError(
            f"--framework {text} is no pin",
            why="the wheel is compiled against one release",
            fix="write it as name==version, e.g. --framework torch==2.11.0",
        )
    return Framework(name=canonicalize_name(wanted.name), version=pin.version)


def _check_framework(recipe: Recipe, wanted: Framework | None) -> None:
    own = recipe.framework
    if wanted is None or (own and own.name == wanted.name):
        return
    raise UsageError(
        f"{recipe.name} can't be built with --framework {wanted.name}=={wanted.version}",
        why=f"it is compiled against {own.name if own else 'no framework'}",
        fix=f"name a release of {own.name}, or leave it out" if own else "leave it out",
    )


def _workspace(
    console: Console, target: Target, asked: str, given: argparse.Namespace
) -> Workspace:
    # Compilers write the folder's real name: links and `..` would hide it from the path map.
    work = _given_path(given.work).resolve() if given.work else ROOT / "work"
    return Workspace(
        cache=default_cache(),
        work=work / target.id,
        dist=_given_path(given.dist) if given.dist else ROOT / "dist",
        console=console,
        offline=given.offline,
        jobs=_jobs(given.jobs),
        reuse=not given.no_cache,
        python=asked,
        any_driver=given.any_driver,
    )


def _jobs(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(
            f"--jobs {text} is no number of compiles",
            why="it has to be a whole number from 1 on, or auto",
            fix="leave it out: auto counts cores and memory",
        )
    return int(text)


def _given_path(text: str) -> Path:
    """A path from the command line, relative to where nox was started (nox changes the folder)."""
    start = Path(os.environ.get("CUWHEEL_INVOKED_FROM", Path.cwd()))
    return (start / Path(text).expanduser()).absolute()


def _lock(console: Console, arguments: Sequence[str]) -> None:
    given = options.parse_lock(arguments)
    entries = load_catalogue(project_roots())
    jobs = lock_jobs(given.names, entries, _framework(given.framework))
    lock(jobs, _bare_workspace(console), cooldown=given.cooldown, note=given.note)


def _lock_verify(console: Console, arguments: Sequence[str]) -> None:
    given = options.parse_lock_verify(arguments)
    jobs = conda_jobs(given.names, project_roots())
    verify_locks(jobs, _bare_workspace(console, offline=given.offline))


def _lock_check(console: Console, arguments: Sequence[str]) -> None:
    options.parse_nothing("lock-check", arguments)
    jobs = lock_jobs(["all"], load_catalogue(project_roots()))
    check_locks(jobs)
    console.note(f"{len(jobs)} locks match their inputs")


def _toolchain(console: Console, arguments: Sequence[str]) -> None:
    tag, *rest = arguments
    given = options.parse_toolchain(f"toolchain-{tag}", rest)
    space = _bare_workspace(console, offline=given.offline)
    with console.stage("toolchain"):
        toolkit = toolkit_by_release(tag)
        made = toolchain(toolkit, given.toolchain or toolkit.provider, space)
    print(made.home)  # noqa: T201 - data, for scripts


def _mirror(console: Console, arguments: Sequence[str]) -> None:
    given = options.parse_mirror(arguments)
    entries = load_catalogue(project_roots())
    pythons = given.python or [own_python().release]
    targets = [
        _mirrored_target(entries, name, asked, given) for name in given.names for asked in pythons
    ]
    source = _given_path(given.source) if given.source else None
    with console.stage("mirror"):
        made = mirror(targets, _given_path(given.to), _bare_workspace(console), source=source)
    console.note(f"{made.folder} holds {made.files} files, {made.size / (1 << 30):.2f} GiB,")
    console.note(f"everything for {', '.join(made.commands)}; its {README} tells more. To build:")
    console.note(f"  export {VARIABLE}={made.folder.as_uri()}")
    for name in given.names:
        console.note(f"  {made.commands[name]}")


def _mirrored_target(
    entries: tuple[Entry, ...], name: str, asked: str, given: argparse.Namespace
) -> Target:
    recipe_name, _, tag = name.rpartition("-")
    known = [session.name for session in sessions_of(entries)]
    builds = [session.removeprefix("build-") for session in known if session.startswith("build-")]
    if name not in builds:
        raise UsageError(
            f'nothing that can be built is called "{name}"',
            why=suggest(name, builds),
            fix="nox -l lists the sessions build-…",
        )
    plain = argparse.Namespace(**{**vars(given), "arch": [], "source": None})
    return _target(find_recipe(recipe_name, entries), tag, asked, plain)


def _index(console: Console, arguments: Sequence[str]) -> None:
    given = options.parse_index(arguments)
    dist = _given_path(given.dist) if given.dist else ROOT / "dist"
    if given.dist and not dist.is_dir():
        raise UsageError(
            f"there is no folder {dist}",
            why="--dist names it, as seen from the folder in which nox was started",
            fix="name the folder that holds the wheels",
        )
    console.note(f"wrote {write_index(dist)}")


def _docs(console: Console, arguments: Sequence[str]) -> None:
    options.parse_nothing("docs", arguments)
    for path in write_documents(ROOT):
        console.note(f"wrote {path.relative_to(ROOT)}")


def _bare_workspace(console: Console, *, offline: bool = False) -> Workspace:
    return Workspace(
        cache=default_cache(),
        work=ROOT / "work" / "session",
        dist=ROOT / "dist",
        console=console,
        offline=offline,
    )


def _unknown(_: Console, __: Sequence[str]) -> None:
    raise UsageError(
        "this command is not one of cuwheel's",
        why=f"known are: {', '.join(sorted(_COMMANDS))}",
        fix="start it through nox: `nox -l` lists the sessions",
    )


_COMMANDS: dict[str, Callable[[Console, Sequence[str]], None]] = {
    "build": _build,
    "docs": _docs,
    "index": _index,
    "lock": _lock,
    "lock-check": _lock_check,
    "lock-verify": _lock_verify,
    "mirror": _mirror,
    "toolchain": _toolchain,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
