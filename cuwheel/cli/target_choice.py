"""The target that a command line asks for."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.binaries.archs import sorted_archs
from cuwheel.cli.parser import refuse_none
from cuwheel.cross.target_root import TARGET_ROOT, oldest_served
from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.errors import InterpreterNotFoundError, UsageError
from cuwheel.model.catalogue import find_target, load_catalogue, target_names
from cuwheel.model.link import MODES, mode_name
from cuwheel.model.platform import PLATFORMS, own_platform
from cuwheel.model.recipe import Framework
from cuwheel.model.recipe_check import check_recipe
from cuwheel.model.target import Target
from cuwheel.paths import given_path, project_roots
from cuwheel.system.versions import plain_release
from cuwheel.toolchains.pypi import check_has_compiler

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.cuda.toolkits import Toolkit
    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.platform import Platform
    from cuwheel.model.recipe import Recipe
    from cuwheel.system.pythons import Interpreter


def named_targets(session: str, names: Sequence[str]) -> tuple[tuple[CatalogueEntry, str], ...]:
    """Recipe and toolkit's tag of each target that stands behind `--`.

    Raises:
        UsageError: none is named, or one is no target; the message lists them, or the nearest.
        RecipeError: a recipe's module can't be loaded.
    """
    entries = load_catalogue(project_roots())
    refuse_none(session, "target", names, target_names(entries))
    return tuple(find_target(name, entries) for name in names)


def choose_target(
    entry: CatalogueEntry, tag: str, python: str, given: argparse.Namespace
) -> Target:
    """What a `build-…` or `mirror` command line asks for.

    Args:
        entry: the recipe.
        tag: the toolkit's, `130`.
        python: the release, `3.12`; a wheel of the stable ABI is built with another one, see
            `stable_abi_python`.
        given: the parsed options of `build`.

    Raises:
        UsageError: an option is wrong, or doesn't go with this recipe.
        RecipeError: the recipe isn't well formed.
        CuwheelError: there is no such toolkit, or the toolchain holds no compiler.
    """
    recipe = entry.recipe
    if recipe is None:  # pragma: no cover - find_recipe has refused it
        raise UsageError(f"{entry.name} could not be loaded", why=entry.fault)
    framework, platform = chosen_framework(recipe, given.framework), platform_of(given.platform)
    toolkit = toolkit_by_release(tag)
    if given.toolchain == "pypi":
        check_has_compiler(toolkit)
    own_framework = recipe.framework_for(toolkit.release)
    # The recipe's own settings of a mode where it has that one, else the mode's defaults.
    own = recipe.link.mode
    mode = own if given.link in {None, mode_name(own)} else MODES[given.link]()
    return Target(
        recipe=recipe,
        toolkit=toolkit,
        python=python
        if recipe.python != "abi3"
        else stable_abi_python(recipe, platform, target_root_of(given)),
        framework=own_framework if framework in {None, own_framework} else framework,
        archs=sorted_archs(given.arch) or _archs(recipe, toolkit),
        provider=given.toolchain or toolkit.provider,
        root=entry.root,
        mode=mode,
        source_override=given_path(given.source) if given.source else None,
        platform=platform,
    )


def stable_abi_python(recipe: Recipe, platform: Platform, root: Path | None) -> str:
    """The Python that a wheel of the stable ABI is built with.

    The oldest that it serves: the headers of another one would give other machine code under the
    same file name. For another kind of machine the oldest that its root folder has, as the folders
    that distributions make have one Python.

    Args:
        recipe: whose wheel keeps to the stable ABI.
        platform: of the machines that the wheel is for.
        root: root folder of another kind of machine; None: none was named.
    """
    if not platform.is_foreign:
        return recipe.oldest_python
    return oldest_served(root, platform, recipe.oldest_python)


def platform_of(asked: str | None) -> Platform:
    """What `--platform` names; without it this machine's."""
    return PLATFORMS[asked] if asked else own_platform()


def target_root_of(given: argparse.Namespace) -> Path | None:
    """The root folder of another kind of machine that a command line or a variable names."""
    named = given.target_root or os.environ.get(TARGET_ROOT)
    return given_path(named) if named else None


def foreign_root_of(given: argparse.Namespace) -> Path | None:
    """The same where a wheel for another kind of machine is asked for; else None.

    Args:
        given: of a session that takes one platform, or several.
    """
    asked = [given.platform] if isinstance(given.platform, str) else given.platform or ()
    is_foreign = any(platform_of(one).is_foreign for one in asked)
    return target_root_of(given) if is_foreign else None


def _archs(recipe: Recipe, toolkit: Toolkit) -> tuple[str, ...]:
    try:
        return recipe.archs_for(toolkit.release)
    except KeyError:
        raise UsageError(
            f"{recipe.name} has no archs for CUDA {toolkit.release}",
            why=f"its `archs` are for {', '.join(recipe.archs)}",
            fix=f"pass them with -- --arch, or add {toolkit.release} to `archs` in {recipe.module}",
        ) from None


def framework_of(text: str | None) -> Framework | None:
    """What `--framework` names; None without it.

    Raises:
        UsageError: it names no single release.
    """
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


def release_of(asked: str, found: Interpreter | InterpreterNotFoundError) -> str:
    """`3.12` for what `--python` said; that there is none like it is the early check's to report.

    Args:
        asked: a release, a version, a path, or nothing for the Python that runs nox.
        found: what the machine has for it, or why it has nothing.

    Raises:
        InterpreterNotFoundError: a path was given and nothing runs there.
        UsageError: it is neither a release nor a path.
    """
    if not isinstance(found, InterpreterNotFoundError):
        return found.release
    if os.sep in asked:
        raise found
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?t?", asked):
        raise UsageError(
            f"--python {asked} is neither a version nor a path",
            why="write a version as 3.12, 3.12.1 or 3.14t; a path contains a /",
            fix="e.g. -- --python 3.12, or -- --python /usr/bin/python3",
        )
    plain = plain_release(asked)
    return ".".join(plain.split(".")[:2]) + asked[len(plain) :]


def chosen_framework(recipe: Recipe, text: str | None) -> Framework | None:
    """What `--framework` names for a recipe; None without it.

    Raises:
        UsageError: it names no single release, or another framework than the recipe's.
        RecipeError: the recipe isn't well formed.
    """
    check_recipe(recipe)
    framework, own = framework_of(text), next(iter(recipe.frameworks), None)
    if framework is None or (own and own.name == framework.name):
        return framework
    raise UsageError(
        f"{recipe.name} can't be built with --framework {framework.pin}",
        why=f"it is compiled against {own.name if own else 'no framework'}",
        fix=f"choose a release of {own.name}, or leave out --framework" if own else "leave it out",
    )
