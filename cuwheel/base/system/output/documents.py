"""Documents for programs: the output of `--json`, and reports as files.

A document is a frozen dataclass with a `SCHEMA`. docs/reference/schemas/ holds a JSON schema of
each, written from its fields and their types.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from cuwheel.base.errors import CuwheelError


@dataclass(frozen=True)
class Schema:
    """Name and version of a document's form.

    Attributes:
        name: `schema` in each document.
        version: `schema_version`, `1.0`: the second number is raised where something is added, the
            first where a reader of an earlier one may fail.
    """

    name: str
    version: str

    @property
    def major(self) -> str:
        """`1` of 1.0."""
        return self.version.partition(".")[0]

    def take_from(self, content: dict[str, Any]) -> None:
        """Remove name and version of the form from a document, and check them.

        Raises:
            KeyError: it names none.
            ValueError: it has another form, which this one's reader can't read.
        """
        name, version = content.pop("schema"), str(content.pop("schema_version"))
        if (name, version.partition(".")[0]) != (self.name, self.major):
            raise ValueError(f"its schema is {name} {version}, not {self.name} {self.version}")


class Document(Protocol):
    """Dataclass whose fields JSON can hold; paths become texts."""

    SCHEMA: ClassVar[Schema]
    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ErrorDocument:
    """What `--json` prints if a command fails before it has a result.

    Attributes:
        what: the fact.
        why: its cause; may be empty.
        fix: what to do.
        more: the entry with details, `TROUBLESHOOTING.md#recipe`.
        exit_code: of the command.
    """

    SCHEMA: ClassVar[Schema] = Schema("error", "1.0")

    what: str
    why: str
    fix: str
    more: str
    exit_code: int

    @classmethod
    def of(cls, error: CuwheelError) -> ErrorDocument:
        """Return an error as a document."""
        return cls(
            what=error.what,
            why=error.why,
            fix=error.fix,
            more=f"TROUBLESHOOTING.md#{error.anchor}",
            exit_code=error.exit_code,
        )


def as_data(document: Document) -> dict[str, Any]:
    """Return a document as JSON has it: which schema, then its fields."""
    schema = document.SCHEMA
    return {"schema": schema.name, "schema_version": schema.version, **asdict(document)}


def as_line(document: Document) -> str:
    """Return a document as JSON in one line.

    Raises:
        TypeError: it holds a value that has no form in JSON.
        ValueError: it holds a number that is none.
    """
    return json.dumps(as_data(document), default=_as_text, allow_nan=False)


def as_file(document: Document) -> str:
    """Return a document as a file that people read, too; raises as `as_line`."""
    return json.dumps(as_data(document), default=_as_text, allow_nan=False, indent=1) + "\n"


def _as_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} has no form in JSON")
