"""A draft as a recipe's module, in the form that `ruff format` gives."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cuwheel.drafts.draft import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.drafts.draft import Draft, Field, Value

_WIDTH = 100  # columns
_STEP = 4


def render_draft(draft: Draft) -> str:
    """The text of the module."""
    calls = sorted({"Recipe", *_names(draft)}, key=lambda name: (name.upper() != name, name))
    title = f'"""{draft.name}: {draft.summary.rstrip(".").replace(chr(34), chr(39))}."""'
    short = f'"""{draft.name}."""'
    lines = [title if len(title) <= _WIDTH and draft.summary else short, ""]
    lines += [f"from cuwheel import {', '.join(calls)}", "", "RECIPE = Recipe("]
    for field in draft.fields:
        lines += _field(field)
    return "\n".join([*lines, ")", ""])


def _names(draft: Draft) -> Iterator[str]:
    for field in draft.fields:
        if isinstance(field.value, Call):
            yield field.value.name


def _field(field: Field) -> Iterator[str]:
    margin = " " * _STEP
    for note in field.notes:
        yield from textwrap.wrap(
            str(note),
            width=_WIDTH,
            initial_indent=f"{margin}# ",
            subsequent_indent=f"{margin}#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    if field.value is not None:
        yield f"{margin}{field.name}={_shown(field.value, _STEP, len(field.name) + 2)},"


def _shown(value: Value, indent: int, taken: int) -> str:
    """A value on one line where it fits, else with one part a line, as black and ruff break it."""
    flat = _flat(value)
    if indent + taken + len(flat) <= _WIDTH or isinstance(value, str):
        return flat
    inner, margin = indent + _STEP, " " * (indent + _STEP)
    if isinstance(value, Call):
        parts = [json.dumps(word) for word in value.words]
        parts += [
            f"{name}={_shown(one, inner, len(name) + 2)}" for name, one in value.given.items()
        ]
        head, tail = f"{value.name}(", ")"
    elif isinstance(value, Mapping):
        parts = [f"{_text(key)}: {_text(one)}" for key, one in value.items()]
        head, tail = "{", "}"
    else:
        parts, head, tail = [_text(one) for one in value], "(", ")"
    if isinstance(value, Call) and len(parts) == 1 and value.words == ():
        together = f"{head}{_flat_given(value)}{tail}"
        if indent + taken + len(together) <= _WIDTH:
            return together
    lines = "".join(f"{margin}{part},\n" for part in parts)
    return f"{head}\n{lines}{' ' * indent}{tail}"


def _flat(value: Value) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Call):
        return f"{value.name}({_flat_given(value)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_text(one)}" for key, one in value.items()) + "}"
    return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"


def _flat_given(call: Call) -> str:
    words = [_text(word) for word in call.words]
    return ", ".join([*words, *(f"{name}={_flat(one)}" for name, one in call.given.items())])


def _text(text: str) -> str:
    """A text in double quotes, unless that takes more backslashes."""
    plain = json.dumps(text, ensure_ascii=False)
    return repr(text) if '"' in text and "'" not in text else plain
