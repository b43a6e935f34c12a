"""The session `pick`."""

from __future__ import annotations

import argparse

from cuwheel.base.caller import Caller
from cuwheel.base.system.console import Console
from cuwheel.cli.parser import ENVIRONMENT, JSON_TEXT, Parser, new_parser


def pick_parser() -> Parser:
    """Return the parser of the session."""
    why = "one describes another machine, the other selects an environment of this one"
    return new_parser(
        "pick",
        "Show which wheels of packages fit this machine, or why none does; install nothing.",
        {
            **packages_option(),
            **ENVIRONMENT,
            "--for MACHINE...": (
                "another machine, described as python=3.12,torch=2.11,cuda=13.0,arch=90, also "
                "with glibc=, driver=, platform=, jax=; what isn't named counts as unknown; for "
                "several packages Python, torch and CUDA may be left out; repeated, with another "
                "platform= each, for one lock for all"
            ),
            **index_option(),
            **SOURCES,
            "--pre": "also consider pre-releases",
            "--lock FILE": "write the wheels of all packages and of what they require, with their "
            "hashes, as a pylock.toml, which pip and uv install",
            "--quiet": "print only the wheel and the install command, or why none fits",
            "--verbose": "list each index with what it has",
            "--json": JSON_TEXT,
        },
        excludes={("--for", "--python"): why},
    )


SOURCES = {
    "--sources NAME...": "public places with CUDA wheels to query where your own indexes have no "
    "fitting wheel, repeatable; none: no such place; default: CUWHEEL_SOURCES, else all that hold "
    "the package, unless --index is given"
}
"""The option of commands that query known sources."""


def packages_option() -> dict[str, str]:
    """Return the argument and the option for packages."""
    return {
        "packages PACKAGE*": "their names; 'flash-attn>=2.8' limits the versions, 'jax[cuda13]' "
        "adds an extra; several, a requirements.txt or a pyproject.toml: the newest Python, torch "
        "and CUDA for which all have a wheel",
        "--requirement FILE...": "requirements.txt or pyproject.toml, repeatable",
    }


def index_option(first: str = "") -> dict[str, str]:
    """Return `--index`."""
    return {
        "--index ADDRESS...": "where to look, repeatable: an index, a site of `nox -s index`, a "
        f"page with wheels, a release's page or GitHub API URL, a folder; default: {first}"
        "CUWHEEL_INDEXES, and the indexes configured for pip and uv"
    }


def run_pick(args: argparse.Namespace, console: Console, caller: Caller) -> int:
    """Find the wheels; return the exit code."""
    # What reads indexes and wheels loads slowly, and a wrong option needs none of it.
    from cuwheel.cli.picking import pick_wheels  # noqa: PLC0415

    return pick_wheels(args, console, caller)
