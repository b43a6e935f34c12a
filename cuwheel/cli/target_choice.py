"""Builds of a command line: its request, their targets, folders, settings, and the machine."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.base.caller import Caller
from cuwheel.base.errors import InterpreterNotFoundError, UsageError
from cuwheel.base.formats.binaries.archs import sorted_archs
from cuwheel.base.system.console import Console
from cuwheel.base.system.pythons import Interpreter, find_python
from cuwheel.base.system.versions import plain_release, version_key
from cuwheel.build.locks.framework_fit import fitting_toolkit, settle_framework
from cuwheel.build.pipeline.machine import read_machine, with_python
from cuwheel.build.recipe.catalogue import CatalogueEntry, find_target, load_catalogue, target_names
from cuwheel.build.recipe.link import MODES, mode_name
from cuwheel.build.recipe.platform import PLATFORMS, Platform, own_platform
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.recipe_check import check_recipe
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.cross.target_root import TARGET_ROOT, oldest_served
from cuwheel.build.toolchains.host_compiler import is_obtainable
from cuwheel.build.toolchains.python_choice import choose_python
from cuwheel.build.workspace.job import Job, Machine
from cuwheel.build.workspace.request import OPTIONS, BuildRequest, flag_of, group_of
from cuwheel.build.workspace.request_check import is_impossible
from cuwheel.build.workspace.workspace import Workspace, bare_workspace
from cuwheel.check.cuda.toolkits import Toolkit, toolkit_by_release
from cuwheel.cli.parser import Option, new_parser, refuse_none
from cuwheel.cli.release_choice import at_release

_PATHS = frozenset({"target_root", "source", "work", "dist"})


TARGETS = {"targets TARGET*": "recipe and toolkit, such as causal-conv1d-130"}


def build_options(*names: str) -> dict[str, Option]:
    """Return options of a build by their names in a `BuildRequest`."""
    options = {}
    for name in names:
        value, text, read = (OPTIONS[name].metadata[key] for key in ("value", "help", "read"))
        default = OPTIONS[name].default
        option = Option(text, read=read, default=default or None, group=group_of(name))
        options[f"{flag_of(name)} {value}".strip()] = option
    return options


def request_of(args: argparse.Namespace, caller: Caller, **changes: Any) -> BuildRequest:
    """Return the request of a command line: its options of a build, and these changes."""
    values = {
        name: value
        for name, value in vars(args).items()
        if name in {"targets", *OPTIONS} and name not in changes
    }
    values.setdefault("target_root", None)
    values["target_root"] = values["target_root"] or caller.environ.get(TARGET_ROOT)
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(
                str(caller.path(item)) if os.sep in item else item for item in value
            )
        elif value and name in _PATHS:
            values[name] = caller.path(value)
    # Compilers write the folder's real name: links and `..` would hide it from the path map.
    if values.get("work"):
        values["work"] = values["work"].resolve()
    return BuildRequest(**values, **changes)


def read_request(argv: Sequence[str], caller: Caller) -> BuildRequest:
    """Return the request that `BuildRequest.argv` wrote."""
    parser = new_parser("build", "", {**TARGETS, **build_options(*OPTIONS)})
    return request_of(parser.parse(argv), caller)


def folder_of(option: str | None, caller: Caller, name: str) -> Path:
    """Return the folder that an option names, or else one of the project: `dist`, `work`."""
    return caller.path(option) if option else caller.project / name


def output_folders(request: BuildRequest, caller: Caller) -> tuple[Path, Path]:
    """Return the folder of all targets' work folders, and the one for finished wheels."""
    return request.work or caller.project / "work", request.dist or caller.project / "dist"


def named_targets(
    session: str, names: Sequence[str], caller: Caller
) -> tuple[tuple[CatalogueEntry, str], ...]:
    """Return recipe and toolkit's tag of each target that is named after `--`."""
    entries = load_catalogue(caller.roots)
    refuse_none(session, "target", names, target_names(entries))
    return tuple(find_target(name, entries) for name in names)


def requested_targets(
    request: BuildRequest, console: Console, caller: Caller
) -> Iterator[tuple[CatalogueEntry, str, BuildRequest]]:
    """Yield recipe, toolkit's tag and request of the targets of a build.

    A recipe alone, with `--framework`, means the toolkit that the framework was built with; with a
    release alone, `flash-attn==2.7.4.post1`, the newest with which a wheel was built.

    Raises:
        CuwheelError: there is no such target, or none that goes with the framework.
    """
    recipes = {item.name: item for item in load_catalogue(caller.roots) if item.recipe}
    if not request.targets:
        named_targets("build", [], caller)
    for text in request.targets:
        name, _, version = text.partition("==")
        entry = recipes.get(name.replace("_", "-"))
        recipe = entry.recipe if entry else None
        framework = chosen_framework(recipe, request.framework) if recipe else None
        if entry and recipe and framework:
            workspace, offline = bare_workspace(console, caller), request.offline
            release = fitting_toolkit(recipe, entry.root, framework, workspace, offline=offline)
            console.note(f"{framework.pin} was built with CUDA {release}: building {name} for it")
            tag = toolkit_by_release(release).tag
        elif entry and recipe and version:
            release = max(
                recipe.toolkits,
                key=lambda each: (each not in recipe.never_built, version_key(each)),
            )
            console.note(f"building {text} for CUDA {release}")
            tag = toolkit_by_release(release).tag
        else:
            [(entry, tag)] = named_targets("build", [name], caller)
        own, with_source = at_release(entry, version, request, console, caller)
        yield own, tag, with_source


def requested_jobs(
    entry: CatalogueEntry, tag: str, request: BuildRequest, console: Console, caller: Caller
) -> Iterator[Job]:
    """Yield one build for each requested Python.

    Args:
        tag: the toolkit's, `130`.

    Raises:
        CuwheelError: an option is wrong or doesn't go with this recipe.
    """
    checked: dict[Path, Any] = {}
    for python in request.python or ("",):
        alone = replace(request, python=(python,) if python else ())
        job = requested_job(entry, tag, alone, console, caller, checked=checked)
        console.durations.clear()
        console.heading(job.target.id)
        if is_impossible(job):  # before anything is locked or written
            from cuwheel.build.pipeline.checks import check  # noqa: PLC0415 - it imports much

            check(job, "early")
        if not request.dry_run:
            settle_framework(job.target, bare_workspace(console, caller), offline=request.offline)
        yield job


def requested_job(  # noqa: PLR0913 - what, for what, and how
    entry: CatalogueEntry,
    tag: str,
    request: BuildRequest,
    console: Console,
    caller: Caller,
    *,
    machines: dict[tuple[str, ...], Machine] | None = None,
    checked: dict[Path, Any] | None = None,
) -> Job:
    """Return the build for one Python: the first of the request.

    Args:
        tag: the toolkit's, `130`.
        machines: this one as builds with the same options read it, by what decides that; completed.
        checked: as in `Workspace`, of the builds of one command.

    Raises:
        CuwheelError: an option is wrong or doesn't go with this recipe.
    """
    python = _python_to_find(entry, request, console, caller.environ)
    bare = bare_workspace(console, caller)
    interpreter = _find_python(python, entry, tag, request, bare)
    target = choose_target(entry, tag, release_of(python, interpreter), request, bare)
    work, dist = output_folders(request, caller)
    shard = request.shard  # several may run here at once, and so that one can
    workspace = Workspace(
        cache=caller.cache,
        work=work / (f"{target.id}.shard-{shard.number}-of-{shard.count}" if shard else target.id),
        dist=dist,
        console=console,
        caller=caller,
        checked={} if checked is None else checked,
    )
    # Another machine's root folder is read for each Python.
    of_root = (target.platform.name, target.python) if target.platform.is_foreign else ()
    read = (str(target.has_own_compiler), *of_root)
    machines = {} if machines is None else machines
    if read in machines:
        machine = with_python(machines[read], interpreter)
    else:
        machine = machines[read] = read_machine(
            request,
            interpreter,
            caller.environ,
            has_own_compiler=target.has_own_compiler,
            platform=target.platform,
        )
    return Job(target=target, settings=request, workspace=workspace, machine=machine)


def choose_target(
    entry: CatalogueEntry, tag: str, python: str, request: BuildRequest, workspace: Workspace
) -> Target:
    """Return the target of a `build-…` or `mirror` command line.

    Its usual host compiler is replaced by the machine's where its packages are out of reach.

    Args:
        tag: the toolkit's, `130`.
        python: the release, `3.12`; a wheel of the stable ABI is built with another one, see
            `stable_abi_python`.

    Raises:
        UsageError: an option is wrong, or doesn't go with this recipe.
        RecipeError: the recipe isn't well formed.
        CuwheelError: there is no such toolkit, or the toolchain holds no compiler.
    """
    recipe = entry.recipe
    if recipe is None:  # pragma: no cover - find_recipe has refused it
        raise UsageError(f"{entry.name} could not be loaded", why=entry.fault)
    framework, platform = chosen_framework(recipe, request.framework), platform_of(request.platform)
    toolkit = toolkit_by_release(tag)
    if request.toolchain == "pypi":
        # It loads `requests`, which no command's help needs.
        from cuwheel.build.toolchains.from_pypi import check_has_compiler  # noqa: PLC0415

        check_has_compiler(toolkit)
    default = recipe.framework_for(toolkit.release)
    # The recipe's own settings of a mode if it has that one, else the mode's defaults.
    mode = recipe.link.mode
    if request.link and request.link != mode_name(mode):
        mode = MODES[request.link]()
    target = Target(
        recipe=recipe,
        toolkit=toolkit,
        python=python
        if recipe.python != "abi3"
        else stable_abi_python(recipe, platform, request.target_root),
        framework=default if framework in {None, default} else framework,
        # A matrix passes --arch to all recipes; one without device code fits each GPU.
        archs=(sorted_archs(request.arch) if recipe.archs else ()) or _archs(recipe, toolkit),
        provider=request.toolchain or toolkit.provider,
        root=entry.root,
        mode=mode,
        source_override=request.source,
        platform=platform,
    )
    compiler = request.compiler_for(target)
    is_usual = request.host_compiler is None and compiler != "system"
    if is_usual and not is_obtainable(compiler, workspace, offline=request.offline):
        compiler = "system"
    return replace(target, host_compiler=compiler)


def stable_abi_python(recipe: Recipe, platform: Platform, root: Path | None) -> str:
    """Return the Python that a wheel of the stable ABI is built with.

    The oldest that it serves: other headers would give other machine code under the same file name.
    For another kind of machine the oldest in its root folder: those of distributions have one.
    """
    if not platform.is_foreign:
        return recipe.oldest_python
    return oldest_served(root, platform, recipe.oldest_python)


def platform_of(name: str | None) -> Platform:
    """Return the platform of `--platform`; without it this machine's."""
    return PLATFORMS[name] if name else own_platform()


def chosen_framework(recipe: Recipe, text: str | None) -> Framework | None:
    """Return the framework of `--framework` for a recipe; None without it.

    Raises:
        UsageError: it names no single release, or another framework than the recipe's.
        RecipeError: the recipe isn't well formed.
    """
    check_recipe(recipe)
    framework, declared = framework_of(text), next(iter(recipe.frameworks), None)
    if framework is None or (declared and declared.name == framework.name):
        return framework
    raise UsageError(
        f"{recipe.name} can't be built with --framework {framework.pin}",
        why=f"it is compiled against {declared.name if declared else 'no framework'}",
        fix=f"choose a release of {declared.name}, or leave out --framework"
        if declared
        else "leave it out",
    )


def framework_of(text: str | None) -> Framework | None:
    """Return the release that `--framework` pins; None without it."""
    if not text:
        return None
    try:
        requirement = Requirement(text)
        [pin] = requirement.specifier
    except (InvalidRequirement, ValueError):
        pin = None
    if pin is None or pin.operator != "==" or "*" in pin.version:
        raise UsageError(
            f"--framework {text} is not a pinned version",
            why="the wheel is compiled against one release",
            fix="write it as name==version, e.g. --framework torch==2.11.0",
        )
    return Framework(name=canonicalize_name(requirement.name), version=pin.version)


def release_of(text: str, python: Interpreter | InterpreterNotFoundError) -> str:
    """Return `3.12` for a `--python`; the early check reports a missing one.

    Args:
        text: a release, a version, a path, or nothing for the Python that runs nox.

    Raises:
        InterpreterNotFoundError: a path was given and nothing runs there.
        UsageError: it is neither a release nor a path.
    """
    if not isinstance(python, InterpreterNotFoundError):
        return python.release
    if os.sep in text:
        raise python
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?t?", text):
        raise UsageError(
            f"--python {text} is neither a version nor a path",
            why="write a version as 3.12, 3.12.1 or 3.14t; a path contains a /",
            fix="e.g. -- --python 3.12, or -- --python /usr/bin/python3",
        )
    plain = plain_release(text)
    return ".".join(plain.split(".")[:2]) + text[len(plain) :]


def _archs(recipe: Recipe, toolkit: Toolkit) -> tuple[str, ...]:
    try:
        return recipe.archs_for(toolkit.release)
    except KeyError:
        raise UsageError(
            f"{recipe.name} has no archs for CUDA {toolkit.release}",
            why=f"its `archs` are for {', '.join(recipe.archs)}",
            fix=f"pass them with -- --arch, or add {toolkit.release} to `archs` in {recipe.module}",
        ) from None


def _python_to_find(
    entry: CatalogueEntry, request: BuildRequest, console: Console, environ: Mapping[str, str]
) -> str:
    """Return `--python`, or for a wheel of the stable ABI the one it is built with.

    The smoke test of such a wheel runs with any that it serves.
    """
    python, recipe = next(iter(request.python), ""), entry.recipe
    if recipe is None or recipe.python != "abi3":
        return python
    chosen = stable_abi_python(recipe, platform_of(request.platform), request.target_root)
    release = find_python(python, environ).release if os.sep in python else python
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
        return python
    if python and request.stage == "smoke":
        console.note(f"trying the wheel of the stable ABI of {chosen} with Python {release}")
        return python
    if python and chosen == recipe.oldest_python:
        console.note(
            f"building with Python {chosen}: the wheel uses the stable ABI and also works "
            f"with {release}"
        )
    return chosen


def _find_python(
    python: str, entry: CatalogueEntry, tag: str, request: BuildRequest, workspace: Workspace
) -> Interpreter | InterpreterNotFoundError:
    """Return the Python of a build, or an error that the early check reports with the rest."""
    provider = request.toolchain or toolkit_by_release(tag).provider
    is_compiled = entry.recipe is not None and entry.recipe.python != "any"
    try:
        return choose_python(
            python,
            workspace,
            needs_own_headers=provider == "conda" and is_compiled,  # not the system's C library
            may_install=not request.dry_run,
            offline=request.offline,
        )
    except InterpreterNotFoundError as missing:
        return missing
