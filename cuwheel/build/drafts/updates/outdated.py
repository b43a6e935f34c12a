"""The session outdated: upstreams, frameworks, toolkits, locks that are newer; patches on these."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import rich.markup
import rich.table
from packaging.version import Version

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.indexes.indexes import IndexRelease
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.console import Console
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.drafts.updates.source_check import check_patches_of
from cuwheel.build.drafts.upstream import Upstream, choose_release, releases_of, unpack_upstream
from cuwheel.build.inputs.patch_health import State
from cuwheel.build.locks.lock_jobs import lock_jobs
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Sdist
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import TOOLKITS

OLD_LOCK = 90  # days
_LOCKED = re.compile(r"^#? *uploaded before:? (\d{4}-\d\d-\d\d)", re.MULTILINE)
_COLOURS = {"applies": "green", "offset": "yellow", "obsolete": "cyan", "broken": "red"}
_LABELS = {
    "applies": "applies",
    "offset": "applies with offset",
    "obsolete": "obsolete: upstream has it",
    "broken": "broken",
}
_TOOLKIT = "cuda-toolkit"  # NVIDIA's metapackage, which has each release of CUDA


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
class OldLock:
    """A lock that was made long ago: `file` below the project folder, `days` since then."""

    file: str
    days: int


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


def find_updates(
    entries: Sequence[CatalogueEntry],
    requested: Sequence[CatalogueEntry],
    workspace: Workspace,
    *,
    days: int = OLD_LOCK,
) -> OutdatedDocument:
    """Query the index for everything that is pinned; locks older than `days` are old.

    Raises:
        DownloadError: the index can't be reached.
        SourceError: a recipe names a patch that isn't there.
    """
    old_locks = list(_old_locks(tuple(entries), workspace.caller.roots, days))
    newest: dict[str, str] = {}
    recipes = []
    with workspace.console.live("querying the index") as line:
        for entry in requested:
            line.show(entry.name)
            if entry.recipe:
                recipe = _updates_of(entry, entry.recipe, workspace, newest)
                parts = (f"build:{recipe.name}:", f"smoke:{recipe.name}:")
                locks = tuple(lock for name, lock in old_locks if f"{name}:".startswith(parts))
                recipes.append(replace(recipe, locks=locks))
        line.show(_TOOLKIT)
        toolkits = _newer_toolkits(workspace)
    others = [lock for name, lock in old_locks if not name.startswith(("build:", "smoke:"))]
    return OutdatedDocument(recipes=tuple(recipes), toolkits=toolkits, locks=tuple(others))


def _updates_of(
    entry: CatalogueEntry, recipe: Recipe, workspace: Workspace, newest: dict[str, str]
) -> OutdatedRecipe:
    upstream, release = _upstream_of(recipe, workspace)
    patches: list[CheckedPatch] = []
    if release and upstream.is_outdated and recipe.patches and not recipe.held_back:
        with temporary_folder() as folder:
            tree = unpack_upstream(release, folder / "source", workspace)
            patches = [
                CheckedPatch(file=health.file, state=health.state, details=health.details)
                for health in check_patches_of(entry, tree)
            ]
    for name in {framework.name for framework in recipe.frameworks} - {*newest}:
        newest[name] = "".join(map(str, _final_releases(name, workspace)[-1:]))
    return OutdatedRecipe(
        name=recipe.name,
        upstream=upstream,
        frameworks=tuple(
            _pinned(framework.name, framework.version, newest[framework.name])
            for framework in recipe.frameworks
        ),
        patches=tuple(patches),
        locks=(),
        held_back=recipe.held_back,
    )


def _pinned(name: str, pinned: str, newest: str, note: str = "") -> PinnedRelease:
    is_outdated = bool(newest) and Version(newest) > Version(pinned)
    return PinnedRelease(
        name=name, pinned=pinned, newest=newest, note=note, is_outdated=is_outdated
    )


def _upstream_of(recipe: Recipe, workspace: Workspace) -> tuple[PinnedRelease, Upstream | None]:
    source = recipe.source
    project = source.project if isinstance(source, Sdist) else recipe.name
    pinned = partial(_pinned, project, recipe.version)
    if isinstance(source, Folder):
        return pinned("", "its source is a local folder"), None
    kind = {Archive: "an archive", GitCommit: "a commit"}.get(type(source), "")
    prefix = f"pinned as {kind}, whose server isn't queried; " if kind else ""
    releases = _releases(project, workspace)
    finals = [release for release in releases if release.is_final]
    if not finals:
        return pinned("", f"{prefix}the index has no final release of {project}"), None
    newest = str(finals[-1].version)
    if kind:
        wheels = "" if finals[-1].sdist else ", only as wheels"
        return pinned(newest, f"{prefix}this is the index's{wheels}"), None
    try:
        release = choose_release(project, releases)
    except DownloadError as error:  # there is no sdist
        return pinned(newest, error.what), None
    note = "" if release.is_newest else f"{newest} exists without an sdist"
    return pinned(release.version, note), release


def _releases(project: str, workspace: Workspace) -> tuple[IndexRelease, ...]:
    try:
        return releases_of(project, workspace)
    except DownloadError as error:
        if not error.is_missing:
            raise
        return ()


def _final_releases(project: str, workspace: Workspace) -> list[Version]:
    return [release.version for release in _releases(project, workspace) if release.is_final]


def _newer_toolkits(workspace: Workspace) -> tuple[str, ...]:
    newest_known = max(Version(toolkit.release) for toolkit in TOOLKITS)
    finals = _final_releases(_TOOLKIT, workspace)
    minors = {Version(f"{version.major}.{version.minor}") for version in finals}
    return tuple(str(minor) for minor in sorted(minors) if minor > newest_known)


def _old_locks(
    entries: tuple[CatalogueEntry, ...], roots: tuple[Path, ...], days: int
) -> Iterator[tuple[str, OldLock]]:
    """Yield names and ages of the locks that are older."""
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    for job in lock_jobs(["all"], entries, roots=roots):
        if job.kind in {"conda", "redist"} or not job.lock.is_file():
            continue
        date = _LOCKED.search(read_text(job.lock, errors="replace")[:1000])
        age = (today - datetime.date.fromisoformat(date[1])).days if date else 0
        if age > days:
            file = "/".join(job.lock.parts[job.lock.parts.index("envs") :])
            yield job.name, OldLock(file=file, days=age)


def print_updates(document: OutdatedDocument, console: Console, *, as_json: bool) -> None:
    """Print what is newer; a quiet console leaves out recipes that are up to date."""
    if as_json:
        console.answer(document)
        return
    terminal = report_terminal()
    table = _table("recipe", "pinned", "newest", "framework", "locks", "patches on the newest")
    held_back = _table("held back", "pinned", "framework", "why")
    for recipe in document.recipes:
        pins = (recipe.upstream, *recipe.frameworks)
        if recipe.held_back and not console.is_quiet:
            frameworks = ", ".join(f"{pin.name} {pin.pinned}" for pin in recipe.frameworks)
            why = rich.markup.escape(recipe.held_back)
            held_back.add_row(recipe.name, recipe.upstream.pinned, frameworks, why)
        is_behind = any(pin.is_outdated for pin in pins) or bool(recipe.locks)
        if not recipe.held_back and (is_behind or not console.is_quiet):
            table.add_row(*_row(recipe, is_verbose=console.is_verbose))
    for filled in (table, held_back):
        if filled.row_count:
            terminal.print(filled)
            terminal.print("")
    for line in _lines(document):
        terminal.print(line)


def _table(*titles: str) -> rich.table.Table:
    table = rich.table.Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _row(recipe: OutdatedRecipe, *, is_verbose: bool) -> Iterator[str]:
    yield recipe.name
    yield recipe.upstream.pinned
    yield _newest(recipe.upstream)
    yield ", ".join(f"{pin.name} {pin.pinned} → {_newest(pin)}" for pin in recipe.frameworks)
    yield ", ".join(f"{lock.file} " * is_verbose + f"{lock.days} days" for lock in recipe.locks)
    yield "\n".join(f"{patch.file}: {show_state(patch.state)}" for patch in recipe.patches)


def _newest(pin: PinnedRelease) -> str:
    if not pin.newest:
        return "?"
    return f"[bold yellow]{pin.newest}[/]" if pin.is_outdated else f"[green]{pin.newest}[/]"


def show_state(state: State) -> str:
    """Return the state of a patch in its colour."""
    return f"[{_COLOURS[state]}]{_LABELS[state]}[/]"


def _lines(document: OutdatedDocument) -> Iterator[str]:
    for recipe in document.recipes:
        name, note = recipe.name, recipe.upstream.note
        if note and not recipe.held_back:
            yield rich.markup.escape(f"{name}: {note}")
        for patch in recipe.patches:
            for text in patch.details:
                yield rich.markup.escape(f"{name}: {patch.file}: {text}")
        is_pinned = note.startswith("pinned as") or bool(recipe.held_back)
        if recipe.upstream.is_outdated and not is_pinned:
            yield as_typed(f"{name}: `nox -s bump -- {name}` makes the change")
        yield from (f"{name}: {lock.file} is {lock.days} days old" for lock in recipe.locks)
    if document.toolkits:
        listed = ", ".join(document.toolkits)
        yield f"CUDA: the index has {listed}, which cuwheel doesn't support yet"
    else:
        yield "CUDA: the index has no release that cuwheel doesn't support"
    yield from (f"{lock.file} is {lock.days} days old" for lock in document.locks)
