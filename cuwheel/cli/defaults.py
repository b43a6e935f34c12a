"""Defaults of options from the project's pyproject.toml and the user's file.

docs/reference/environment-variables.md describes both for users.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError, suggest
from cuwheel.base.paths import find_project
from cuwheel.base.project_trust import is_trusted
from cuwheel.base.system.regular_files import read_toml
from cuwheel.cli.parser import Parser

CONFIG_VARIABLE = "CUWHEEL_CONFIG"


class _Replaced(list[Any]):
    """A repeatable option's default, which values on the command line replace."""

    def __copy__(self) -> list[Any]:
        """Return what `argparse` appends to: it copies the default first."""
        return []


def apply_defaults(parser: Parser, command: str, known: Mapping[str, str], caller: Caller) -> str:
    """Make the values of both files the defaults of a parser's options; the project's count first.

    Args:
        known: all commands, each of which may have a table.

    Returns:
        What was set and from which file, for the user; empty where nothing was.

    Raises:
        UsageError: a file that is no TOML, or names what there isn't or what an option refuses.
    """
    origins: dict[str, str] = {}
    for path, tables in _read_files(caller):
        for name, table in tables.items():
            if name not in known or not isinstance(table, dict):
                raise _wrong(path, f"[{name}] is not a table of a command", suggest(name, known))
        for key, value in tables.get(command, {}).items():
            action = _action_of(parser, key, path, command)
            if f"--{key}" not in origins:
                parser.replace_default(action, _read(parser, action, value, path, command))
                origins[f"--{key}"] = caller.shown(path)
    files = dict.fromkeys(origins.values())
    return "; ".join(
        f"{', '.join(key for key, path in origins.items() if path == file)} from {file}"
        for file in files
    )


def _read_files(caller: Caller) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the files that there are, each with its tables by command, nearest first."""
    environ = caller.environ
    named = environ.get(CONFIG_VARIABLE)
    if named == "":
        return
    project = find_project()
    if project and is_trusted(project, environ):
        path = project / "pyproject.toml"
        yield path, _table(_table(_tables(path), "tool"), "cuwheel")
    folder = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - Path.expanduser raises
    path = caller.path(named) if named else Path(folder, "cuwheel", "config.toml")
    yield path, _tables(path, is_named=bool(named))


def _tables(path: Path, *, is_named: bool = False) -> dict[str, Any]:
    """Return a file's tables; none of a usual file that isn't there, or can't be opened."""
    try:
        return read_toml(path)
    except (OSError, ValueError) as problem:
        if isinstance(problem, OSError) and not is_named:
            return {}
        raise _wrong(path, f"can't be read: {problem}", "it has to be a TOML file") from problem


def _table(tables: dict[str, Any], name: str) -> dict[str, Any]:
    table = tables.get(name)
    return table if isinstance(table, dict) else {}


def _action_of(parser: Parser, key: str, path: Path, command: str) -> argparse.Action:
    """Return the option of a key."""
    options = {
        flag[2:]: action
        for action in parser.described
        for flag in action.option_strings
        if flag.startswith("--")
    }
    if key not in options:
        what = f"[{command}] has {key}, which is no option of `{command}`"
        raise _wrong(path, what, suggest(key, options))
    return options[key]


def _read(parser: Parser, action: argparse.Action, value: Any, path: Path, command: str) -> Any:
    """Return a value as the command line would give it."""
    what = f"[{command}] {action.option_strings[0][2:]}"  # a value may hold a password
    if action.nargs == 0:
        if isinstance(value, bool):
            return value
        raise _wrong(path, what, "it is a flag, which takes true or false")
    is_repeatable = isinstance(action.default, list | tuple)
    values = value if isinstance(value, list) and is_repeatable else [value]
    if not all(isinstance(item, str | int) and not isinstance(item, bool) for item in values):
        kind = "a text or a number" + (", or a list of them" if is_repeatable else "")
        raise _wrong(path, what, f"it takes {kind}")
    try:
        read = [parser.read_value(action, str(item)) for item in values]
    except UsageError as error:
        raise _wrong(path, what, error.what) from error
    return _Replaced(read) if is_repeatable else read[0]


def _wrong(path: Path, what: str, why: str) -> UsageError:
    return UsageError(
        f"{path}: {what}",
        why=why,
        fix=f"change the file, or set {CONFIG_VARIABLE}= to do without defaults of files",
    )
