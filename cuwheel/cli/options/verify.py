"""The command lines of the sessions `verify-…` and `profile-…`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.options.build import add_target_options
from cuwheel.cli.options.parser import Parser, new_parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


_ALL = "all"


def parse_verify(session: str, arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a `verify-…` session.

    Raises:
        UsageError: one is wrong.
    """
    return _with_build_defaults(verify_parser(session).parse(arguments))


def verify_parser(session: str) -> Parser:
    """What a `verify-…` session understands."""
    parser = new_parser(session, "Build several times, everything varied, and compare the wheels.")
    add_target_options(parser)
    parser.add_argument(
        "--against",
        metavar="WHEEL|PROVENANCE",
        help="build once, as this says, and compare with it: a wheel, or its .provenance.json",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="write what was found into docs/reproducibility.md",
    )
    return parser


def parse_verify_all(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the session `verify`.

    Raises:
        UsageError: one is wrong, or it isn't said what to verify.
    """
    given = verify_all_parser().parse(arguments)
    return _with_build_defaults(given)


def verify_all_parser() -> Parser:
    """What the session `verify` understands."""
    parser = new_parser(
        "verify", "Verify every target that can be built here; write docs/reproducibility.md."
    )
    parser.add_argument(
        "names", nargs="+", metavar=f"{_ALL}|RECIPE-TOOLKIT", help="which: causal-conv1d-130"
    )
    add_target_options(parser)
    return parser


def parse_profile(session: str, arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a `profile-…` session.

    Raises:
        UsageError: one is wrong.
    """
    return _with_build_defaults(profile_parser(session).parse(arguments))


def profile_parser(session: str) -> Parser:
    """What a `profile-…` session understands."""
    parser = new_parser(session, "Show where the time and memory of the last build went.")
    add_target_options(parser)
    parser.add_argument(
        "--dist", metavar="DIR", help="where the wheel goes if it has to be built first"
    )
    return parser


def _with_build_defaults(given: argparse.Namespace) -> argparse.Namespace:
    """What a build would be told besides; these sessions leave it to the defaults."""
    left_out = {
        "dist": None,
        "jobs": "auto",
        "keep_work": False,
        "sandbox": "auto",
        "no_cache": False,
        "explain_key": False,
        "stage": None,
    }
    for name, value in left_out.items():
        if not hasattr(given, name):
            setattr(given, name, value)
    return given
