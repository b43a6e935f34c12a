"""Which module has which command; only the one that is asked for gets imported."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cuwheel.cli.report_options import set_amount
from cuwheel.errors import UsageError, suggest
from cuwheel.spelling import as_typed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cuwheel.cli.parser import Parser
    from cuwheel.system.console import Console


# Command → module in `commands/`, in the folder of its session's tag. nox's sessions are in
# cuwheel/model/nox_sessions.py.
COMMANDS = {
    "attestations": "report.attestations",
    "audit": "report.audit",
    "build": "build.build",
    "bump": "maintain.updates",
    "cache": "maintain.cache",
    "completion": "own.completion",
    "diagnose": "report.diagnose",
    "docs": "maintain.docs",
    "explain": "report.explain",
    "help": "own.help",
    "index": "maintain.index",
    "init": "own.init",
    "install": "target.install",
    "lock": "maintain.lock",
    "lock-check": "maintain.lock",
    "lock-verify": "maintain.lock",
    "matrix": "build.matrix",
    "mirror": "maintain.mirror",
    "new": "maintain.new",
    "nightly": "build.nightly",
    "outdated": "maintain.updates",
    "perf": "target.perf",
    "pick": "report.pick",
    "profile": "target.profile",
    "rebuild": "target.rebuild",
    "release": "maintain.release",
    "smoke": "target.smoke",
    "toolchain": "maintain.toolchain",
    "torch-symbols": "maintain.torch_symbols",
    "verify": "target.verify",
}


_TARGET = re.compile(r"^[^-].*-\d{3}$")


def run_command(name: str, arguments: Sequence[str], console: Console) -> int:
    """Run one command.

    Args:
        name: of the command.
        arguments: what stands behind `--`.
        console: shows how it goes.

    Returns:
        The exit code.

    Raises:
        UsageError: there is no such command, or it doesn't understand its arguments.
        CuwheelError: of the command.
    """
    parser = parser_of(name)
    if name == "build":  # its target stands in the session's name, a recipe behind it
        target = next((one for one in arguments[:1] if _TARGET.search(one)), "")
        parser.prog = as_typed(f"nox -s build-{target} --" if target else "nox -s build --")
    given = parser.parse(arguments)
    set_amount(given, console)
    return _find(name, "run_{}")(given, console) or 0


def parser_of(name: str) -> Parser:
    """What a command understands.

    Raises:
        UsageError: there is no such command.
    """
    made: Parser = _find(name, "{}_parser")()
    return made


def _find(name: str, form: str) -> Callable[..., Any]:
    if name not in COMMANDS:
        raise UsageError(
            f'there is no command "{name}"',
            why=suggest(name, COMMANDS),
            fix="start it through nox: `nox -l` lists the sessions",
        )
    module = import_module(f"cuwheel.cli.commands.{COMMANDS[name]}")
    found: Callable[..., Any] = getattr(module, form.format(name.replace("-", "_")))
    return found
