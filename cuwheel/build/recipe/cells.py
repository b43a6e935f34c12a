"""The cells of the matrix: the wheels that recipes declare."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.platform import PLATFORMS
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.target import Target
from cuwheel.check.cuda.toolkits import TOOLKITS

# Python releases of recipes that name none themselves.
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def pythons_of(recipe: Recipe) -> tuple[str, ...]:
    """Return the Python releases that a recipe has wheels for."""
    required = Requirement(f"x{recipe.requires_python}").specifier
    return tuple(release for release in PYTHONS if required.contains(release))


def locked_frameworks(recipe: Recipe, root: Path) -> Iterator[Framework]:
    """Return the releases of a recipe's framework that have a lock of the build environment."""
    for framework in recipe.frameworks[:1]:
        pattern = re.compile(rf"{recipe.folder}-{framework.name}(\d[\w.]*)\.lock")
        names = (path.name for path in (root / "envs" / "build").glob("*.lock"))
        for match in filter(None, map(pattern.fullmatch, names)):
            yield Framework(name=framework.name, version=match[1])


def is_cell(target: Target) -> bool:
    """Return True if the matrix has a cell for this wheel; archs and source don't matter.

    A wheel that only a command line names (another link mode, a Python that the recipe doesn't
    have) is none: its failure is not the recipe's.
    """
    return target.id in _cell_ids(target.recipe, target.root)


def cell_ids(entries: Iterable[CatalogueEntry]) -> frozenset[str]:
    """Return the target ids of all cells of a catalogue."""
    loaded = ((entry.recipe, entry.root) for entry in entries if entry.recipe)
    return frozenset(name for recipe, root in loaded for name in _cell_ids(recipe, root))


def _cell_ids(recipe: Recipe, root: Path) -> Iterator[str]:
    pythons = pythons_of(recipe)
    pythons = (recipe.oldest_python, *pythons) if recipe.python == "abi3" else pythons
    toolkits = (toolkit for toolkit in TOOLKITS if toolkit.release in recipe.toolkits)
    for toolkit, platform in itertools.product(toolkits, PLATFORMS.values()):
        declared = recipe.framework_for(toolkit.release)
        frameworks = (declared, *locked_frameworks(recipe, root))
        for framework, python in itertools.product(frameworks, pythons):
            yield Target(
                recipe=recipe,
                toolkit=toolkit,
                python=python,
                framework=framework,
                archs=(),
                provider=toolkit.provider,
                root=root,
                mode=recipe.link.mode,
                platform=platform,
            ).id
