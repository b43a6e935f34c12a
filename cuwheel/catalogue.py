"""What can be built: the recipes of the project folders, and the nox sessions they give."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import string
import sys
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.compilerchoice import choice_faults
from cuwheel.components import component_by_name
from cuwheel.errors import CuwheelError, RecipeError, UsageError, suggest
from cuwheel.recipe import PLACEHOLDERS, SMOKE_PLACEHOLDERS, GitCommit, Recipe
from cuwheel.toolkits import TOOLKITS, check_archs, toolkit_by_release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from cuwheel.recipe import Source


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One module of a `recipes/` folder.

    Attributes:
        root: the project folder it belongs to.
        name: the recipe's name, or the module's where it can't be loaded.
        recipe: None where the module can't be loaded.
        fault: why not.
    """

    root: Path
    name: str
    recipe: Recipe | None
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A nox session made from a recipe or a toolkit.

    Attributes:
        name: `<verb>-<recipe>-<toolkit tag>`.
        summary: the line that `nox -l` shows.
        command: what the engine is asked to do.
    """

    name: str
    summary: str
    command: tuple[str, ...]


def load_catalogue(roots: Iterable[Path]) -> tuple[Entry, ...]:
    """Load every recipe of these project folders; the first of two with one name counts.

    A module that can't be loaded becomes an entry with its fault: it must not break the others.
    """
    found: dict[str, Entry] = {}
    for root in roots:
        for path in sorted((root / "recipes").glob("*.py")):
            entry = _load(root, path)
            found.setdefault(entry.name, entry)
    return tuple(found[name] for name in sorted(found))


def sessions_of(entries: Iterable[Entry]) -> tuple[Session, ...]:
    """The sessions that recipes and toolkits give, in the order in which `nox -l` shows them."""
    made = []
    for entry in entries:
        made += _broken(entry) if entry.recipe is None else _sessions_of_recipe(entry.recipe)
    for toolkit in TOOLKITS:
        made.append(
            Session(
                name=f"toolchain-{toolkit.tag}",
                summary=f"Make the CUDA {toolkit.release} toolchain and say where it is.",
                command=("toolchain", toolkit.tag),
            )
        )
    return tuple(made)


def find_recipe(name: str, entries: Iterable[Entry]) -> Entry:
    """Find a recipe by name.

    Raises:
        UsageError: there is none; the message names the nearest.
        RecipeError: its module can't be loaded.
    """
    known = {entry.name: entry for entry in entries}
    entry = known.get(name) or known.get(name.replace("_", "-"))
    if entry is None:
        raise UsageError(
            f'no recipe is called "{name}"',
            why=suggest(name, known),
            fix="`nox -l` lists them; CONTRIBUTING.md shows how to add one",
        )
    if entry.recipe is None:
        raise RecipeError(
            f"{entry.name}: its module can't be loaded",
            why=entry.fault,
            fix=f"correct recipes/{entry.name}.py",
        )
    return entry


def check_recipe(recipe: Recipe) -> None:
    """Check a recipe against the engine's tables, all fields together.

    Raises:
        RecipeError: with every fault found.
    """
    faults = [
        *_faults_of_names(recipe),
        *_faults_of_sources(recipe),
        *_faults_of_texts(recipe),
        *_faults_of_tables(recipe),
    ]
    if faults:
        raise RecipeError(
            f"{recipe.name}: the recipe has {len(faults)} fault{'s'[: len(faults) > 1]}",
            why="\n".join(faults),
            fix=f"correct recipes/{recipe.folder}.py",
        )


def asked_sessions(arguments: Iterable[str]) -> tuple[str, ...]:
    """The session names on nox's command line (`-s a b`, `--session=a`), up to `--`."""
    found, listening = [], False
    for argument in arguments:
        if argument == "--":
            break
        if argument.startswith("-"):
            flag, _, value = argument.partition("=")
            listening = flag in {"-s", "-e", "--session", "--sessions"}
            found += [value] if listening and value else []
        elif listening:
            found.append(argument)
    return tuple(found)


def suggest_sessions(
    asked: Iterable[str], known: Iterable[str], entries: Iterable[Entry] = ()
) -> tuple[str, ...]:
    """One line for each asked session that doesn't exist: the nearest, or why it is missing."""
    names, broken = set(known), [entry for entry in entries if entry.fault]
    lines = []
    for name in asked:
        if name in names:
            continue
        faults = [entry for entry in broken if f"-{entry.name.replace('_', '-')}-" in f"{name}-"]
        reason = (
            f"{faults[0].root}/recipes/{faults[0].name}.py can't be loaded: {faults[0].fault}"
            if faults
            else suggest(name, names)
        )
        lines.append(f'no session is called "{name}": {reason}')
    return tuple(lines)


def missing_roots(roots: Iterable[Path]) -> tuple[str, ...]:
    """One line for each project folder that is not there."""
    lost = [root for root in roots if not root.is_dir()]
    return tuple(f"CUWHEEL_PROJECT names {root}, which is no folder" for root in lost)


def _load(root: Path, path: Path) -> Entry:
    spec = importlib.util.spec_from_file_location(f"cuwheel_recipe_{path.stem}", path)
    try:
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no module")  # noqa: TRY301 - one place reports
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        recipe = module.RECIPE
        if not isinstance(recipe, Recipe):
            raise TypeError("RECIPE is not a Recipe(...)")  # noqa: TRY301
        _refuse_texts(recipe)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever a recipe does wrong, it is its fault
        fault = f"{type(problem).__name__}: {problem}"
        return Entry(root=root, name=path.stem, recipe=None, fault=fault)
    return Entry(root=root, name=recipe.name, recipe=recipe)


def _refuse_texts(recipe: Recipe) -> None:
    """`("90")` is no tuple but a text, and would be taken letter by letter."""
    for name in ("toolkits", "archs", "patches", "resources", "system", "maintainers"):
        value = getattr(recipe, name)
        if isinstance(value, str):
            raise TypeError(f'{name} has to be a tuple: ("{value}",), with the comma')


def _sessions_of_recipe(recipe: Recipe) -> list[Session]:
    made = []
    for release in recipe.toolkits:
        tag = release.replace(".", "")
        label = f"{recipe.name} {recipe.version}"
        made += [
            Session(
                name=f"build-{recipe.name}-{tag}",
                summary=f"Build the wheel of {label} for CUDA {release}.",
                command=("build", recipe.name, tag),
            ),
            Session(
                name=f"smoke-{recipe.name}-{tag}",
                summary=f"Install and import the built {label} for CUDA {release}.",
                command=("build", recipe.name, tag, "--stage", "smoke"),
            ),
        ]
    return made


def _broken(entry: Entry) -> list[Session]:
    return [
        Session(
            name=f"build-{entry.name}",
            summary=f"BROKEN recipe: {entry.fault}",
            command=("build", entry.name, "?"),
        )
    ]


def _faults_of_names(recipe: Recipe) -> list[str]:
    faults = []
    if recipe.name != recipe.name.lower() or "_" in recipe.name:
        faults.append(f'name "{recipe.name}" has to be lower case with "-" between words')
    empty = [name for name in ("toolkits", "archs", "maintainers") if not getattr(recipe, name)]
    return faults + [f"{name} is empty" for name in empty]


def _faults_of_sources(recipe: Recipe) -> list[str]:
    faults = _faults_of_pin("source", recipe.source)
    for resource in recipe.resources:
        faults += _faults_of_pin(f"resource {resource.name}: source", resource.source)
        path = PurePosixPath(resource.to)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            faults.append(f'resource {resource.name}: to="{resource.to}" leads out of the folder')
    places = [PurePosixPath(resource.to) for resource in recipe.resources]
    for place, other in itertools.combinations(places, 2):
        if place.is_relative_to(other) or other.is_relative_to(place):
            faults.append(f'two resources want one place: to="{place}" and to="{other}"')
    return faults


def _faults_of_pin(owner: str, source: Source) -> list[str]:
    faults = []
    is_commit = isinstance(source, GitCommit)
    if isinstance(source, GitCommit) and not re.fullmatch(r"[0-9a-f]{40}", source.commit):
        faults.append(f"{owner}.commit has to have 40 hexadecimal digits")
    if not re.fullmatch(r"[0-9a-f]{64}", source.sha256) and (source.sha256 or not is_commit):
        faults.append(f"{owner}.sha256 has to have 64 hexadecimal digits")
    return faults


def _faults_of_texts(recipe: Recipe) -> list[str]:
    """Placeholders that the engine doesn't fill, and settings that aren't the recipe's."""
    texts = {**recipe.build.env, **getattr(recipe.build, "define", {})}
    faults = [
        fault
        for name, text in texts.items()
        for fault in _faults_of_text(f"{name}={text}", text, PLACEHOLDERS)
    ]
    for name, text in texts.items():
        faults += choice_faults(name, text)
    for text in recipe.smoke.libraries:
        faults += _faults_of_text(f"smoke.libraries: {text}", text, SMOKE_PLACEHOLDERS)
    return faults


def _faults_of_text(shown: str, text: str, known: tuple[str, ...]) -> list[str]:
    try:
        asked = {field for _, field, _, _ in string.Formatter().parse(text)} - {None}
    except ValueError as error:
        return [f"{shown}: {error} (a brace itself is written twice)"]
    unknown = sorted(map(str, asked - set(known)))
    return [f"{shown}: {{{one}}}: {suggest(one, known)}" for one in unknown]


def _faults_of_tables(recipe: Recipe) -> list[str]:
    majors: set[int | None] = {one.major for one in TOOLKITS if one.release in recipe.toolkits}
    checks: list[Callable[[], object]] = [
        functools.partial(component_by_name, name, major)
        for name in recipe.link.components
        for major in majors or {None}
    ]
    checks += [functools.partial(_check_release, recipe, release) for release in recipe.toolkits]
    strays = sorted(set(recipe.more_archs) - set(recipe.toolkits))
    faults = [f'more_archs names "{release}", which toolkits doesn\'t' for release in strays]
    faults += [fault for check in checks if (fault := _fault_of(check))]
    return list(dict.fromkeys(faults))  # a name may be wrong for two majors in the same words


def _check_release(recipe: Recipe, release: str) -> None:
    check_archs(recipe.name, toolkit_by_release(release), recipe.archs_for(release))


def _fault_of(check: Callable[[], object]) -> str:
    try:
        check()
    except CuwheelError as error:
        return f"{error.what} ({error.why})"
    return ""
