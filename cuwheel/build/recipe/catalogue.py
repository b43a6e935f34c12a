"""The catalogue: the recipes of the project folders, and their targets' names."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
import sys
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path

import cuwheel
from cuwheel.base.errors import RecipeError, UsageError, nearest, suggest
from cuwheel.build.recipe.link import Link, Mode
from cuwheel.build.recipe.recipe import Build, Framework, Recipe, Smoke
from cuwheel.build.recipe.source import Source


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """One module of a `recipes/` folder.

    Attributes:
        recipe: None where the module can't be loaded.
    """

    root: Path
    name: str
    recipe: Recipe | None
    fault: str = ""

    @property
    def target_names(self) -> tuple[str, ...]:
        """Its targets on a command line: `bitsandbytes-122`, `bitsandbytes-130`."""
        releases = self.recipe.toolkits if self.recipe else ()
        return tuple(f"{self.name}-{release.replace('.', '')}" for release in releases)


def load_catalogue(roots: Iterable[Path]) -> tuple[CatalogueEntry, ...]:
    """Load every recipe of these project folders; the first of two with one name counts.

    A module that can't be loaded becomes an entry with its fault: it must not break the others.
    """
    entries: dict[str, CatalogueEntry] = {}
    for root in roots:
        for path in sorted((root / "recipes").glob("*.py")):
            entry = _load(root, path)
            entries.setdefault(entry.name, entry)
    return tuple(entries[name] for name in sorted(entries))


def find_recipe(name: str, entries: Iterable[CatalogueEntry]) -> CatalogueEntry:
    """Find a recipe by name.

    Raises:
        UsageError: there is none; the message names the nearest.
        RecipeError: its module can't be loaded.
    """
    known = {entry.name: entry for entry in entries}
    entry = known.get(name) or known.get(name.replace("_", "-"))
    if entry is None:
        refuse_broken(name, known.values())
        if missing := missing_recipe(name, known.values()):
            raise UsageError(
                f'there is no recipe "{name}"',
                why=f"there is no recipe of {missing}",
                fix=how_to_draft(missing),
            )
        raise UsageError(
            f'there is no recipe "{name}"', why=suggest(name, known), fix="`nox -l` lists them"
        )
    refuse_broken(entry.name, (entry,))
    return entry


def refuse_broken(name: str, entries: Iterable[CatalogueEntry]) -> None:
    """Check that no recipe of this name, or of this file's name, has a module that can't be loaded.

    Raises:
        RecipeError: one has.
    """
    for entry in entries:
        if entry.recipe is None and entry.name.replace("_", "-") == name.replace("_", "-"):
            raise RecipeError(
                f"{entry.name}: its module can't be loaded",
                why=entry.fault,
                fix=f"correct {entry.root}/recipes/{entry.name}.py",
            )


def target_names(entries: Iterable[CatalogueEntry]) -> tuple[str, ...]:
    """Return the names of targets on a command line: recipe and toolkit, `causal-conv1d-130`."""
    return tuple(name for entry in entries for name in entry.target_names)


def find_target(name: str, entries: Iterable[CatalogueEntry]) -> tuple[CatalogueEntry, str]:
    """Find a target by its name, `causal-conv1d-130`; return its recipe and the toolkit's tag.

    Raises:
        UsageError: there is no such target; the message names the nearest.
        RecipeError: its recipe's module can't be loaded.
    """
    entries, plain = tuple(entries), name.replace("_", "-")
    for entry in entries:
        if plain in entry.target_names:
            return entry, plain.rpartition("-")[2]
        if entry.fault and f"{plain}-".startswith(f"{entry.name.replace('_', '-')}-"):
            refuse_broken(entry.name, (entry,))
    if missing := missing_recipe(plain, entries):
        raise UsageError(
            f'there is no target "{name}"',
            why=f"there is no recipe of {missing}",
            fix=how_to_draft(missing),
        )
    known = target_names(entries)
    targets = [target for target in known if target.rpartition("-")[0] == plain]
    raise UsageError(
        f'there is no target "{name}"',
        why=f"the toolkit is missing: {' or '.join(targets)}" if targets else suggest(name, known),
        fix="choose one that `nox -l` lists",
    )


def how_to_draft(package: str) -> str:
    """Return the fix for a package that has no recipe."""
    return (
        f"`nox -s new -- {package}` drafts one from the package's source on the index, "
        "CONTRIBUTING.md shows how to complete it; `nox -l` lists all recipes"
    )


def missing_recipe(target: str, entries: Iterable[CatalogueEntry]) -> str:
    """Return the package in a target's name, where no recipe has a similar name; else empty.

    Args:
        target: such as `causal-conv1d-130`, or without the toolkit.
    """
    package = re.sub(r"-\d{2,3}$", "", target)
    return "" if nearest(package, [entry.name for entry in entries]) else package


def missing_roots(roots: Iterable[Path]) -> tuple[str, ...]:
    """Return one line for each project folder that is not there."""
    return tuple(
        f"CUWHEEL_PROJECT names {root}, which is not a folder"
        for root in roots
        if not root.is_dir()
    )


def _load(root: Path, path: Path) -> CatalogueEntry:
    spec = importlib.util.spec_from_file_location(f"cuwheel_recipe_{path.stem}", path)
    try:
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            raise ImportError(f"{path} is not a Python module")  # noqa: TRY301 - one place reports
        # Many repositories have scripts in `recipes/`; a shell's completion must not run them.
        if not _DECLARES.search(spec.loader.get_source(spec.name) or ""):
            raise AttributeError("it doesn't define RECIPE, so it wasn't loaded")  # noqa: TRY301 - likewise
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        recipe = module.RECIPE
        if not isinstance(recipe, Recipe):
            raise TypeError("RECIPE is not a Recipe(...)")  # noqa: TRY301
        _refuse_types(recipe)
        _refuse_paths(recipe)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a recipe can raise anything
        fault = f"{type(problem).__name__}: {_correction(problem) or problem}"
        return CatalogueEntry(root=root, name=path.stem, recipe=None, fault=fault)
    return CatalogueEntry(root=root, name=recipe.name, recipe=recipe)


_DECLARES = re.compile(r"^RECIPE\b", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
_UNKNOWN_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def _correction(problem: BaseException) -> str:
    """Return Python's message with the nearest field, or the missing import; empty: unknown.

    Python suggests a field itself from 3.13 on, in another form.
    """
    if isinstance(problem, NameError) and problem.name in cuwheel.__all__:
        return f"{problem}: add {problem.name} to `from cuwheel import …`"
    unknown = _UNKNOWN_FIELD.match(str(problem)) if isinstance(problem, TypeError) else None
    declaration = getattr(cuwheel, unknown[1], None) if unknown else None
    if unknown is None or declaration is None:
        return ""
    known = inspect.signature(declaration).parameters
    return f"{unknown[0]}: {suggest(unknown[2], known)}"


def _refuse_types(recipe: Recipe) -> None:
    """Refuse values of types that the rest of the engine can't read."""
    kinds: dict[str, tuple[object, tuple[type, ...]]] = {
        "source": (recipe.source, typing.get_args(Source)),
        "build": (recipe.build, typing.get_args(Build)),
        "link": (recipe.link, (Link,)),
        "smoke": (recipe.smoke, (Smoke,)),
        "link's mode": (getattr(recipe.link, "mode", None), typing.get_args(Mode)),
    }
    for name, (value, allowed) in kinds.items():
        if not isinstance(value, allowed):
            expected = " or ".join(f"{kind.__name__}(...)" for kind in allowed)
            raise TypeError(f"{name} has to be {expected}, not {value!r}")
    for owner, declaration in (("", recipe), ("smoke.", recipe.smoke)):
        for field in dataclasses.fields(declaration):
            if str(field.type).startswith(("tuple", "Mapping")):
                _refuse_text(f"{owner}{field.name}", getattr(declaration, field.name))
    _refuse_frameworks(recipe.framework)
    for name in ("toolkits", "archs", "requires"):
        for value in getattr(recipe, name):
            if not isinstance(value, str):
                raise TypeError(f'{name} has to contain strings: "{value}", not {value}')


def _refuse_paths(recipe: Recipe) -> None:
    """Refuse names that are parts of folder names and would lead elsewhere."""
    texts = [recipe.name]
    for framework in recipe.frameworks:
        texts += [framework.name, framework.version]
    for text in texts:
        if not _PLAIN.fullmatch(text):
            raise ValueError(
                f'"{text}" is used in folder names: only letters, digits, ".", "_", "+" and "-"'
            )


def _refuse_frameworks(declared: object) -> None:
    for value in declared.values() if isinstance(declared, Mapping) else [declared]:
        if not isinstance(value, Framework | None):
            raise TypeError(f"framework has to contain Framework(...), not {value!r}")


def _refuse_text(name: str, value: object) -> None:
    """Refuse `("90")`: it is a text, which would be read letter by letter, and no tuple."""
    if isinstance(value, str):
        raise TypeError(f'{name} has to be a tuple: ("{value}",), with the comma')
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_text(f'{name}["{key}"]', inner)
