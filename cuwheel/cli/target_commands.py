"""The commands behind the sessions of one target: `build-…`, `verify-…`, `profile-…`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cuwheel import pipeline
from cuwheel.build.launcher.events import EVENTS_LOG, read_events
from cuwheel.build.machine import read_machine
from cuwheel.build.profile.report import print_profile, write_profile
from cuwheel.build.summary import print_summary
from cuwheel.cli.options import build as build_options
from cuwheel.cli.options import verify as verify_options
from cuwheel.cli.target_choice import choose_target, release_of
from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.errors import (
    CuwheelError,
    InterpreterNotFoundError,
    NotReproducibleError,
    UsageError,
)
from cuwheel.model.catalogue import find_recipe, load_catalogue
from cuwheel.model.nox_sessions import builds_of, check_builds
from cuwheel.paths import ROOT, default_cache, given_path, project_roots
from cuwheel.system.console import report_terminal
from cuwheel.system.files import file_lock, remove_tree
from cuwheel.toolchains.python_choice import choose_python
from cuwheel.verify.published import check_meant, read_published
from cuwheel.verify.rebuilds import Variation
from cuwheel.verify.record import VerifiedTarget, record
from cuwheel.verify.session import raise_if_unequal, verify, verify_against
from cuwheel.workspace.job import Job, Settings
from cuwheel.workspace.serialization import to_json
from cuwheel.workspace.workspace import Workspace, bare_workspace

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.target import Target
    from cuwheel.system.console import Console
    from cuwheel.system.pythons import Interpreter


def build_target(console: Console, arguments: Sequence[str]) -> None:
    """Build one wheel for each Python asked for."""
    if len(arguments) < len(("recipe", "toolkit")):
        raise UsageError(
            "a build needs a recipe and a toolkit",
            why="the engine was started by hand without them",
            fix="nox -s build-causal-conv1d-130, or python -m cuwheel build causal-conv1d 130",
        )
    name, tag, *rest = arguments
    given = build_options.parse_build(f"build-{name}-{tag}", tuple(pipeline.STAGES), rest)
    for job in _asked(console, name, tag, given):
        _build_one(job, given)


def profile(console: Console, arguments: Sequence[str]) -> None:
    """Show where the time of the last build went; build first where there was none."""
    name, tag, *rest = arguments
    given = verify_options.parse_profile(f"profile-{name}-{tag}", rest)
    for job in _asked(console, name, tag, given):
        target, workspace = job.target, job.workspace
        log = workspace.log_folder / EVENTS_LOG
        if not log.is_file():
            print_summary(pipeline.make(job, keep_work=False), console)
        if not log.is_file():
            raise UsageError(
                f"no build of {target.id} has left a record of its compiles",
                why=f"its wheel is up to date, and {log} isn't there",
                fix=f"nox -s build-{name}-{tag} -- --no-cache, then this again",
            )
        made = write_profile(read_events(log), workspace.work / pipeline.PROFILE, target.id)
        print_profile(made, report_terminal())


def verify_one(console: Console, arguments: Sequence[str]) -> None:
    """Build a target several times and compare; or once, and compare with what is published."""
    name, tag, *rest = arguments
    given = verify_options.parse_verify(f"verify-{name}-{tag}", rest)
    if given.against:
        _verify_against(console, name, tag, given)
        return
    for job in _asked(console, name, tag, given):
        found = _verify(console, job, given)
        if given.record:
            record(found, ROOT)
        raise_if_unequal(found.verified, job.target.id)


def verify_many(console: Console, arguments: Sequence[str]) -> None:
    """Verify every target that can be built here, and write the table."""
    given = verify_options.parse_verify_all(arguments)
    entries = load_catalogue(project_roots())
    unequal: list[str] = []
    failed: dict[str, CuwheelError] = {}
    verified = 0
    names = builds_of(entries) if given.names == ["all"] else given.names
    check_builds(names, entries)
    for name in names:
        recipe, _, tag = name.rpartition("-")
        try:
            for job in _asked(console, recipe, tag, given):
                found = _verify(console, job, given)
                record(found, ROOT)
                verified += 1
                unequal += [job.target.id] if found.verified.unequal else []
        except CuwheelError as error:
            console.warn(f"{name} is not verified: {error.what}; {_reason(error)}")
            failed[name] = error
    if unequal:
        raise NotReproducibleError(
            f"{len(unequal)} targets are not the same bytes",
            why=", ".join(unequal),
            fix="the report of each stands above",
        )
    # With `all`, some can't be built on this machine; what was named, or everything, has to be.
    if failed and (given.names != ["all"] or not verified):
        raise next(iter(failed.values()))


def _reason(error: CuwheelError) -> str:
    """The build's own error where one is told, and the log that has all of it."""
    tail = [line.strip() for line in getattr(error, "tail", ())]
    said = [line for line in tail if line.startswith(("error:", "because"))]
    log = getattr(error, "log", None)
    return "; ".join([*said, *([f"all of it is in {log}"] if log else [])]) or error.why


def _verify(console: Console, job: Job, given: argparse.Namespace) -> VerifiedTarget:
    target, workspace = job.target, job.workspace
    folder = workspace.work.parent / "verify" / target.id
    command = [target.recipe.name, target.toolkit.tag, *_words(given, job)]
    with _alone_in(folder, console):
        verified = verify(command, folder, workspace.cache, console, report_terminal())
    return VerifiedTarget.of(target, verified)


def _verify_against(console: Console, name: str, tag: str, given: argparse.Namespace) -> None:
    theirs = read_published(given_path(given.against))
    check_meant(theirs, name, tag)
    asked = verify_options.parse_verify(f"verify-{name}-{tag}", theirs.options)
    for option in ("python", "arch", "framework", "link", "toolchain"):
        if not getattr(given, option):
            setattr(given, option, getattr(asked, option))
    given.python = given.python[:1]
    [job] = _asked(console, name, tag, given)
    folder = job.workspace.work.parent / "verify" / job.target.id / "against"
    how = Variation(
        name="again",
        says="as it was built, and everything compiled",
        work=folder / "work",
        dist=folder / "dist",
        options=("--no-cache",),  # the cache may hold the very objects of what was published
    )
    command = [name, tag, *_words(given, job)]
    with _alone_in(folder.parent, console):
        remove_tree(folder)  # an earlier one would count as this wheel's build
        verify_against(command, theirs, how, console, report_terminal())


def _alone_in(folder: Path, console: Console) -> AbstractContextManager[None]:
    def tell() -> None:
        console.note("another verification of this target is at work; waiting for it")

    folder.parent.mkdir(parents=True, exist_ok=True)
    return file_lock(folder.with_name(f"{folder.name}.lock"), on_wait=tell)


def _words(given: argparse.Namespace, job: Job) -> list[str]:
    """What a build's command line has to say to mean the same target."""
    words = ["--python", str(job.python.path)]
    words += [word for arch in given.arch for word in ("--arch", arch)]
    for name in ("framework", "link", "toolchain"):
        words += [f"--{name}", getattr(given, name)] if getattr(given, name) else []
    words += ["--source", str(given_path(given.source))] if given.source else []
    return words + ["--offline"] * given.offline + ["--any-driver"] * given.any_driver


def _asked(console: Console, name: str, tag: str, given: argparse.Namespace) -> Iterator[Job]:
    """Each target that a command line asks for, with folders, settings and the machine."""
    entry = find_recipe(name, load_catalogue(project_roots()))
    for python in given.python or [""]:
        asked = str(given_path(python)) if os.sep in python else python
        found = _find_python(console, asked, entry, tag, given)
        target = choose_target(entry, tag, release_of(asked, found), given)
        console.durations.clear()
        console.terminal.rule(f"[bold]{target.id}[/]", align="left")
        settings = _settings(given)
        yield Job(
            target=target,
            settings=settings,
            workspace=_workspace(console, target, given),
            machine=read_machine(settings, found),
        )


def _needs_own_headers(entry: CatalogueEntry, tag: str, given: argparse.Namespace) -> bool:
    """Whether the wheel is compiled against Python, with a C library that isn't the system's."""
    provider = given.toolchain or toolkit_by_release(tag).provider
    return provider == "conda" and entry.recipe is not None and entry.recipe.python == "each"


def _find_python(
    console: Console, asked: str, entry: CatalogueEntry, tag: str, given: argparse.Namespace
) -> Interpreter | InterpreterNotFoundError:
    """The Python of a build, or why there is none: the early check reports that with the rest."""
    try:
        return choose_python(
            asked,
            bare_workspace(console),
            needs_own_headers=_needs_own_headers(entry, tag, given),
            may_install=not given.explain_key,
            offline=given.offline,
        )
    except InterpreterNotFoundError as missing:
        return missing


def _build_one(job: Job, given: argparse.Namespace) -> None:
    console = job.workspace.console
    if given.explain_key:
        now, before = pipeline.rebuild_reasons(job)
        console.note("a build now would do nothing" if not now else "a build now would run:")
        for reason in now:
            console.note(f"  {reason}")
        for reason in before:
            console.note(f"the last build ran because {reason}")
    elif given.stage:
        print(to_json(pipeline.make_stage(given.stage, job)), end="")  # noqa: T201 - data
    else:
        print_summary(pipeline.make(job, keep_work=given.keep_work), console)


def _workspace(console: Console, target: Target, given: argparse.Namespace) -> Workspace:
    # Compilers write the folder's real name: links and `..` would hide it from the path map.
    work = given_path(given.work).resolve() if given.work else ROOT / "work"
    return Workspace(
        cache=default_cache(),
        work=work / target.id,
        dist=given_path(given.dist) if given.dist else ROOT / "dist",
        console=console,
    )


def _settings(given: argparse.Namespace) -> Settings:
    return Settings(
        offline=given.offline,
        jobs=_jobs(given.jobs),
        reuse=not given.no_cache,
        any_driver=given.any_driver,
        sandbox=given.sandbox,
    )


def _jobs(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(
            f"--jobs {text} is no number of compiles",
            why="it has to be a whole number from 1 on, or auto",
            fix="leave it out: auto is one for each core",
        )
    return int(text)
