"""`cuwheel completion`: what makes a shell complete commands, options and targets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from cuwheel.system.console import Console

_SCRIPTS = Path(__file__).parents[2] / "completions"  # cli/reference/completions writes them
_HOW = """how to use it:
  bash  cuwheel completion bash > ~/.local/share/bash-completion/completions/cuwheel
  zsh   cuwheel completion zsh > "${fpath[1]}/_cuwheel", before `compinit`
  fish  cuwheel completion fish > ~/.config/fish/completions/cuwheel.fish"""


def completion_parser() -> Parser:
    """The command line of the command."""
    parser = new_parser(
        "completion", "Print the shell completion of commands, options and targets."
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _HOW
    return parser


def run_completion(given: argparse.Namespace, _console: Console) -> None:
    """Print the script of a shell."""
    print(read_text(_SCRIPTS / f"cuwheel.{given.shell}"), end="")  # noqa: T201 - that's the answer
