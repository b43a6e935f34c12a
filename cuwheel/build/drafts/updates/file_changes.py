"""Changes of a project's files: values of a recipe, and several files together or none."""

from __future__ import annotations

import ast
import contextlib
import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import CommandFailedError, RecipeError, UsageError
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import read_bytes, read_text

_PATCH_IMPORT = re.compile(
    r"^from cuwheel import [^\n(]*\n|^from cuwheel import \([^)]*\)\n", re.MULTILINE
)


def read_if_there(path: Path) -> bytes | None:
    """Return a file's content; None where there is none."""
    return read_bytes(path) if path.is_file() else None


def replace_files(changes: Mapping[Path, bytes | None]) -> None:
    """Write or remove files, each atomically.

    An error, Ctrl-C or SIGTERM in between puts the earlier ones back;
    a machine that loses power can leave some of them new.

    Args:
        changes: content by file; None: it is removed.

    Raises:
        OSError: one can't be written; all are as they were.
    """
    before = {path: read_if_there(path) for path in changes}
    touched: list[Path] = []
    try:
        for path, content in changes.items():
            touched.append(path)
            _put(path, content)
    except BaseException:
        for path in touched:
            with contextlib.suppress(OSError):
                _put(path, before[path])
        raise


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, content)


def diff_of(
    before: Mapping[Path, bytes | None], after: Mapping[Path, bytes | None], root: Path
) -> Iterator[str]:
    """Yield lines of a unified diff, as `git diff` would show the changes.

    Args:
        before: content by file; None: there was none.
        root: the folder that the names are relative to.
    """
    for path, new in after.items():
        name = path.relative_to(root).as_posix()
        old = before[path]
        yield from difflib.unified_diff(
            _lines(old),
            _lines(new),
            "/dev/null" if old is None else f"a/{name}",
            "/dev/null" if new is None else f"b/{name}",
            lineterm="",
        )


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines()


def refuse_uncommitted(paths: Iterable[Path], root: Path, environ: Mapping[str, str]) -> None:
    """Refuse to change files with uncommitted changes; outside a git repository do nothing.

    Raises:
        UsageError: one has such changes; the message names all.
    """
    env = {name: environ[name] for name in ("HOME", "PATH") if name in environ}
    env |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    names = [path.relative_to(root).as_posix() for path in paths]
    try:
        command = ("git", "-C", str(root), "status", "--porcelain", "--", *names)
        output = run(command, env=env, timeout=limits.GIT).output
    except CommandFailedError:
        return
    if output.strip():
        raise UsageError(
            "files that would be changed have changes that aren't committed",
            why="\n".join(line.strip() for line in output.splitlines()),
            fix="commit them (`git commit`) or stash them (`git stash`), so that the change can "
            "be reviewed separately; `--uncommitted` keeps them as they are",
        )


def edit_recipe(path: Path, values: Mapping[str, str], without: Collection[str] = ()) -> str:
    """Return a recipe's text with other values; comments and layout stay as they are.

    Args:
        values: new texts of fields, `version` and `source.sha256`.
        without: names of patches to take out of `patches`.

    Raises:
        RecipeError: a value isn't a string literal.
    """
    text = read_text(path, limit=limits.PYTHON)
    for field, value in values.items():
        text = _replace(text, field, value, path)
    for name in without:
        text = _without_patch(text, name, path)
    return text


def _replace(text: str, field: str, value: str, path: Path) -> str:
    node: ast.expr | None = recipe_call(text, path)
    for name in field.split("."):
        keywords = node.keywords if isinstance(node, ast.Call) else []
        node = next((keyword.value for keyword in keywords if keyword.arg == name), None)
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        raise RecipeError(
            f"{field} in {path.name} can't be replaced",
            why="it isn't written as one string literal",
            fix=f'write {field}="…" there, or make this change manually',
        )
    start, end = span_of(text, node)
    return text[:start] + json.dumps(value) + text[end:]


def _without_patch(text: str, name: str, path: Path) -> str:
    """Take a patch out, with the comment above it; with the last one, the field and its import."""
    keywords = recipe_call(text, path).keywords
    field = next((keyword for keyword in keywords if keyword.arg == "patches"), None)
    patches = field.value.elts if field and isinstance(field.value, ast.Tuple) else []
    for patch in patches:
        start, end = span_of(text, patch)
        if f'file="{name}"' in text[start:end]:
            break
    else:
        raise RecipeError(
            f"{path.name} names {name} in a way that can't be edited",
            why=f'no Patch(file="{name}", …) stands in `patches`',
            fix="remove it manually",
        )
    if field is None or len(patches) > 1:
        return _cut(text, start, end)
    text = _cut(text, *span_of(text, field))
    return text if "Patch(" in text else _PATCH_IMPORT.sub(_without_name, text, count=1)


def _without_name(statement: re.Match[str]) -> str:
    pattern = r"^\s*Patch,\n|\bPatch, |, Patch\b"
    return re.sub(pattern, "", statement[0], count=1, flags=re.MULTILINE)


def _cut(text: str, start: int, end: int) -> str:
    """Remove a part of a call or tuple: its whole lines if nothing else is on them."""
    begin = text.rindex("\n", 0, start) + 1
    rest = re.compile(r",?[ \t]*(#[^\n]*)?\n").match(text, end)
    if text[begin:start].strip() or rest is None:
        comma = re.compile(r",[ \t]*").match(text, end)
        return text[:start] + text[comma.end() if comma else end :]
    while text[(line := text.rfind("\n", 0, begin - 1) + 1) : begin].lstrip().startswith("#"):
        begin = line
    return text[:begin] + text[rest.end() :]


def recipe_call(text: str, path: Path) -> ast.Call:
    """Return the syntax tree of a text's `RECIPE = Recipe(...)`.

    Raises:
        RecipeError: there is none.
    """
    for node in ast.parse(text).body:
        if (
            isinstance(node, ast.Assign)
            and any(isinstance(name, ast.Name) and name.id == "RECIPE" for name in node.targets)
            and isinstance(node.value, ast.Call)
        ):
            return node.value
    raise RecipeError(
        f"{path.name} can't be edited",
        why="it contains no `RECIPE = Recipe(...)`",
        fix="write it like the other recipes",
    )


def span_of(text: str, node: ast.expr | ast.keyword) -> tuple[int, int]:
    """Return where a node begins and ends in a text; its columns count bytes of UTF-8."""
    lines = text.splitlines(keepends=True)

    def offset(line: int | None, column: int | None) -> int:
        before = sum(map(len, lines[: (line or 1) - 1]))
        return before + len(lines[(line or 1) - 1].encode()[:column].decode())

    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
