"""Another release of a source: whether the patches apply to it, and how its build differs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import CuwheelError, SourceError
from cuwheel.base.system.regular_files import read_bytes
from cuwheel.build.drafts.readers.facts import Kind, SourceFact
from cuwheel.build.drafts.readers.survey import Survey, survey_source
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.patch_health import PatchHealth, State, check_patches
from cuwheel.build.inputs.pinned import fetch_pinned
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.build.recipe.source import Sdist
from cuwheel.build.workspace.workspace import Workspace

_ORDER: tuple[State, ...] = ("applies", "offset", "obsolete", "broken")  # the worst last
_MANY = 6  # new facts of a kind that are named
_COMPARED: tuple[tuple[Kind, str], ...] = (
    ("variable", "reads the variable"),
    ("download", "downloads"),
    ("gencode", "hard-codes the arch"),
    ("flag", "compiles with"),
    ("library", "links"),
    ("option", "has the CMake option"),
    ("extension", "builds the module"),
)


def patch_folder(entry: CatalogueEntry) -> Path:
    """Return the folder of a recipe's patches."""
    folder = entry.recipe.folder if entry.recipe else entry.name
    return entry.root / "patches" / folder


def check_patches_of(entry: CatalogueEntry, tree: Path) -> tuple[PatchHealth, ...]:
    """Check each patch of a recipe against a source, of which it makes copies.

    Raises:
        SourceError: the recipe names a patch that isn't there.
    """
    if entry.recipe is None:
        return ()
    patches, folder = entry.recipe.patches, patch_folder(entry)
    if lost := [patch.file for patch in patches if not (folder / patch.file).is_file()]:
        raise SourceError(
            f"{entry.name}: patches are missing",
            why=f"the recipe names {', '.join(lost)}, but {folder} has no such file",
            fix="add the file, or remove its line in the recipe",
        )
    # Patches of one toolkit apply together; equal series of several toolkits are checked once.
    series = {
        tuple(patch.file for patch in patches if release in (patch.toolkits or (release,))): None
        for release in entry.recipe.toolkits
    }
    worst: dict[str, PatchHealth] = {}
    for number, names in enumerate(filter(None, series)):
        copy = tree.with_name(f"{tree.name}.patched-{number}")
        shutil.copytree(tree, copy, symlinks=True)
        contents = {name: read_bytes(folder / name, limit=limits.PATCH) for name in names}
        for health in check_patches(contents, copy):
            known = worst.setdefault(health.file, health)
            if _ORDER.index(health.state) > _ORDER.index(known.state):
                worst[health.file] = health
    return tuple(worst[patch.file] for patch in patches if patch.file in worst)


def changes_of_source(
    recipe: Recipe, source: Sdist, tree: Path, folder: Path, workspace: Workspace
) -> tuple[str, ...]:
    """Return a line for each fact that one of the sources states; `folder` gets the pinned one."""
    try:
        archive = fetch_pinned(source, workspace, "")
        old = survey_source(unpack_archive(archive, folder).top)
    except CuwheelError as error:
        return (f"not compared with {source.version}: {error.what}",)
    return tuple(dict.fromkeys(_differences(recipe, old, survey_source(tree))))


def _differences(recipe: Recipe, old: Survey, new: Survey) -> Iterator[str]:
    for kind, verb in _COMPARED:
        before, after = _named(old, kind), _named(new, kind)
        added, gone = sorted({*after} - {*before}), sorted({*before} - {*after})
        for name in added[:_MANY]:
            yield f"it now {verb} {name} ({after[name].where})"
        if len(added) > _MANY:
            yield f"it now {verb} …, {len(added) - _MANY} more"
        if gone:
            yield f"it no longer {verb} {', '.join(gone)}"
    for owner, was, now in (
        ("build", {*old.system.requires}, {*new.system.requires}),
        ("wheel", {*old.metadata.requires}, {*new.metadata.requires}),
    ):
        yield from (f"the {owner} now requires {text}" for text in sorted(now - was))
        yield from (f"the {owner} no longer requires {text}" for text in sorted(was - now))
    python = new.metadata.requires_python.value
    if python != old.metadata.requires_python.value:
        locked = recipe.requires_python
        yield f"it now requires Python {python}, the recipe's locks are for {locked}"


def _named(survey: Survey, kind: Kind) -> dict[str, SourceFact]:
    return {fact.name: fact for fact in reversed(survey.relevant(kind))}
