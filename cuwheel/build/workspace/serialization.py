"""The conversion of records to JSON and back: a damaged record is none."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cuwheel.base.system.regular_files import read_json

# JSON's type for each type of a field.
_PLAIN: Mapping[Any, Any] = {Path: str, float: int | float, bool: bool, int: int, str: str}
Artefact = typing.TypeVar("Artefact")


def to_json(artefact: Any) -> str:
    """Return a record as text, which `from_json` converts back."""
    return json.dumps(dataclasses.asdict(artefact), default=str, indent=2) + "\n"


def read_record(path: Path, kind: type[Artefact]) -> Artefact | None:
    """Read the record in a file; None where it holds none of this kind, as for `read_json`."""
    content = read_json(path)
    try:
        return None if content is None else from_json(kind, content)
    except ValueError:
        return None


def from_json(
    kind: type[Artefact], content: Mapping[str, Any], *, skips_unknown: bool = False
) -> Artefact:
    """Return the record that `to_json` has written, with its paths, tuples and records.

    Args:
        skips_unknown: leave out unknown fields: a later cuwheel may have added them.

    Raises:
        ValueError: a field is missing, unknown or of another type.
    """
    hints = typing.get_type_hints(kind)
    try:
        fields = {
            name: _convert(hints[name], value, skips_unknown=skips_unknown)
            for name, value in content.items()
            if name in hints or not skips_unknown
        }
        return kind(**fields)
    except (AttributeError, KeyError, TypeError) as problem:
        raise ValueError(f"not a {kind.__name__}: {problem}") from problem


def _convert(kind: Any, value: Any, *, skips_unknown: bool) -> Any:
    """Convert a JSON value to the type of a record's field.

    Raises:
        TypeError: it is of another type.
        ValueError: it has more or fewer parts.
    """
    arguments, origin = typing.get_args(kind), typing.get_origin(kind)
    convert = partial(_convert, skips_unknown=skips_unknown)
    if isinstance(kind, types.UnionType):
        return None if value is None else convert(arguments[0], value)
    if origin is tuple:
        _check(value, list)
        if len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
            return tuple(convert(arguments[0], item) for item in value)
        return tuple(convert(kind_, item) for kind_, item in zip(arguments, value, strict=True))
    if origin is dict:
        return {name: convert(arguments[1], item) for name, item in _check(value, dict).items()}
    if origin is typing.Literal and value not in arguments:
        raise TypeError(f"{value!r} is none of {arguments}")
    if dataclasses.is_dataclass(kind):
        content = _check(value, dict)
        return from_json(typing.cast("type[Any]", kind), content, skips_unknown=skips_unknown)
    return kind(_check(value, _PLAIN[kind])) if kind in _PLAIN else value


def _check(value: Any, kind: Any) -> Any:
    is_number = isinstance(value, bool) and kind is not bool  # to Python True is an int
    if is_number or not isinstance(value, kind):
        raise TypeError(f"{value!r} is not a {kind}")
    return value
