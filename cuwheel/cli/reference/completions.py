"""The shells' completion scripts, which shtab writes from the commands' options.

`nox -s completions` writes them, `cuwheel completion` prints them: what they are made from needs
all of the engine, and a person's shell shouldn't wait for that.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from cuwheel.cli.dispatch import COMMANDS, parser_of
from cuwheel.model.nox_sessions import OF_CHECKOUT, VERBS
from cuwheel.paths import ROOT
from cuwheel.spelling import ENTRY_VARIABLE, as_typed
from cuwheel.system.files import write_atomically

if TYPE_CHECKING:
    from cuwheel.cli.parser import Parser

SHELLS = ("bash", "zsh", "fish")
FOLDER = ROOT / "cuwheel" / "cli" / "completions"

# What a word of a `metavar` is completed to.
_FILES = frozenset({"ARCHIVE", "FILE", "LOG", "PATH", "PROVENANCE", "STATEMENT", "WHEEL"})
_FOLDERS = frozenset({"DIR", "ENVIRONMENT"})
_NAMES_TARGETS = frozenset({"TARGET"})


def write_completions() -> None:
    """Write the script of each shell.

    Raises:
        OSError: the folder can't be written.
    """
    for shell in SHELLS:
        write_atomically(FOLDER / f"cuwheel.{shell}", completion_script(shell))


def completion_script(shell: str) -> str:
    """What makes a shell complete commands, options, files, and targets of the project."""
    import shtab  # noqa: PLC0415 - of the environment `dev` alone

    os.environ[ENTRY_VARIABLE] = "cuwheel"
    root = argparse.ArgumentParser(prog="cuwheel", description="CUDA wheels from source")
    root.add_argument("--version", action="store_true", help="say which release this is")
    commands = root.add_subparsers(dest="command")
    summaries = {one.name: one.summary for one in VERBS}
    for name in sorted(COMMANDS.keys() - OF_CHECKOUT):
        parser = parser_of(name)
        said = as_typed(summaries.get(name) or parser.description or "")
        made = commands.add_parser(name, parents=[parser], add_help=False, help=said)
        _describe(parser, targets=shtab.cmd("cuwheel help --targets"), kinds=shtab)
        made.description = said
    script: str = shtab.complete(root, shell=shell)
    return script


def _describe(parser: Parser, *, targets: dict[str, Any], kinds: Any) -> None:
    """Say of each argument what it is completed to."""
    for action in parser.described:
        action.help = as_typed(action.help or "")
        words = set(str(action.metavar or "").split("|"))
        if words & _NAMES_TARGETS:
            action.complete = targets  # type: ignore[attr-defined]
        elif words & _FILES:
            action.complete = kinds.FILE  # type: ignore[attr-defined]
        elif words & _FOLDERS:
            action.complete = kinds.DIRECTORY  # type: ignore[attr-defined]


if __name__ == "__main__":
    write_completions()
