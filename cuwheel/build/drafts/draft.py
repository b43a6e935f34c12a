"""A recipe's draft: fields with values, notes for its author, and the text of its module."""

from __future__ import annotations

import dataclasses
import json
import textwrap
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["stops the build", "find out", "guess"]

TORCH = "2.11.0"  # the release that was built with the toolkit of the other recipes
FIELDS = (  # in the recipe's order
    *("name", "version", "license", "homepage", "maintainers", "source", "toolkits", "archs"),
    *("python", "requires_python", "framework", "patches", "resources", "requires", "build"),
    *("link", "smoke", "memory_per_job"),
)
_KINDS = typing.get_args(Kind)
# What the author reads first: without it there is no wheel, then a wrong one, then a poor one.
_BY_CONSEQUENCE = (
    *("source", "framework", "toolkits", "requires", "resources", "build", "archs", "link"),
    *("smoke", "python", "requires_python", "license", "homepage", "maintainers"),
)
_WIDTH = 100  # columns
_STEP = 4


@dataclass(frozen=True, kw_only=True)
class Call:
    """A declaration inside a recipe, `Sdist(project="…")`."""

    name: str
    args: tuple[str, ...] = ()
    keywords: Mapping[str, Value] = dataclasses.field(default_factory=dict)


Value = str | tuple[str, ...] | Mapping[str, str] | Call


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A recipe's draft.

    Attributes:
        values: of the recipe's fields.
        notes: field, kind and text; a field may have notes alone: the recipe leaves it out.
    """

    name: str
    summary: str
    values: dict[str, Value] = dataclasses.field(default_factory=dict)
    notes: list[tuple[str, Kind, str]] = dataclasses.field(default_factory=list)

    @property
    def toolkit(self) -> str:
        """The CUDA release that it starts with, `13.0`."""
        toolkits = self.values["toolkits"]
        return toolkits[0] if isinstance(toolkits, tuple) else ""

    def stop(self, field: str, text: str) -> None:
        """Note what makes every build fail until the author has changed it."""
        self.notes.append((field, "stops the build", text))

    def notes_of(self, kind: Kind) -> list[str]:
        """Return the notes of a kind with their fields, those with the worst consequence first."""
        order = (*_BY_CONSEQUENCE, *FIELDS)
        notes = sorted(
            (note for note in self.notes if note[1] == kind), key=lambda note: order.index(note[0])
        )
        return [f"{field}: {text}" for field, _, text in notes]

    def guess(self, field: str, text: str) -> None:
        """Note on a value that the author should check."""
        self.notes.append((field, "guess", text))

    def find_out(self, field: str, text: str) -> None:
        """Note what no file states and the author has to find out."""
        self.notes.append((field, "find out", text))


def render_draft(draft: Draft) -> str:
    """Return the text of the module, in the form that `ruff format` gives."""
    names = {value.name for value in draft.values.values() if isinstance(value, Call)}
    imports = sorted({"Recipe", *names}, key=lambda name: (name.upper() != name, name))
    title = f'"""{draft.name}: {draft.summary.rstrip(".").replace(chr(34), chr(39))}."""'
    short = f'"""{draft.name}."""'
    lines = [title if len(title) <= _WIDTH and draft.summary else short, ""]
    lines += [f"from cuwheel import {', '.join(imports)}", "", "RECIPE = Recipe("]
    for name in FIELDS:
        lines += _render_field(draft, name)
    return "\n".join([*lines, ")", ""])


def _render_field(draft: Draft, field: str) -> Iterator[str]:
    margin = " " * _STEP
    notes = sorted(draft.notes, key=lambda note: _KINDS.index(note[1]))
    for _, kind, note in (note for note in notes if note[0] == field):
        yield from textwrap.wrap(
            f"{kind}: {note}",
            width=_WIDTH,
            initial_indent=f"{margin}# ",
            subsequent_indent=f"{margin}#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    if field in draft.values:
        yield f"{margin}{field}={_render(draft.values[field], _STEP, len(field) + 2)},"


def _render(value: Value, indent: int, taken: int) -> str:
    """Return a value on one line where it fits, else with one part a line, as ruff breaks it."""
    flat = _render_flat(value)
    if indent + taken + len(flat) <= _WIDTH or isinstance(value, str):
        return flat
    inner = indent + _STEP
    head, parts, tail = _parts(value, inner)
    lines = "".join(f"{' ' * inner}{part},\n" for part in parts)
    return f"{head}\n{lines}{' ' * indent}{tail}"


def _parts(
    value: tuple[str, ...] | Mapping[str, str] | Call, indent: int | None = None
) -> tuple[str, list[str], str]:
    """Return the parts of a value between its brackets; without an indent, each on one line."""
    if isinstance(value, Call):
        keywords = [
            f"{name}="
            + (_render_flat(part) if indent is None else _render(part, indent, len(name) + 2))
            for name, part in value.keywords.items()
        ]
        return f"{value.name}(", [*map(_quote, value.args), *keywords], ")"
    if isinstance(value, Mapping):
        return "{", [f"{_quote(key)}: {_quote(text)}" for key, text in value.items()], "}"
    return "(", [*map(_quote, value)], ")"


def _render_flat(value: Value) -> str:
    if isinstance(value, str):
        return _quote(value)
    head, parts, tail = _parts(value)
    comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
    return f"{head}{', '.join(parts)}{comma}{tail}"


def _quote(text: str) -> str:
    """Return a text in double quotes, unless that takes more backslashes."""
    plain = json.dumps(text, ensure_ascii=False)
    return repr(text) if '"' in text and "'" not in text else plain
