"""Records as JSON, and back."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any

Artefact = typing.TypeVar("Artefact")


def to_json(artefact: Any) -> str:
    """A record as text; `from_json` gives it back."""
    return json.dumps(dataclasses.asdict(artefact), default=str, indent=2) + "\n"


def from_json(kind: type[Artefact], content: dict[str, Any]) -> Artefact:
    """A record again from what JSON made of it: its paths and tuples are restored."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _convert(hints[name], value) for name, value in content.items()})


def _convert(kind: Any, value: Any) -> Any:
    """Give a JSON value back the type of a record's field: paths, tuples and their nesting."""
    if value is None:
        return None
    if kind is Path:
        return Path(value)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
            return tuple(_convert(arguments[0], item) for item in value)
        return tuple(_convert(kind_, item) for kind_, item in zip(arguments, value, strict=True))
    if isinstance(kind, types.UnionType):
        return _convert(arguments[0], value)
    return value
