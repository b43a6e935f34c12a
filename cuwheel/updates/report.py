"""What the sessions outdated and bump print: tables for a person, JSON for a script, a diff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import rich.markup
import rich.table

from cuwheel.pypi.lock_file import parse_pins
from cuwheel.spelling import as_typed
from cuwheel.system.output.documents import Schema
from cuwheel.system.output.terminal import report_terminal
from cuwheel.system.quantities import plural
from cuwheel.updates.file_changes import diff_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.sources.patch_health import PatchHealth, State
    from cuwheel.system.console import Console
    from cuwheel.updates.bump import Bump
    from cuwheel.updates.outdated import OldLock, Pinned, RecipeUpdates, Updates

_COLOURS = {"applies": "green", "offset": "yellow", "obsolete": "cyan", "broken": "red"}
_SAID = {
    "applies": "applies",
    "offset": "applies with offset",
    "obsolete": "obsolete: upstream has it",
    "broken": "broken",
}


def print_updates(updates: Updates, console: Console, *, as_json: bool) -> None:
    """Print what is newer.

    Args:
        updates: what was found.
        console: says how much: where it is quiet, no recipe that is up to date.
        as_json: print data instead, all of them.
    """
    if as_json:
        console.answer(_document(updates))
        return
    terminal = report_terminal()
    is_quiet, is_verbose = console.is_quiet, console.is_verbose
    following = [
        one for one in updates.recipes if not one.held_back and (not is_quiet or _is_behind(one))
    ]
    held_back = [one for one in updates.recipes if one.held_back and not is_quiet]
    if following:
        table = _table("recipe", "pinned", "newest", "framework", "locks", "patches on the newest")
        for one in following:
            table.add_row(*_row(one, is_verbose=is_verbose))
        terminal.print(table)
        terminal.print("")
    if held_back:
        table = _table("held back", "pinned", "framework", "why")
        for one in held_back:
            frameworks = ", ".join(f"{pin.name} {pin.pinned}" for pin in one.frameworks)
            why = rich.markup.escape(one.held_back)
            table.add_row(one.name, one.upstream.pinned, frameworks, why)
        terminal.print(table)
        terminal.print("")
    for line in _lines(updates):
        terminal.print(line)


def _table(*titles: str) -> rich.table.Table:
    table = rich.table.Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _is_behind(one: RecipeUpdates) -> bool:
    return any(pin.is_outdated for pin in (one.upstream, *one.frameworks)) or bool(one.locks)


def _row(one: RecipeUpdates, *, is_verbose: bool) -> Iterator[str]:
    yield one.name
    yield one.upstream.pinned
    yield _newest(one.upstream)
    yield ", ".join(f"{pin.name} {pin.pinned} → {_newest(pin)}" for pin in one.frameworks)
    yield ", ".join(f"{lock.file} " * is_verbose + f"{lock.days} days" for lock in one.locks)
    yield "\n".join(f"{health.file}: {_state(health)}" for health in one.patches)


def _newest(pin: Pinned) -> str:
    if not pin.newest:
        return "?"
    return f"[bold yellow]{pin.newest}[/]" if pin.is_outdated else f"[green]{pin.newest}[/]"


def _state(health: PatchHealth) -> str:
    return f"[{_COLOURS[health.state]}]{_SAID[health.state]}[/]"


def _lines(updates: Updates) -> Iterator[str]:
    for one in updates.recipes:
        if one.upstream.note and not one.held_back:
            yield rich.markup.escape(f"{one.name}: {one.upstream.note}")
        for health in one.patches:
            yield from (
                rich.markup.escape(f"{one.name}: {health.file}: {text}") for text in health.details
            )
        is_asked = not one.upstream.note.startswith("pinned as")
        if one.upstream.is_outdated and is_asked and not one.held_back:
            yield as_typed(f"{one.name}: `nox -s bump -- {one.name}` makes the change")
        for lock in one.locks:
            yield f"{one.name}: {lock.file} is {lock.days} days old"
    if updates.toolkits:
        yield (
            f"CUDA: the index has {', '.join(updates.toolkits)}, which cuwheel doesn't support yet"
        )
    elif updates.toolkit_note:
        yield f"CUDA: {updates.toolkit_note}"
    else:
        yield "CUDA: cuwheel supports all releases on the index"
    for lock in updates.locks:
        yield f"{lock.file} is {lock.days} days old"


@dataclass(frozen=True, kw_only=True)
class PinnedRelease:
    """Something that is pinned, and what the index has.

    Attributes:
        name: of it.
        pinned: the release.
        newest: on the index; empty: not known.
        note: what there is to say beside that.
        is_outdated: whether the index has a later release.
    """

    name: str
    pinned: str
    newest: str
    note: str
    is_outdated: bool

    @classmethod
    def of(cls, pin: Pinned) -> PinnedRelease:
        """A pin as part of a document."""
        return cls(
            name=pin.name,
            pinned=pin.pinned,
            newest=pin.newest,
            note=pin.note,
            is_outdated=pin.is_outdated,
        )


@dataclass(frozen=True, kw_only=True)
class CheckedPatch:
    """Whether a patch fits upstream's newest source.

    Attributes:
        file: the patch.
        state: `offset`: its lines stand elsewhere in their files; `obsolete`: the source has the
            change; `broken`: neither.
        details: of `offset`, how far each hunk moved; of `broken`, what is wrong with which hunk.
    """

    file: str
    state: State
    details: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class OutdatedRecipe:
    """What is newer than what a recipe pins.

    Attributes:
        name: the recipe's.
        upstream: its source.
        frameworks: what it is compiled against.
        patches: on upstream's newest source; none where that is pinned or has no source.
        locks: the old ones of it.
        held_back: why that stays so; empty: it is to be taken over.
    """

    name: str
    upstream: PinnedRelease
    frameworks: tuple[PinnedRelease, ...]
    patches: tuple[CheckedPatch, ...]
    locks: tuple[OldLock, ...]
    held_back: str


@dataclass(frozen=True, kw_only=True)
class OutdatedDocument:
    """What `outdated --json` prints.

    Attributes:
        recipes: those that were asked for.
        toolkits: releases of CUDA on the index that cuwheel doesn't know.
        locks: old ones that belong to no recipe.
    """

    SCHEMA: ClassVar[Schema] = Schema("outdated", "1.0")

    recipes: tuple[OutdatedRecipe, ...]
    toolkits: tuple[str, ...]
    locks: tuple[OldLock, ...]


def _document(updates: Updates) -> OutdatedDocument:
    return OutdatedDocument(
        recipes=tuple(
            OutdatedRecipe(
                name=one.name,
                upstream=PinnedRelease.of(one.upstream),
                frameworks=tuple(map(PinnedRelease.of, one.frameworks)),
                patches=tuple(
                    CheckedPatch(file=health.file, state=health.state, details=health.details)
                    for health in one.patches
                ),
                locks=one.locks,
                held_back=one.held_back,
            )
            for one in updates.recipes
        ),
        toolkits=updates.toolkits,
        locks=updates.locks,
    )


def print_bump(bump: Bump, *, is_trial: bool) -> None:
    """Print a change as a diff; of locks, which packages move."""
    terminal = report_terminal()
    locks = {path for path in bump.changes if path.suffix == ".lock"}
    shown = {path: content for path, content in bump.changes.items() if path not in locks}
    for line in diff_of(bump.before, shown, bump.root):
        terminal.out(line, style=_style(line), highlight=False)
    terminal.print("")
    for health in bump.patches:
        terminal.print(f"{health.file}: {_state(health)}")
        for text in health.details:
            terminal.print(f"  {text}", markup=False)
    for text in bump.details:
        terminal.print(f"source: {text}", markup=False)
    for path, content in bump.changes.items():
        if path in locks:
            moved = _moved(bump.before[path], content)
            terminal.print(f"{path.relative_to(bump.root)}: {moved}", markup=False)
    done = "would change" if is_trial else "changed"
    name, count = bump.recipe.name, plural(len(bump.changes), "file")
    terminal.print(f"[bold]{name} {bump.recipe.version} → {bump.version}[/]: {count} {done}")
    if not is_trial:
        tag = bump.recipe.toolkits[-1].replace(".", "")
        again = as_typed(f"nox -s build-{name}-{tag} -- --arch 90")
        terminal.print(f"review with `git diff`, then `{again}`")


def _style(line: str) -> str | None:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return "bold" if line.startswith(("+++", "---")) else colours.get(line[:1])


def _moved(before: bytes | None, content: bytes | None) -> str:
    old, new = _versions(before), _versions(content)
    moved = [
        f"{name} {old.get(name, 'new')} → {new.get(name, 'gone')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    return ", ".join(moved) if moved else "the same packages"


def _versions(content: bytes | None) -> dict[str, str]:
    """Each package's release; several for some Pythons have one each."""
    found: dict[str, list[str]] = {}
    for pin in parse_pins((content or b"").decode()):
        found.setdefault(pin.requirement.name, []).append(pin.version)
    return {name: "/".join(versions) for name, versions in found.items()}
