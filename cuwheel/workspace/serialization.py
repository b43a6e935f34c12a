"""Records as JSON, and back: whole, or not at all."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.system.regular_files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

# What JSON has for a type.
_PLAIN: Mapping[Any, Any] = {Path: str, float: int | float, bool: bool, int: int, str: str}
Artefact = typing.TypeVar("Artefact")


def to_json(artefact: Any) -> str:
    """A record as text; `from_json` gives it back."""
    return json.dumps(dataclasses.asdict(artefact), default=str, indent=2) + "\n"


def read_record(path: Path, kind: type[Artefact]) -> Artefact | None:
    """The record that a file holds; None where it holds none of this kind, as for `read_json`."""
    content = read_json(path)
    try:
        return None if content is None else from_json(kind, content)
    except ValueError:
        return None


def from_json(kind: type[Artefact], content: Mapping[str, Any]) -> Artefact:
    """A record again from what JSON made of it: its paths and tuples are restored.

    Raises:
        ValueError: a field is missing, unknown or of another type.
    """
    hints = typing.get_type_hints(kind)
    try:
        fields = {name: _convert(hints[name], value) for name, value in content.items()}
        return kind(**fields)
    except (AttributeError, KeyError, TypeError) as problem:
        raise ValueError(f"not a {kind.__name__}: {problem}") from problem


def _convert(kind: Any, value: Any) -> Any:
    """Give a JSON value back the type of a record's field: paths, tuples and their nesting.

    Raises:
        TypeError: it is of another type.
        ValueError: it has more or fewer parts.
    """
    arguments = typing.get_args(kind)
    if isinstance(kind, types.UnionType):
        return None if value is None else _convert(arguments[0], value)
    if typing.get_origin(kind) is tuple:
        _check(value, list)
        if len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
            return tuple(_convert(arguments[0], item) for item in value)
        return tuple(_convert(kind_, item) for kind_, item in zip(arguments, value, strict=True))
    if kind in _PLAIN:
        return kind(_check(value, _PLAIN[kind]))
    return value


def _check(value: Any, kind: Any) -> Any:
    is_number = isinstance(value, bool) and kind is not bool  # to Python True is an int
    if is_number or not isinstance(value, kind):
        raise TypeError(f"{value!r} is not a {kind}")
    return value
