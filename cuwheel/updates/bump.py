"""The session bump: a recipe taken to another release of upstream, as one change to review."""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.drafts.upstream import choose_release, releases_of, unpack_upstream
from cuwheel.errors import PatchError, RecipeError, UsageError
from cuwheel.locks.framework_fit import fit_specs
from cuwheel.locks.jobs import PypiLockSpec, lock_jobs
from cuwheel.locks.resolve import resolve_locks
from cuwheel.model.catalogue import load_catalogue
from cuwheel.model.recipe_check import check_recipe
from cuwheel.model.recipe_lock import locks_of
from cuwheel.model.source import Sdist
from cuwheel.system.whole_files import read_bytes
from cuwheel.updates.file_changes import read_if_there, refuse_uncommitted, replace_files
from cuwheel.updates.patch_check import check_patches_of, patch_folder
from cuwheel.updates.recipe_edit import edit_recipe
from cuwheel.updates.source_changes import changes_of_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.drafts.upstream import Upstream
    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.recipe import Recipe
    from cuwheel.sources.patch_health import PatchHealth
    from cuwheel.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class BumpOptions:
    """How a recipe is to be changed.

    Attributes:
        version: upstream's release; empty for the newest.
        keeps_broken: whether to go on with patches that don't apply any more.
        takes_uncommitted: whether files with changes that aren't committed may be changed.
        is_trial: whether to leave all files as they are.
        cooldown: days that a package has to have been public to be locked.
    """

    version: str = ""
    keeps_broken: bool = False
    takes_uncommitted: bool = False
    is_trial: bool = False
    cooldown: int


@dataclass(frozen=True, kw_only=True)
class Bump:
    """What the change is.

    Attributes:
        recipe: as it was.
        version: the new one.
        root: the project folder.
        before: what it changes: content by file; None: there was none.
        changes: the same files afterwards; None: it is removed.
        patches: whether each fits the new source.
        details: what is different in the source, one line each.
    """

    recipe: Recipe
    version: str
    root: Path
    before: dict[Path, bytes | None]
    changes: dict[Path, bytes | None]
    patches: tuple[PatchHealth, ...]
    details: tuple[str, ...]


def bump_recipe(entry: CatalogueEntry, options: BumpOptions, workspace: Workspace) -> Bump | None:
    """Take a recipe to another release: version, hash, patches, locks.

    Everything is made aside first; the files change at the very end, together.

    Args:
        entry: the recipe.
        options: to which release, and how.
        workspace: its cache gets the sources.

    Returns:
        The change; None where the recipe pins that release already.

    Raises:
        UsageError: its source has no releases on an index, or its files have changes.
        UnknownProjectError: there is no such release, or it has no source.
        PatchError: a patch doesn't apply to it any more.
        RecipeError: the recipe's text can't be edited.
        CuwheelError: the source can't be had, or the locks can't be resolved.
    """
    recipe, source = _changeable(entry)
    release = choose_release(
        source.project, releases_of(source.project, workspace), options.version
    )
    if release.version == recipe.version:
        return None
    path = entry.root / recipe.module
    if not options.takes_uncommitted:
        locks = [entry.root / lock.path for lock in locks_of(recipe)]
        refuse_uncommitted([path, patch_folder(entry), *locks], entry.root)
    with tempfile.TemporaryDirectory() as name:
        aside = Path(name)
        tree = unpack_upstream(release, aside / "new", workspace)
        health = check_patches_of(entry, tree)
        _refuse_broken(entry, release, health, keeps_broken=options.keeps_broken)
        pinned = dataclasses.replace(source, version=recipe.version)
        details = changes_of_source(recipe, pinned, tree, aside / "old", workspace)
        changes = _change_recipe(entry, recipe, release, health, aside / "project")
        changes |= _change_locks(entry, aside / "project", options, workspace)
    before = {path: read_if_there(path) for path in changes}
    changes = {path: new for path, new in changes.items() if new != before[path]}
    if not options.is_trial:
        replace_files(changes)
    return Bump(
        recipe=recipe,
        version=release.version,
        root=entry.root,
        before=before,
        changes=changes,
        patches=health,
        details=details,
    )


def _changeable(entry: CatalogueEntry) -> tuple[Recipe, Sdist]:
    recipe = entry.recipe
    if recipe is None:  # pragma: no cover - find_recipe has refused it
        raise UsageError(f"{entry.name} can't be loaded", why=entry.fault)
    source = recipe.source
    if not isinstance(source, Sdist):
        raise UsageError(
            f"{recipe.name} can't be bumped automatically",
            why=f"its source is {type(source).__name__}(…): no index says which release is newest, "
            "or what its hash is",
            fix=f"change `version` and the source's pin in {recipe.module} by hand, then "
            f"`nox -s build-{entry.target_names[0]} -- --stage source`",
        )
    if source.version != "{version}":
        raise UsageError(
            f"{recipe.name} can't be bumped automatically",
            why=f'its source has its own release number, version="{source.version}"',
            fix=f"change both in {recipe.module} by hand",
        )
    return recipe, source


def _refuse_broken(
    entry: CatalogueEntry, release: Upstream, health: Iterable[PatchHealth], *, keeps_broken: bool
) -> None:
    broken = [one for one in health if one.state == "broken"]
    if broken and not keeps_broken:
        raise PatchError(
            f"{entry.name}: {len(broken)} of its patches don't apply to {release.version}",
            why="\n".join(f"{one.file}: {problem}" for one in broken for problem in one.details),
            fix="nothing was changed; `--keep-broken` makes the rest of the change: then redo "
            f"these patches, from `nox -s build-{entry.target_names[0]} -- --stage source`",
        )


def _change_recipe(
    entry: CatalogueEntry,
    recipe: Recipe,
    release: Upstream,
    health: tuple[PatchHealth, ...],
    project: Path,
) -> dict[Path, bytes | None]:
    """The recipe's new text, tried by loading it, and its changed patches."""
    gone = [one.file for one in health if one.state == "obsolete"]
    values = {"version": release.version, "source.sha256": release.sha256}
    text = edit_recipe(entry.root / recipe.module, values, gone)
    made = project / recipe.module
    made.parent.mkdir(parents=True)
    made.write_text(text, encoding="utf-8")
    wanted = dataclasses.replace(
        recipe,
        version=release.version,
        source=dataclasses.replace(release.source, version="{version}", max_size=_limit(recipe)),
        patches=tuple(one for one in recipe.patches if one.file not in gone),
    )
    [loaded] = load_catalogue([project])
    if loaded.recipe != wanted:
        raise RecipeError(
            f"{recipe.module} can't be edited safely",
            why=loaded.fault or "with the new values other fields would change too",
            fix="change `version`, `sha256` and `patches` by hand",
        )
    check_recipe(wanted)
    folder = patch_folder(entry)
    changes: dict[Path, bytes | None] = {entry.root / recipe.module: text.encode()}
    changes |= {folder / one.file: one.content for one in health if one.state == "offset"}
    return changes | dict.fromkeys((folder / name for name in gone), None)


def _limit(recipe: Recipe) -> int:
    return recipe.source.max_size if isinstance(recipe.source, Sdist) else 0


def _change_locks(
    entry: CatalogueEntry, project: Path, options: BumpOptions, workspace: Workspace
) -> dict[Path, bytes | None]:
    """The locks of the changed recipe, written anew; those for other frameworks that are kept."""
    [changed] = load_catalogue([project])
    names = [lock.name for lock in locks_of(changed.recipe)] if changed.recipe else []
    jobs = lock_jobs(names, (dataclasses.replace(changed, root=entry.root),))
    aside = {
        spec.lock: dataclasses.replace(spec, lock=project / spec.lock.relative_to(entry.root))
        for spec in jobs
        if isinstance(spec, PypiLockSpec)
    }
    resolve_locks(fit_specs(tuple(aside.values()), workspace), workspace, cooldown=options.cooldown)
    return {path: read_bytes(spec.lock) for path, spec in aside.items()}
