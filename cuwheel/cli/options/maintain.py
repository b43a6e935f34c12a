"""Options of the sessions that keep the house: locks, toolchains, mirror, index."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cuwheel.cli.options.build import _PROVIDER_HELP, PROVIDERS
from cuwheel.cli.options.parser import Parser, new_parser
from cuwheel.locks.jobs import COOLDOWN

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse_lock(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the `lock` session.

    Raises:
        UsageError: one is wrong, or no lock is named.
    """
    return lock_parser().parse(arguments)


def lock_parser() -> Parser:
    """What the `lock` session understands."""
    parser = new_parser("lock", "Resolve and pin with hashes.")
    add = parser.add_argument
    add(
        "names",
        nargs="+",
        metavar="engine|dev|toolchain:130|python:312|build:RECIPE|all",
        help="which ones",
    )
    add("--framework", metavar="torch==2.11.0", help="a lock for this one beside the recipe's own")
    add(
        "--cooldown",
        type=_days,
        default=COOLDOWN,
        metavar="DAYS",
        help=f"ignore younger releases; default: {COOLDOWN}",
    )
    add(
        "--note",
        default="",
        metavar="TEXT",
        help="for conda locks: where the channel's index came from, to stand in the lock",
    )
    return parser


def parse_lock_verify(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the `lock-verify` session.

    Raises:
        UsageError: one is wrong, or no lock is named.
    """
    return lock_verify_parser().parse(arguments)


def lock_verify_parser() -> Parser:
    """What the `lock-verify` session understands."""
    parser = new_parser(
        "lock-verify", "Download all files of conda locks and compare their hashes."
    )
    add = parser.add_argument
    add("names", nargs="+", metavar="122|python:312|all", help="which ones")
    add("--offline", action="store_true", help="download nothing; compare what is in the cache")
    return parser


def parse_toolchain(session: str, arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a `toolchain-…` session.

    Raises:
        UsageError: one is wrong.
    """
    return toolchain_parser(session).parse(arguments)


def toolchain_parser(session: str) -> Parser:
    """What a `toolchain-…` session understands."""
    parser = new_parser(session, "Make a CUDA toolchain and print its folder.")
    parser.add_argument("--toolchain", choices=PROVIDERS, help=_PROVIDER_HELP)
    parser.add_argument("--offline", action="store_true", help="download nothing")
    return parser


def parse_index(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the `index` session.

    Raises:
        UsageError: one is wrong.
    """
    return index_parser().parse(arguments)


def index_parser() -> Parser:
    """What the `index` session understands."""
    parser = new_parser("index", "Write the package index of a folder of wheels.")
    parser.add_argument("--dist", metavar="DIR", help="default: dist/ in the checkout")
    return parser


def parse_mirror(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the `mirror` session.

    Raises:
        UsageError: one is wrong, or no target or folder is named.
    """
    return mirror_parser().parse(arguments)


def mirror_parser() -> Parser:
    """What the `mirror` session understands."""
    parser = new_parser(
        "mirror", "Write everything that a target needs into a folder that builds use offline."
    )
    add = parser.add_argument
    add(
        "names",
        nargs="+",
        metavar="RECIPE-TOOLKIT",
        help="what will be built from it, as in the session's name: bitsandbytes-122",
    )
    add(
        "--to",
        required=True,
        metavar="DIR",
        help="the folder; what it holds already stays and is completed",
    )
    add(
        "--python",
        action="append",
        default=[],
        metavar="3.12",
        help="a Python that will run nox and get wheels, repeatable; default: the one that runs "
        "nox here",
    )
    add("--framework", metavar="torch==2.11.0", help="default: the recipe's")
    add("--toolchain", choices=("pypi", "conda"), help=_PROVIDER_HELP)
    add(
        "--source",
        metavar="FILE",
        help="the archive that the recipe pins, where this machine can't download it",
    )
    return parser


def parse_nothing(session: str, arguments: Sequence[str]) -> None:
    """See that a session without options got none.

    Raises:
        UsageError: it got some.
    """
    new_parser(session, "Takes no options.").parse(arguments)


def _days(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number of days")
    return int(text)
