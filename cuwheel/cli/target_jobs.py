"""From a command line to the builds that it asks for: targets, folders, settings, the machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from cuwheel.build.machine import read_machine, with_python
from cuwheel.cli.target_choice import (
    choose_target,
    chosen_framework,
    named_targets,
    platform_of,
    release_of,
    stable_abi_python,
    target_root_of,
)
from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.errors import InterpreterNotFoundError, UsageError
from cuwheel.locks.framework_fit import fitting_toolkit, settle_framework
from cuwheel.model.catalogue import load_catalogue
from cuwheel.paths import default_cache, given_path, project_folder, project_roots
from cuwheel.system.pythons import find_python
from cuwheel.toolchains.python_choice import choose_python
from cuwheel.workspace.job import BuildSettings, Job
from cuwheel.workspace.workspace import Workspace, bare_workspace

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.target import Target
    from cuwheel.system.console import Console
    from cuwheel.system.pythons import Interpreter
    from cuwheel.workspace.job import Machine


def requested_targets(
    given: argparse.Namespace, console: Console
) -> Iterator[tuple[CatalogueEntry, str]]:
    """Recipe and toolkit's tag of what a build names.

    A recipe alone, with `--framework`, stands for the toolkit that the framework was built with.

    Args:
        given: the options of `build`.
        console: for what is asked of the index.

    Raises:
        CuwheelError: there is no such target, or none that goes with the framework.
    """
    recipes = {one.name: one for one in load_catalogue(project_roots()) if one.recipe}
    if not given.targets:
        named_targets("build", [])
    for name in given.targets:
        entry = recipes.get(name.replace("_", "-"))
        recipe = entry.recipe if entry else None
        framework = chosen_framework(recipe, given.framework) if recipe else None
        if entry is None or recipe is None or framework is None:
            yield from named_targets("build", [name])
            continue
        workspace, offline = bare_workspace(console), given.offline
        release = fitting_toolkit(recipe, entry.root, framework, workspace, offline=offline)
        console.note(f"{framework.pin} was built with CUDA {release}: building {name} for it")
        yield entry, toolkit_by_release(release).tag


def requested_jobs(
    entry: CatalogueEntry, tag: str, given: argparse.Namespace, console: Console
) -> Iterator[Job]:
    """One build for each Python that is asked for.

    Args:
        entry: the recipe.
        tag: the toolkit's, `130`.
        given: the options of a session that takes targets.
        console: shows how it goes.

    Raises:
        CuwheelError: an option is wrong or doesn't go with this recipe.
    """
    checked: dict[Path, Any] = {}
    for python in given.python or [""]:
        job = requested_job(entry, tag, python, given, console, checked=checked)
        console.durations.clear()
        console.heading(job.target.id)
        if not given.dry_run:
            settle_framework(job.target, bare_workspace(console), offline=given.offline)
        yield job


def requested_job(  # noqa: PLR0913 - what, for what, and how
    entry: CatalogueEntry,
    tag: str,
    python: str,
    given: argparse.Namespace,
    console: Console,
    *,
    machine: Machine | None = None,
    checked: dict[Path, Any] | None = None,
) -> Job:
    """The build for one Python.

    Args:
        entry: the recipe.
        tag: the toolkit's, `130`.
        python: a release, a version, a path, or nothing for the Python that runs nox.
        given: the options of a session that takes targets.
        console: shows how it goes.
        machine: what was read of this one for a build with the same options; None: read it.
        checked: as `Workspace` has it, of the builds of one command.

    Raises:
        CuwheelError: an option is wrong or doesn't go with this recipe.
    """
    asked = _python_to_find(entry, python, given, console)
    found = _find_python(console, asked, entry, tag, given)
    target = choose_target(entry, tag, release_of(asked, found), given)
    settings = _settings(given)
    return Job(
        target=target,
        settings=settings,
        workspace=_workspace(console, target, given, {} if checked is None else checked),
        machine=read_machine(settings, found, provider=target.provider, platform=target.platform)
        if machine is None
        else with_python(machine, found),
    )


def _python_to_find(
    entry: CatalogueEntry, python: str, given: argparse.Namespace, console: Console
) -> str:
    """What `--python` said; for a wheel of the stable ABI the one that `stable_abi_python` says."""
    asked, recipe = str(given_path(python)) if os.sep in python else python, entry.recipe
    if recipe is None or recipe.python != "abi3":
        return asked
    chosen = stable_abi_python(recipe, platform_of(given.platform), target_root_of(given))
    release = find_python(asked, os.environ).release if os.sep in asked else asked
    if release.endswith("t"):
        raise UsageError(
            f"the wheel of {recipe.name} doesn't work with --python {python}",
            why="a free-threaded Python has no stable ABI (PEP 703)",
            fix=f"choose one that has it, or leave out --python: the wheel is built with {chosen}",
        )
    if chosen != recipe.oldest_python:
        console.note(
            f"building with Python {chosen}, the oldest that the root folder has: the wheel uses "
            f"the stable ABI of {recipe.oldest_python}"
        )
    if release == chosen or release.startswith(f"{chosen}."):
        return asked
    if asked and chosen == recipe.oldest_python:
        console.note(
            f"building with Python {chosen}: the wheel uses the stable ABI and also works "
            f"with {release}"
        )
    return chosen


def _needs_own_headers(entry: CatalogueEntry, tag: str, given: argparse.Namespace) -> bool:
    """Whether the wheel is compiled against Python, with a C library that isn't the system's."""
    provider = given.toolchain or toolkit_by_release(tag).provider
    return provider == "conda" and entry.recipe is not None and entry.recipe.python != "any"


def _find_python(
    console: Console, asked: str, entry: CatalogueEntry, tag: str, given: argparse.Namespace
) -> Interpreter | InterpreterNotFoundError:
    """The Python of a build, or why there is none: the early check reports that with the rest."""
    try:
        return choose_python(
            asked,
            bare_workspace(console),
            needs_own_headers=_needs_own_headers(entry, tag, given),
            may_install=not given.dry_run,
            offline=given.offline,
        )
    except InterpreterNotFoundError as missing:
        return missing


def _workspace(
    console: Console, target: Target, given: argparse.Namespace, checked: dict[Path, Any]
) -> Workspace:
    # Compilers write the folder's real name: links and `..` would hide it from the path map.
    work = given_path(given.work).resolve() if given.work else project_folder() / "work"
    return Workspace(
        cache=default_cache(),
        work=work / target.id,
        dist=given_path(given.dist) if given.dist else project_folder() / "dist",
        console=console,
        checked=checked,
    )


def _settings(given: argparse.Namespace) -> BuildSettings:
    return BuildSettings(
        offline=given.offline,
        jobs=_jobs(given.jobs),
        reuse=not given.no_cache,
        any_driver=given.any_driver,
        sandbox=given.sandbox,
        build_tag=given.build_tag,
        replace=given.replace,
        target_root=target_root_of(given),
    )


def _jobs(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(
            f"--jobs {text} is not a number of compiles",
            why="it has to be a positive whole number, or auto",
            fix="leave it out: auto is one per core",
        )
    return int(text)
