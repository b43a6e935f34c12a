"""The session `mirror`."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from cuwheel.build.checks import platform_problems
from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.target_choice import choose_target, named_targets, release_of
from cuwheel.cli.target_options import PROVIDER_HELP, add_platform, add_targets
from cuwheel.errors import InterpreterNotFoundError, UsageError
from cuwheel.fetch.mirror import MIRROR_VARIABLE
from cuwheel.locks.mirror import mirror
from cuwheel.locks.mirror_folder import README, served_name
from cuwheel.paths import given_path
from cuwheel.system.pythons import Interpreter, find_python, own_python
from cuwheel.system.versions import version_key
from cuwheel.workspace.problems import raise_problems
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cuwheel.model.target import Target
    from cuwheel.system.console import Console


def mirror_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "mirror", "Write everything that a target needs to a folder, for builds without a network."
    )
    add_targets(parser)
    add = parser.add_argument
    add(
        "--to", metavar="DIR", help="folder of the mirror; an existing mirror is kept and completed"
    )
    add(
        "--python",
        action="append",
        default=[],
        metavar="3.12",
        help="a Python to run nox with and to build for, repeatable; default: the one that runs "
        "nox here",
    )
    add(
        "--framework",
        metavar="torch==2.11.0",
        help="release that the wheel is compiled against; default: the recipe's",
    )
    add("--toolchain", choices=("pypi", "conda"), help=PROVIDER_HELP)
    add(
        "--source",
        metavar="FILE",
        help="the archive that the recipe pins, if this machine can't download it",
    )
    add_platform(parser)
    parser.set_defaults(arch=[], link=None)  # a mirror holds no more for other ones
    return parser


def run_mirror(given: argparse.Namespace, console: Console) -> None:
    """Write a mirror."""
    named = named_targets("mirror", given.targets)
    if not given.to:
        raise UsageError(
            "nox -s mirror --: --to is missing",
            why="it is the folder to write",
            fix=f"nox -s mirror -- {' '.join(given.targets)} --to DIR",
        )
    pythons = given.python or [own_python().release]
    source = given_path(given.source) if given.source else None
    plain = argparse.Namespace(**{**vars(given), "source": None})
    releases = [_release(asked) for asked in pythons]
    chosen = (choose_target(entry, tag, one, plain) for entry, tag in named for one in releases)
    targets = [other for target in chosen for other in _served_pythons(target, releases)]
    raise_problems((fault for one in targets for fault in platform_problems(one)), "mirror")
    with console.stage("mirror"):
        made = mirror(
            targets,
            given_path(given.to),
            bare_workspace(console),
            source=source,
            pythons=releases,  # a wheel of the stable ABI is built with another one
        )
    console.print_durations()
    console.note(f"{made.folder} has {made.files} files, {made.size / (1 << 30):.2f} GiB,")
    console.note(
        f"everything for {', '.join(made.targets)}; its {README} explains how to use it. To build:"
    )
    console.note(f"  export {MIRROR_VARIABLE}={made.folder.as_uri()}")
    for name in dict.fromkeys(map(served_name, targets)):
        console.note(f"  {made.targets[name].command}")


def _served_pythons(target: Target, releases: Sequence[str]) -> Iterator[Target]:
    """A target, and where its root folder may have another Python than it names, those too.

    A wheel of the stable ABI is built with the oldest Python that the other machine's root folder
    has, and the mirror may be written where there is none.
    """
    yield target
    if target.platform.is_foreign and target.recipe.python == "abi3":
        # A free-threaded Python has no stable ABI (PEP 703).
        fitting = (one for one in releases if not one.endswith("t"))
        oldest = version_key(target.recipe.oldest_python)
        later = (one for one in fitting if version_key(one) >= oldest)
        yield from (replace(target, python=one) for one in later if one != target.python)


def _release(asked: str) -> str:
    found: Interpreter | InterpreterNotFoundError
    try:
        found = find_python(asked, os.environ)
    except InterpreterNotFoundError as missing:
        found = missing
    return release_of(asked, found)
