"""Targets and workspaces for tests: sound by default, each changed only in what a test is about."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import rich.console

from cuwheel.console import Console
from cuwheel.recipe import Framework, Link, Recipe, Sdist, Setuptools, Smoke
from cuwheel.target import Target
from cuwheel.toolkits import toolkit_by_release
from cuwheel.workspace import Workspace

_RECIPE = Recipe(
    name="tiny-cuda",
    version="1.2.3",
    license="Apache-2.0",
    homepage="https://example.invalid/tiny-cuda",
    source=Sdist(project="tiny-cuda", version="1.2.3", sha256="0" * 64),
    toolkits=("13.0",),
    archs=("90",),
    build=Setuptools(),
    link=Link("cudart"),
    smoke=Smoke(imports=("tiny_cuda",)),
    maintainers=("someone",),
)


def make_recipe(**changes: Any) -> Recipe:
    """A small sound recipe with the given fields changed."""
    return dataclasses.replace(_RECIPE, **changes)


def make_target(  # noqa: PLR0913 - the fields of a target, each with a default
    *,
    toolkit: str = "13.0",
    python: str = "3.11",
    archs: tuple[str, ...] | None = None,
    provider: str = "pypi",
    root: Path | None = None,
    source_override: Path | None = None,
    **recipe: Any,
) -> Target:
    """A target of the small recipe; names that a target doesn't know change the recipe."""
    changed = make_recipe(**recipe)
    framework: Framework | None = changed.framework
    return Target(
        recipe=changed,
        toolkit=toolkit_by_release(toolkit),
        python=python,
        framework=framework,
        archs=changed.archs if archs is None else archs,
        provider=provider,
        root=root or Path("unused"),
        source_override=source_override,
    )


def make_space(folder: Path, **changes: Any) -> Workspace:
    """A workspace below `folder`; what its console says is collected for `heard`."""
    terminal = rich.console.Console(file=io.StringIO(), width=200)
    space = Workspace(
        cache=folder / "cache",
        work=folder / "work",
        dist=folder / "dist",
        console=Console(terminal),
    )
    return dataclasses.replace(space, **changes)


def heard(space: Workspace) -> str:
    """Everything that the workspace's console said so far."""
    stream = space.console.terminal.file
    if not isinstance(stream, io.StringIO):
        raise TypeError("only a workspace of make_space remembers what was said")
    return stream.getvalue()
