"""Recipes as files of a project."""

from __future__ import annotations

from pathlib import Path

_RECIPE = """
from cuwheel import Archive, Framework, Link, Recipe, Setuptools, Smoke, TorchExtension

RECIPE = Recipe(
    name="{name}",
    version="1.0",
    license="MIT",
    homepage="https://example.invalid",
    maintainers=("someone",),
    source=Archive(url="http://127.0.0.1:9/{name}-{{version}}.tar.gz", sha256="{hash}"),
    toolkits=("13.0",),
    archs=("90",),
    requires=("setuptools",),
    {more}
    smoke=Smoke(imports=("{name}",)),
)
"""


def write_recipe(
    project: Path, name: str, more: str = 'build=Setuptools(), link=Link("cudart"),'
) -> None:
    """Write a recipe of a package into a project; `more` are its build and other fields."""
    (project / "recipes").mkdir(parents=True, exist_ok=True)
    text = _RECIPE.format(name=name, hash="0" * 64, more=more)
    (project / "recipes" / f"{name}.py").write_text(text)
