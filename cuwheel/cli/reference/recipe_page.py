"""docs/reference/recipe.md: what a recipe can say."""

from __future__ import annotations

import inspect
import json
import typing
from typing import TYPE_CHECKING, Any

from cuwheel.cli.reference.pages import MARK, code, page, read_docstring, table
from cuwheel.model import link, recipe, source
from cuwheel.system.quantities import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterable


_RECIPE_INTRO = """\
Fields without a default are required. [CONTRIBUTING.md](../../CONTRIBUTING.md) walks through a
recipe from an empty file."""
_SOURCES = typing.get_args(source.Source)
_BUILDS = typing.get_args(recipe.Build)
_MODES = typing.get_args(link.Mode)
_DECLARATIONS = (
    recipe.Recipe,
    *_SOURCES,
    source.Resource,
    source.Patch,
    recipe.Framework,
    *_BUILDS,
    link.Link,
    *_MODES,
    recipe.Smoke,
    recipe.LibraryPerCuda,
)


def recipe_page() -> str:
    """The page."""
    parts = [
        "# What a recipe can say",
        MARK.format(source="the docstrings in cuwheel/model/recipe.py, source.py and link.py"),
        read_docstring(recipe).text,
        ". ".join(
            f"`{name}` is one of {_names(kinds)}"
            for name, kinds in (("Source", _SOURCES), ("Build", _BUILDS), ("Mode", _MODES))
        )
        + ".",
        _RECIPE_INTRO,
    ]
    for declaration in _DECLARATIONS:
        parts += [
            f"## {declaration.__name__}",
            read_docstring(declaration).text,
            _fields(declaration),
        ]
    return page(parts)


def _fields(declaration: type) -> str:
    meanings = read_docstring(declaration).entries
    rows = []
    for name, parameter in inspect.signature(declaration).parameters.items():
        star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        kind, default = code(str(parameter.annotation)), _default(parameter.default)
        rows.append((code(f"{star}{name}"), kind, default, meanings[name]))
    return table(("field", "type", "default", "meaning"), rows)


def _default(value: Any) -> str:
    """A default as a recipe's author would write it; sizes in the unit that gives a whole number.

    A field that takes any mapping starts with an empty one, from a factory.
    """
    if value is inspect.Parameter.empty:
        return ""
    if repr(value) == "<factory>":
        return code("{}")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value // MIB} MiB" if value % GIB else f"{value // GIB} GiB"
    return code(json.dumps(value) if isinstance(value, str) else repr(value))


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(f"[`{kind.__name__}`](#{kind.__name__.lower()})" for kind in kinds)
