"""The session `new`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser
from cuwheel.cli.parser import new_parser as make_parser
from cuwheel.drafts.session import DraftOptions, draft_recipe
from cuwheel.model.catalogue import load_catalogue
from cuwheel.paths import project_roots
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console


def new_parser() -> Parser:
    """The command line of the session."""
    parser = make_parser("new", "Draft a recipe from a package's source on the package index.")
    add = parser.add_argument
    add("name", metavar="NAME", help="the project's name on the index, such as torch-scatter")
    add("--version", metavar="V", help="the release; default: the newest one with an sdist")
    add("--maintainer", default="", metavar="HANDLE", help="your GitHub handle")
    add(
        "--overwrite",
        action="store_true",
        help="replace an existing recipe of this name",
    )
    return parser


def run_new(given: argparse.Namespace, console: Console) -> None:
    """Draft a recipe into the first project folder."""
    roots = project_roots()
    options = DraftOptions(
        project=given.name,
        version=given.version or "",
        maintainer=given.maintainer,
        overwrites=given.overwrite,
    )
    draft_recipe(options, roots[0], load_catalogue(roots), bare_workspace(console))
