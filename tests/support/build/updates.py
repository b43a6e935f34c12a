"""A project folder with a recipe whose upstream has a newer release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuwheel.build.recipe.catalogue import CatalogueEntry, find_recipe, load_catalogue
from tests.support.build.drafts import Index
from tests.support.build.patched_sources import SETUP, changed, make_diff

_RECIPE = """\
\"\"\"tiny-up: a package that moves on.\"\"\"

from cuwheel import {names}

RECIPE = Recipe(
    name="tiny-up",
    version="1.0",
    license="MIT",
    homepage="https://example.invalid/tiny-up",
    maintainers=("someone",),
    # Where it comes from.
    source=Sdist(
        project="tiny-up",
        sha256="{digest}",
    ),
    toolkits=("13.0",),
    archs=("90",),
{patches}    requires=("setuptools",),
    build=Setuptools(),
    link=Link("cudart"),
    smoke=Smoke(imports=("tiny_up",)),
)
"""


@dataclass(frozen=True, kw_only=True)
class Project:
    """The folder of a project."""

    root: Path

    @property
    def entry(self) -> CatalogueEntry:
        """The recipe, as it is now."""
        return find_recipe("tiny-up", load_catalogue([self.root]))

    @property
    def recipe(self) -> Path:
        """Its file."""
        return self.root / "recipes" / "tiny_up.py"

    @property
    def patches(self) -> Path:
        """Its patches."""
        return self.root / "patches" / "tiny_up"

    def files(self) -> dict[str, bytes]:
        """All of the project, by name."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}


def make_updated(folder: Path, index: Index, newer: bytes, *patched: int) -> Project:
    """Make a project with a recipe of a release 1.0; its setup.py is `newer` in 2.0.

    Args:
        folder: gets the project.
        index: gets the releases.
        newer: setup.py of 2.0.
        patched: for each patch, the line that it changes.
    """
    project = Project(root=folder / "project")
    project.patches.mkdir(parents=True)
    project.recipe.parent.mkdir()
    for number in patched:
        (folder / f"{number}").mkdir()
        diff = make_diff(folder / f"{number}")({"setup.py": SETUP}, {"setup.py": changed(number)})
        (project.patches / f"{number:04}-change.patch").write_bytes(b"Why: a test.\n\n" + diff)
    digest = index.add_sdist("tiny-up", "1.0", {"setup.py": SETUP.decode()})
    index.add_sdist("tiny-up", "2.0", {"setup.py": newer.decode()})
    lines = "".join(
        f'        Patch(file="{number:04}-change.patch", why="a test"),\n' for number in patched
    )
    names = (*("Link", *(["Patch"] if patched else [])), "Recipe", "Sdist", "Setuptools", "Smoke")
    project.recipe.write_text(
        _RECIPE.format(
            names=", ".join(names),
            digest=digest,
            patches=f"    patches=(\n{lines}    ),\n" if patched else "",
        )
    )
    return project
