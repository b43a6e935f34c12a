"""What is newer than what the recipes pin: upstream, framework, toolkits, locks, and the patches'
health against upstream's newest source.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import datetime
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from cuwheel.cuda.toolkits import TOOLKITS
from cuwheel.drafts.upstream import choose_release, releases_of, unpack_upstream
from cuwheel.errors import UnknownProjectError
from cuwheel.locks.jobs import CondaLockSpec, lock_jobs
from cuwheel.model.source import Archive, Folder, GitCommit, Sdist
from cuwheel.system.whole_files import read_text
from cuwheel.updates.patch_check import check_patches_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cuwheel.drafts.upstream import Upstream
    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.recipe import Recipe
    from cuwheel.sources.patch_health import PatchHealth
    from cuwheel.workspace.workspace import Workspace

OLD_LOCK = 90  # days
_LOCKED = re.compile(r"^#? *uploaded before:? (\d{4}-\d\d-\d\d)", re.MULTILINE)
_TOOLKIT = "cuda-toolkit"  # NVIDIA's metapackage, a release for each of CUDA


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """Something that is pinned, and what the index has.

    Attributes:
        name: of it.
        pinned: the release.
        newest: on the index; empty: not known.
        note: what there is to say beside that.
    """

    name: str
    pinned: str
    newest: str
    note: str = ""

    @property
    def is_outdated(self) -> bool:
        """Whether the index has a later release."""
        return bool(self.newest) and Version(self.newest) > Version(self.pinned)


@dataclass(frozen=True, kw_only=True)
class OldLock:
    """A lock that was made long ago: `file` below the project folder, `days` since then."""

    file: str
    days: int


@dataclass(frozen=True, kw_only=True)
class RecipeUpdates:
    """What is newer than what a recipe pins.

    Attributes:
        name: the recipe's.
        upstream: its source.
        frameworks: what it is compiled against.
        patches: their health against upstream's newest source; empty where that is pinned, has no
            source on the index, or isn't wanted.
        locks: the old ones of it.
        held_back: why that stays so; empty: it is to be taken over.
    """

    name: str
    upstream: Pinned
    frameworks: tuple[Pinned, ...]
    patches: tuple[PatchHealth, ...]
    locks: tuple[OldLock, ...]
    held_back: str = ""


@dataclass(frozen=True, kw_only=True)
class Updates:
    """What is newer than what this repository pins.

    Attributes:
        recipes: one for each that was asked for.
        toolkits: releases of CUDA on the index that cuwheel doesn't know.
        toolkit_note: why they aren't known, where they aren't.
        locks: old ones that belong to no recipe.
    """

    recipes: tuple[RecipeUpdates, ...]
    toolkits: tuple[str, ...]
    toolkit_note: str
    locks: tuple[OldLock, ...]


def find_updates(
    entries: Sequence[CatalogueEntry],
    asked: Sequence[CatalogueEntry],
    workspace: Workspace,
    *,
    days: int = OLD_LOCK,
) -> Updates:
    """Ask the index about everything that is pinned.

    Args:
        entries: all recipes.
        asked: those that this is about.
        workspace: its cache gets the sources.
        days: a lock is old from here on.

    Raises:
        DownloadError: the index can't be asked.
        PatchError: a recipe names a patch that isn't there.
    """
    newest: dict[str, str] = {}
    recipes = []
    with workspace.console.live("querying the index") as line:
        for entry in asked:
            line.show(entry.name)
            if entry.recipe:
                recipes.append(_updates_of(entry, entry.recipe, workspace, newest, days))
        line.show(_TOOLKIT)
        toolkits, note = _newer_toolkits(workspace)
    named = {one.file for recipe in recipes for one in recipe.locks}
    old = [one for one in _old_locks(["all"], tuple(entries), days) if one.file not in named]
    own = [one for one in old if not re.match(r"envs/(build|smoke)/", one.file)]
    return Updates(
        recipes=tuple(recipes),
        toolkits=toolkits,
        toolkit_note=note,
        locks=tuple(dict.fromkeys(own)),
    )


def _updates_of(
    entry: CatalogueEntry,
    recipe: Recipe,
    workspace: Workspace,
    newest: dict[str, str],
    days: int,
) -> RecipeUpdates:
    upstream, release = _upstream_of(recipe, workspace)
    health: tuple[PatchHealth, ...] = ()
    if release and upstream.is_outdated and recipe.patches and not recipe.held_back:
        with tempfile.TemporaryDirectory() as folder:
            tree = unpack_upstream(release, Path(folder) / "source", workspace)
            health = check_patches_of(entry, tree)
    frameworks = []
    for framework in recipe.frameworks:
        if framework.name not in newest:
            newest[framework.name] = _newest_of(framework.name, workspace)
        frameworks.append(
            Pinned(name=framework.name, pinned=framework.version, newest=newest[framework.name])
        )
    names = [f"build:{recipe.name}", f"smoke:{recipe.name}"]
    return RecipeUpdates(
        name=recipe.name,
        upstream=upstream,
        frameworks=tuple(frameworks),
        patches=health,
        locks=tuple(_old_locks(names, (entry,), days)),
        held_back=recipe.held_back,
    )


def _upstream_of(recipe: Recipe, workspace: Workspace) -> tuple[Pinned, Upstream | None]:
    source = recipe.source
    project = source.project if isinstance(source, Sdist) else recipe.name

    def pinned(newest: str, note: str) -> Pinned:
        return Pinned(name=project, pinned=recipe.version, newest=newest, note=note)

    if isinstance(source, Folder):
        return pinned("", "its source is a local folder"), None
    kind = {Archive: "an archive", GitCommit: "a commit"}.get(type(source), "")
    asked = f"pinned as {kind}, whose server isn't queried" if kind else ""
    try:
        releases = releases_of(project, workspace)
    except UnknownProjectError:
        missing = f"; the index has no {project}" if kind else f"the index has no {project}"
        return pinned("", f"{asked}{missing}"), None
    finals = [one for one in releases if one.is_final]
    if not finals:
        return pinned("", f"{asked}; the index has no final release".lstrip("; ")), None
    if kind:
        wheels = "" if finals[-1].sdist else ", only as wheels"
        return pinned(str(finals[-1].version), f"{asked}; this is the index's{wheels}"), None
    try:
        release = choose_release(project, releases)
    except UnknownProjectError as error:
        return pinned(str(finals[-1].version), error.what), None
    note = "" if release.is_newest else f"{finals[-1].version} exists without an sdist"
    return pinned(release.version, note), release


def _newest_of(project: str, workspace: Workspace) -> str:
    try:
        finals = [one for one in releases_of(project, workspace) if one.is_final]
    except UnknownProjectError:
        return ""
    return str(finals[-1].version) if finals else ""


def _newer_toolkits(workspace: Workspace) -> tuple[tuple[str, ...], str]:
    """Releases of CUDA that are later than the oldest row and have none of their own."""
    try:
        releases = releases_of(_TOOLKIT, workspace)
    except UnknownProjectError as error:
        return (), error.what
    known = {toolkit.release for toolkit in TOOLKITS}
    newest_known = max(Version(release) for release in known)
    found = {
        f"{one.version.major}.{one.version.minor}": one.version for one in releases if one.is_final
    }
    new = [release for release in found if Version(release) > newest_known]
    return tuple(sorted(new, key=Version)), ""


def _old_locks(
    names: Iterable[str], entries: tuple[CatalogueEntry, ...], days: int
) -> Iterator[OldLock]:
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    for job in lock_jobs(["all"], entries):
        is_asked = "all" in names or any(f"{job.name}:".startswith(f"{one}:") for one in names)
        if not is_asked or isinstance(job, CondaLockSpec) or not job.lock.is_file():
            continue
        found = _LOCKED.search(read_text(job.lock, errors="replace")[:1000])
        age = (today - datetime.date.fromisoformat(found[1])).days if found else 0
        if age > days:
            file = "/".join(job.lock.parts[job.lock.parts.index("envs") :])
            yield OldLock(file=file, days=age)
