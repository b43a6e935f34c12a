"""What is wrong with the sources and resources of a recipe: pins, and where they are put."""

from __future__ import annotations

import itertools
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.model.recipe_texts import faults_of_text
from cuwheel.model.source import SOURCE_PLACEHOLDERS, Archive, Folder, GitCommit, Sdist

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.model.recipe import Recipe
    from cuwheel.model.source import Source


def faults_of_source(recipe: Recipe) -> Iterator[str]:
    """What is wrong with where the source comes from, one line each."""
    yield from _faults_of_pin("source", recipe.source)
    if isinstance(recipe.source, Sdist):
        yield from faults_of_text("source.version", recipe.source.version, SOURCE_PLACEHOLDERS)
    if isinstance(recipe.source, Archive):
        yield from faults_of_text("source.url", recipe.source.url, SOURCE_PLACEHOLDERS)


def faults_of_resources(recipe: Recipe) -> Iterator[str]:
    """What is wrong with what the build would otherwise download, one line each."""
    for resource in recipe.resources:
        yield from _faults_of_pin(f"resource {resource.name}: source", resource.source)
        if not stays_inside(resource.to):
            yield f'resource {resource.name}: to="{resource.to}" leads outside of the folder'
    paths = [PurePosixPath(resource.to) for resource in recipe.resources]
    for path, other in itertools.combinations(paths, 2):
        if path.is_relative_to(other) or other.is_relative_to(path):
            yield f'two resources overlap: to="{path}" and to="{other}"'


def stays_inside(to: str) -> bool:
    """Whether a path names something inside the folder that it starts from, by its words alone."""
    path = PurePosixPath(to)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _faults_of_pin(owner: str, source: Source) -> Iterator[str]:
    if isinstance(source, Folder):
        if not stays_inside(source.path):
            yield f'{owner}.path="{source.path}" has to name a folder inside the project'
        return
    is_commit = isinstance(source, GitCommit)
    if isinstance(source, GitCommit) and not re.fullmatch(r"[0-9a-f]{40}", source.commit):
        yield f"{owner}.commit has to have 40 hexadecimal digits"
    if not re.fullmatch(r"[0-9a-f]{64}", source.sha256) and (source.sha256 or not is_commit):
        yield f"{owner}.sha256 has to have 64 hexadecimal digits, letters small"
