"""The session `mcp`."""

from __future__ import annotations

import argparse

from cuwheel.base.caller import Caller
from cuwheel.base.system.console import Console
from cuwheel.cli.parser import Parser, new_parser


def mcp_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "mcp",
        "Serve audit, diagnose, explain and pick to an assistant, by the Model Context Protocol "
        "on standard input and output, until the input ends.",
        {},
    )


def run_mcp(_args: argparse.Namespace, _console: Console, caller: Caller) -> None:
    """Serve until the input ends."""
    # What it needs is in envs/mcp.lock, and the options are read where that isn't installed.
    from cuwheel.cli.mcp_server import make_server  # noqa: PLC0415

    make_server(caller).run("stdio")
