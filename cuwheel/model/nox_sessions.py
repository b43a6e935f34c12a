"""The nox sessions that follow from the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.cuda.toolkits import TOOLKITS
from cuwheel.errors import UsageError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.recipe import Recipe


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


def sessions_of(entries: Iterable[CatalogueEntry]) -> tuple[Session, ...]:
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


def builds_of(entries: Iterable[CatalogueEntry]) -> tuple[str, ...]:
    """What the sessions `build-…` build, by the rest of their names: `bitsandbytes-122`."""
    names = (session.name for session in sessions_of(entries))
    return tuple(name.removeprefix("build-") for name in names if name.startswith("build-"))


def check_builds(names: Iterable[str], entries: Iterable[CatalogueEntry]) -> None:
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
    asked: Iterable[str], known: Iterable[str], entries: Iterable[CatalogueEntry] = ()
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


def _broken(entry: CatalogueEntry) -> list[Session]:
    return [
        Session(
            name=f"build-{entry.name}",
            summary=f"BROKEN recipe: {entry.fault}",
            command=("build", entry.name, "?"),
        )
    ]
