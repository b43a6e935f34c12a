"""A recipe that is being drafted: its fields as values, with what is to be said about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Sort = Literal["guess", "find out"]


@dataclass(frozen=True, kw_only=True)
class Note:
    """A sentence about a field of a draft, for its author.

    Attributes:
        sort: `guess`: why the value stands there, to be checked; `find out`: what no source says.
        text: with the file and line that it was read from.
    """

    sort: Sort
    text: str

    def __str__(self) -> str:
        """As it stands in the draft."""
        return f"{self.sort}: {self.text}"


@dataclass(frozen=True, kw_only=True)
class Call:
    """A declaration inside a recipe, `Sdist(project="…")`.

    Attributes:
        name: of its class.
        words: what stands without a name.
        given: its fields.
    """

    name: str
    words: tuple[str, ...] = ()
    given: Mapping[str, Value] = field(default_factory=dict)


Value = str | tuple[str, ...] | Mapping[str, str] | Call


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of the recipe.

    Attributes:
        name: of it.
        value: None: the recipe leaves it out, and only the notes stand at its place.
        notes: what is to be said about it.
    """

    name: str
    value: Value | None
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A recipe's draft.

    Attributes:
        name: the recipe's.
        summary: one line about the package.
        fields: in the recipe's order.
    """

    name: str
    summary: str
    fields: tuple[Field, ...]

    @property
    def module(self) -> str:
        """Its file below the project folder."""
        return f"recipes/{self.name.replace('-', '_')}.py"

    def notes(self, sort: Sort) -> tuple[tuple[str, str], ...]:
        """Field and text of each note of a sort."""
        return tuple(
            (one.name, note.text) for one in self.fields for note in one.notes if note.sort == sort
        )


def guess(text: str) -> Note:
    """A note on a value that should be checked."""
    return Note(sort="guess", text=text)


def find_out(text: str) -> Note:
    """A note on what its author has to find out."""
    return Note(sort="find out", text=text)
