"""The session `pick`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.errors import UsageError
from cuwheel.fetch.urls import is_local, local_path
from cuwheel.model.catalogue import load_catalogue
from cuwheel.paths import given_path, project_roots
from cuwheel.pick.advice import build_advice
from cuwheel.pick.session import INDEXES_VARIABLE, PickOptions, pick_session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cuwheel.system.console import Console


def pick_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "pick",
        "Show which wheel of a package fits this machine, or why none does; install nothing.",
    )
    add = parser.add_argument
    add(
        "package",
        metavar="PACKAGE",
        help="its name; 'flash-attn>=2.8' limits the versions, 'jax[cuda13]' adds an extra",
    )
    add(
        "--python",
        metavar="PATH|ENVIRONMENT",
        help="an interpreter, the folder of an environment, or a conda environment's name; "
        "default: the active environment, else the `python3` on PATH",
    )
    add(
        "--for",
        dest="paper",
        default="",
        metavar="MACHINE",
        help="another machine, described as python=3.12,torch=2.11,cuda=13.0,arch=90, also with "
        "glibc=, driver=, platform=, jax=; what isn't named counts as unknown",
    )
    add_index_option(parser)
    add("--pre", action="store_true", help="also consider pre-releases")
    add_report_options(
        parser,
        quiet="print only the wheel and the install command, or why none fits",
        verbose="list each index with what it has",
    )
    return parser


def add_index_option(parser: Parser, first: str = "", more: str = "") -> None:
    """Add `--index`.

    Args:
        parser: of a session that looks for wheels.
        first: where it looks before all others when nothing is named.
        more: what else can be named.
    """
    parser.add_argument(
        "--index",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="where to look, repeatable: an index, a site of `nox -s index`, a page with wheels, "
        f"a release's page or GitHub API URL, a folder{more}; default: {first}CUWHEEL_INDEXES, "
        "and the indexes configured for pip and uv",
    )


def run_pick(given: argparse.Namespace, console: Console) -> int:
    """Find the wheel; gives back the exit code."""
    if given.paper and given.python:
        raise UsageError(
            "--for and --python contradict each other",
            why="one describes another machine, the other selects an environment of this one",
            fix="leave one of them out",
        )
    asked = PickOptions(
        wanted=read_requirement(given.package, pre=given.pre),
        python=given.python,
        paper=given.paper,
        indexes=tuple(map(given_address, given.index)),
        listed=listed_addresses(os.environ, console),
        start=given_path("."),
        as_json=given.json,
    )
    return pick_session(asked, console, partial(build_advice, load_catalogue(project_roots())))


def read_requirement(text: str, *, pre: bool) -> Requirement:
    """A package's name with versions, perhaps.

    Raises:
        UsageError: it is none.
    """
    try:
        wanted = Requirement(text)
    except InvalidRequirement as problem:
        raise UsageError(
            f'"{text}" is not a package name',
            why=str(problem).splitlines()[0],
            fix="write flash-attn, or 'flash-attn>=2.8'",
        ) from None
    if wanted.url or wanted.marker:
        raise UsageError(
            f'"{text}" is more than a package and its versions',
            why="URLs and markers are not supported here",
            fix=f"write {wanted.name}",
        )
    wanted.name = canonicalize_name(wanted.name)
    if pre:
        wanted.specifier.prereleases = True
    return wanted


def as_address(text: str) -> str:
    """An address; a path becomes one."""
    return text if "://" in text else given_path(text).as_uri()


def listed_addresses(environ: Mapping[str, str], console: Console) -> tuple[str, ...]:
    """What `CUWHEEL_INDEXES` names; folders of this machine that aren't there are passed over."""
    words = environ.get(INDEXES_VARIABLE, "").split()
    found = []
    for number, word in enumerate(words, 1):
        address = as_address(word)
        if is_local(address) and not local_path(address).exists():
            console.warn(
                f"{INDEXES_VARIABLE} names {word} (entry {number} of {len(words)}), a folder that "
                "doesn't exist: it is skipped. Mount or create it, or remove it from the variable; "
                "URLs start with https://"
            )
        else:
            found.append(address)
    return tuple(found)


def given_address(text: str) -> str:
    """What `--index` names, as an address.

    Raises:
        UsageError: it is a folder of this machine that isn't there.
    """
    address = as_address(text)
    if is_local(address) and not local_path(address).exists():
        raise UsageError(
            f"the folder {local_path(address)} doesn't exist",
            why="--index names it, relative to the folder in which nox was started",
            fix="give the folder with the wheels, or an index with http:// or https://",
        )
    return address
