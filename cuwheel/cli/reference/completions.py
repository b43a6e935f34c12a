"""The shells' completion scripts, which shtab writes from the commands' options.

`nox -s completions` writes them, `cuwheel completion` prints them: making them imports all of the
engine, which takes too long for a shell's start.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from cuwheel.base.paths import ROOT
from cuwheel.base.spelling import ENTRY_VARIABLE, as_typed
from cuwheel.base.system.files import write_atomically
from cuwheel.build.recipe.nox_sessions import OF_CHECKOUT, VERBS
from cuwheel.cli.dispatch import COMMANDS, parser_of
from cuwheel.cli.parser import Parser

SHELLS = ("bash", "zsh", "fish")
FOLDER = ROOT / "cuwheel" / "cli" / "completions"

# Words of a `metavar`, by their completion.
_FILES = frozenset({"ARCHIVE", "FILE", "LOG", "PATH", "PROVENANCE", "STATEMENT", "WHEEL"})
_FOLDERS = frozenset({"DIR", "ENVIRONMENT"})
_NAMES_TARGETS = frozenset({"TARGET"})


def write_completions() -> tuple[Path, ...]:
    """Write the script of each shell; return the files."""
    scripts = {FOLDER / f"cuwheel.{shell}": completion_script(shell) for shell in SHELLS}
    for path, script in scripts.items():
        write_atomically(path, script)
    return tuple(scripts)


def completion_script(shell: str) -> str:
    """Return a shell's completion of commands, options, files, and the project's targets."""
    import shtab  # noqa: PLC0415 - of the environment `dev` alone

    os.environ[ENTRY_VARIABLE] = "cuwheel"
    root = argparse.ArgumentParser(prog="cuwheel", description="CUDA wheels from source")
    root.add_argument("--version", action="store_true", help="say which release this is")
    commands = root.add_subparsers(dest="command")
    summaries = {verb.name: verb.summary for verb in VERBS}
    for name in sorted(COMMANDS.keys() - OF_CHECKOUT):
        parser = parser_of(name)
        summary = as_typed(summaries.get(name) or parser.description or "")
        command = commands.add_parser(name, parents=[parser], add_help=False, help=summary)
        _describe(parser, targets=shtab.cmd("cuwheel help --targets"), kinds=shtab)
        command.description = summary
    script: str = shtab.complete(root, shell=shell)
    return script


def _describe(parser: Parser, *, targets: dict[str, Any], kinds: Any) -> None:
    """Set the completion of each argument."""
    for action in parser.described:
        action.help = as_typed(action.help or "")
        words = set(str(action.metavar or "").split("|"))
        if words & _NAMES_TARGETS:
            action.complete = targets  # type: ignore[attr-defined]
        elif words & _FILES:
            action.complete = kinds.FILE  # type: ignore[attr-defined]
        elif words & _FOLDERS:
            action.complete = kinds.DIRECTORY  # type: ignore[attr-defined]
