"""Parts of generated pages: parsed docstrings, tables, the mark at the top."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MARK = "<!-- Written by `nox -s docs` from {source}; don't edit. -->"
_SECTIONS = ("Args:", "Attributes:", "Raises:", "Returns:", "Yields:")
_INDENT = 4  # columns, of an entry in a docstring's section


@dataclass(frozen=True, kw_only=True)
class Docstring:
    """A docstring taken apart.

    Attributes:
        text: all of it but its sections.
        entries: of the sections, name → text in one line.
    """

    text: str
    entries: Mapping[str, str]

    @property
    def summary(self) -> str:
        """Its first paragraph, in one line."""
        return " ".join(self.text.partition("\n\n")[0].split())


def read_docstring(owner: object) -> Docstring:
    """Take a docstring in Google's form apart."""
    text: list[str] = []
    entries: dict[str, str] = {}
    name, inside = "", False
    for line in inspect.cleandoc(owner.__doc__ or "").splitlines():
        depth = len(line) - len(line.lstrip())
        inside = line in _SECTIONS or (inside and (depth > 0 or not line))
        if not inside:
            text.append(line)
        elif depth == _INDENT:
            name, _, entries[name] = (part.strip() for part in line.partition(":"))
        elif depth > _INDENT:
            entries[name] += f" {line.strip()}"
    return Docstring(text="\n".join(text).strip(), entries=entries)


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; cells may hold `|`."""
    lines = [
        head,
        ["---"] * len(head),
        *([cell.replace("|", r"\|") for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and their meanings as a list: a table of two columns only adds bars to it."""
    return "\n".join(f"- {name}: {meaning}" for name, meaning in rows)


def page(parts: Iterable[str]) -> str:
    """Return paragraphs, tables and headings as a file."""
    return "\n\n".join(parts) + "\n"
