"""The session `toolchain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser, refuse_none
from cuwheel.cli.target_options import PROVIDER_HELP, PROVIDERS
from cuwheel.cuda.toolkits import TOOLKITS, toolkit_by_release
from cuwheel.toolchains.provide import provide_toolchain
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console


def toolchain_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser("toolchain", "Make CUDA toolchains and print their folders.")
    add = parser.add_argument
    add("toolkits", nargs="*", metavar="130", help="CUDA releases, as in target names")
    add("--toolchain", choices=PROVIDERS, help=PROVIDER_HELP)
    add("--offline", action="store_true", help="download nothing")
    return parser


def run_toolchain(given: argparse.Namespace, console: Console) -> None:
    """Make toolchains."""
    refuse_none("toolchain", "toolkit", given.toolkits, [one.tag for one in TOOLKITS])
    toolkits = [toolkit_by_release(name) for name in given.toolkits]
    workspace = bare_workspace(console)
    for toolkit in toolkits:
        provider = given.toolchain or toolkit.provider
        with console.stage("toolchain"):
            made = provide_toolchain(
                toolkit, provider, workspace, offline=given.offline, reads_all=True
            )
        console.print_durations()
        print(made.home)  # noqa: T201 - data, for scripts
