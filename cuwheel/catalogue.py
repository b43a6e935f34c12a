"""What can be built: the recipes of the project folders, and the nox sessions they give."""

from __future__ import annotations

import importlib.util
import sys
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import RecipeError, UsageError, suggest
from cuwheel.recipe import Build, Link, Mode, Recipe, Smoke, Source
from cuwheel.toolkits import TOOLKITS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


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


def builds_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """What the sessions `build-…` build, by the rest of their names: `bitsandbytes-122`."""
    names = (session.name for session in sessions_of(entries))
    return tuple(name.removeprefix("build-") for name in names if name.startswith("build-"))


def check_builds(names: Iterable[str], entries: Iterable[Entry]) -> None:
    """See that there is a session `build-…` for each of these names.

    Raises:
        UsageError: for one there is none; the message names the nearest.
    """
    known = builds_of(entries)
    for name in names:
        if name not in known:
            raise UsageError(
                f'nothing that can be built is called "{name}"',
                why=suggest(name, known),
                fix="nox -l lists the sessions build-…",
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
        _refuse_types(recipe)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever a recipe does wrong, it is its fault
        fault = f"{type(problem).__name__}: {problem}"
        return Entry(root=root, name=path.stem, recipe=None, fault=fault)
    return Entry(root=root, name=recipe.name, recipe=recipe)


def _refuse_types(recipe: Recipe) -> None:
    """Refuse values that the rest of the engine couldn't even look at."""
    # `("90")` is no tuple but a text, and would be taken letter by letter.
    for name in ("toolkits", "archs", "patches", "resources", "system", "conda", "maintainers"):
        value = getattr(recipe, name)
        if isinstance(value, str):
            raise TypeError(f'{name} has to be a tuple: ("{value}",), with the comma')
    for name in ("toolkits", "archs"):
        for value in getattr(recipe, name):
            if not isinstance(value, str):
                raise TypeError(f'{name} has to hold texts: "{value}", not {value}')
    kinds: dict[str, tuple[object, tuple[type, ...]]] = {
        "source": (recipe.source, typing.get_args(Source)),
        "build": (recipe.build, typing.get_args(Build)),
        "link": (recipe.link, (Link,)),
        "smoke": (recipe.smoke, (Smoke,)),
        "link's mode": (getattr(recipe.link, "mode", None), typing.get_args(Mode)),
    }
    for name, (value, allowed) in kinds.items():
        if not isinstance(value, allowed):
            words = " or ".join(f"{kind.__name__}(...)" for kind in allowed)
            raise TypeError(f"{name} has to be {words}, not {value!r}")


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
            Session(
                name=f"verify-{recipe.name}-{tag}",
                summary=f"Build {label} for CUDA {release} in several ways; compare the bytes.",
                command=("verify-target", recipe.name, tag),
            ),
            Session(
                name=f"profile-{recipe.name}-{tag}",
                summary=f"Show where the time of building {label} for CUDA {release} goes.",
                command=("profile", recipe.name, tag),
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
