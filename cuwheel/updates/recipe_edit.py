"""Change single values in a recipe's file: comments, layout and everything else stay."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.errors import RecipeError
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_PATCH_IMPORT = re.compile(
    r"^from cuwheel import [^\n(]*\n|^from cuwheel import \([^)]*\)\n", re.MULTILINE
)


def edit_recipe(path: Path, values: Mapping[str, str], without: Collection[str] = ()) -> str:
    """Give a recipe's text with other values.

    Args:
        path: its file.
        values: new texts, by where they stand: `version`, `source.sha256`.
        without: names of patches to take out of `patches`.

    Raises:
        RecipeError: a value isn't a plain text there, so nobody knows what to replace.
    """
    text = read_text(path, limit=limits.PYTHON)
    for place, value in values.items():
        text = _replace(text, place, value, path)
    for name in without:
        text = _without_patch(text, name, path)
    return text


def _replace(text: str, place: str, value: str, path: Path) -> str:
    node: ast.expr = _recipe_of(text, path)
    for name in place.split("."):
        given = node.keywords if isinstance(node, ast.Call) else []
        node = next((one.value for one in given if one.arg == name), ast.Constant(value=None))
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        raise RecipeError(
            f"{place} in {path.name} can't be replaced",
            why="it isn't written as one string literal",
            fix=f'write {place}="…" there, or make this change manually',
        )
    start, end = _span(text, node)
    return text[:start] + json.dumps(value) + text[end:]


def _without_patch(text: str, name: str, path: Path) -> str:
    """Take a patch out, with the comment above it; with the last one, the field and its import."""
    field = next((one for one in _recipe_of(text, path).keywords if one.arg == "patches"), None)
    parts = field.value.elts if field and isinstance(field.value, ast.Tuple) else []
    found = [part for part in parts if f'file="{name}"' in _source(text, part)]
    if not found or field is None:
        raise RecipeError(
            f"{path.name} names {name} in a way that can't be edited",
            why=f'no Patch(file="{name}", …) stands in `patches`',
            fix="remove it manually",
        )
    if len(parts) == 1:
        start, end = _span(text, field)
        text = _cut(text, start, end)
        return text if "Patch(" in text else _without_import(text)
    start, end = _span(text, found[0])
    return _cut(text, start, end)


def _cut(text: str, start: int, end: int) -> str:
    """Remove a part of a call or tuple: its whole lines where it stands alone on them."""
    begin = text.rindex("\n", 0, start) + 1
    behind = re.compile(r",?[ \t]*(#[^\n]*)?\n").match(text, end)
    if text[begin:start].strip() or behind is None:
        comma = re.compile(r",[ \t]*").match(text, end)
        return text[:start] + text[comma.end() if comma else end :]
    while _is_comment(text[(line := text.rfind("\n", 0, begin - 1) + 1) : begin]):
        begin = line
    return text[:begin] + text[behind.end() :]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _without_import(text: str) -> str:
    def shorter(found: re.Match[str]) -> str:
        return re.sub(
            r"^\s*Patch,\n|\bPatch, |, Patch\b", "", found[0], count=1, flags=re.MULTILINE
        )

    return _PATCH_IMPORT.sub(shorter, text, count=1)


def _recipe_of(text: str, path: Path) -> ast.Call:
    for node in ast.parse(text).body:
        named = node.targets if isinstance(node, ast.Assign) else []
        is_recipe = any(isinstance(one, ast.Name) and one.id == "RECIPE" for one in named)
        if is_recipe and isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            return node.value
    raise RecipeError(
        f"{path.name} can't be edited",
        why="it contains no `RECIPE = Recipe(...)`",
        fix="write it like the other recipes",
    )


def _source(text: str, node: ast.AST) -> str:
    start, end = _span(text, node)
    return text[start:end]


def _span(text: str, node: ast.AST) -> tuple[int, int]:
    """Where a node begins and ends; its columns count bytes of UTF-8."""
    lines = text.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        before = sum(map(len, lines[: line - 1]))
        return before + len(lines[line - 1].encode()[:column].decode())

    given = vars(node)
    return (
        offset(given["lineno"], given["col_offset"]),
        offset(given["end_lineno"], given["end_col_offset"]),
    )
