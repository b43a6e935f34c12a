"""Table of the commands and their modules, each imported only when its command is run."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cuwheel.base.caller import read_caller
from cuwheel.base.errors import UsageError, suggest
from cuwheel.base.spelling import as_typed
from cuwheel.cli.defaults import apply_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cuwheel.base.caller import Caller
    from cuwheel.base.system.console import Console
    from cuwheel.cli.parser import Parser


# Module in `commands/` of each command. nox's sessions are in cuwheel/build/recipe/nox_sessions.py.
_SAME = (
    *("attestations", "audit", "build", "diagnose", "explain", "get", "install", "matrix"),
    *("mcp", "nightly", "perf", "pick", "slim", "verify"),
)
_MAINTAIN = ("cache", "index", "mirror", "release")
COMMANDS = {
    **{name: name for name in _SAME},
    **{name: f"maintain.{name}" for name in _MAINTAIN},
    **dict.fromkeys(("profile", "smoke"), "build"),
    "rebuild": "verify",
    "day-zero": "maintain.day_zero",
    "toolchain": "maintain.mirror",
    **dict.fromkeys(
        ("bump", "lock", "lock-check", "lock-verify", "new", "outdated"), "maintain.pins"
    ),
    **dict.fromkeys(
        ("completions", "docs", "package", "site", "torch-symbols"), "maintain.checkout"
    ),
    **dict.fromkeys(("completion", "help", "init", "trust"), "project"),
}

_TARGET = re.compile(r"^[^-].*-\d{3}$")


def run_command(
    name: str, arguments: Sequence[str], console: Console, caller: Caller | None = None
) -> int:
    """Run one command with the arguments after `--`; return the exit code.

    Args:
        caller: None: this process's, read now.
    """
    parser = parser_of(name)
    if name == "build":  # the session's name has the target, its arguments the recipe
        target = next((argument for argument in arguments[:1] if _TARGET.search(argument)), "")
        parser.prog = as_typed(f"nox -s build-{target} --" if target else "nox -s build --")
    caller = caller or read_caller()
    defaults = apply_defaults(parser, name, COMMANDS, caller)
    args = parser.parse(arguments)
    console.is_quiet = getattr(args, "quiet", False)
    console.is_verbose = getattr(args, "verbose", False)
    if defaults and not getattr(args, "json", False):
        console.note(f"defaults: {defaults}")
    return _find(name, "run_{}")(args, console, caller) or 0


def parser_of(name: str) -> Parser:
    """Return the parser of a command."""
    parser: Parser = _find(name, "{}_parser")()
    return parser


def _find(name: str, form: str) -> Callable[..., Any]:
    if name not in COMMANDS:
        raise UsageError(
            f'there is no command "{name}"',
            why=suggest(name, COMMANDS),
            fix="`nox -l` lists what it can do",
        )
    module = import_module(f"cuwheel.cli.commands.{COMMANDS[name]}")
    function: Callable[..., Any] = getattr(module, form.format(name.replace("-", "_")))
    return function
