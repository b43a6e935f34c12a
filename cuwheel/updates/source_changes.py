"""What upstream has changed in its build between two releases, as far as its files say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.drafts.readers.survey import survey_source
from cuwheel.errors import CuwheelError
from cuwheel.sources.archives import unpack_archive
from cuwheel.sources.pinned import fetch_pinned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.drafts.readers.finding import Finding, Kind
    from cuwheel.drafts.readers.survey import Survey
    from cuwheel.model.recipe import Recipe
    from cuwheel.model.source import Sdist
    from cuwheel.workspace.workspace import Workspace

_MANY = 6  # new facts of a kind that are named
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


def changes_of_source(
    recipe: Recipe, source: Sdist, tree: Path, folder: Path, workspace: Workspace
) -> tuple[str, ...]:
    """One line for each fact that only one of the two sources states.

    Args:
        recipe: of the package.
        source: what it pins now, with its version.
        tree: the new source.
        folder: to make; gets the source that is pinned now.
        workspace: its cache has the archives.
    """
    try:
        archive = fetch_pinned(source, workspace, "")
        old = survey_source(unpack_archive(archive, folder).top)
    except CuwheelError as error:
        return (f"not compared with {source.version}: {error.what}",)
    return tuple(dict.fromkeys(_differences(recipe, old, survey_source(tree))))


def _differences(recipe: Recipe, old: Survey, new: Survey) -> Iterator[str]:
    for kind, words in _COMPARED:
        before, after = _named(old, kind), _named(new, kind)
        added, gone = sorted({*after} - {*before}), sorted({*before} - {*after})
        for name in added[:_MANY]:
            yield f"it now {words} {name} ({after[name].where})"
        if len(added) > _MANY:
            yield f"it now {words} …, {len(added) - _MANY} more"
        if gone:
            yield f"it no longer {words} {', '.join(gone)}"
    yield from _requirements("build", old.system.requires, new.system.requires)
    yield from _requirements("wheel", old.metadata.requires, new.metadata.requires)
    asked = new.metadata.requires_python.value
    if asked != old.metadata.requires_python.value:
        yield f"it now requires Python {asked}, the recipe's locks are for {recipe.requires_python}"


def _requirements(owner: str, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[str]:
    for text in sorted({*new} - {*old}):
        yield f"the {owner} now requires {text}"
    for text in sorted({*old} - {*new}):
        yield f"the {owner} no longer requires {text}"


def _named(survey: Survey, kind: Kind) -> dict[str, Finding]:
    return {one.name: one for one in reversed(survey.relevant(kind))}
