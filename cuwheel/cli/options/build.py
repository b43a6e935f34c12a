"""The command line: what stands behind `nox -s <session> --`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.build.sandbox.backends import KINDS
from cuwheel.cli.options.parser import Parser, new_parser
from cuwheel.model.recipe import MODES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


PROVIDERS = ("pypi", "conda", "system")
_SANDBOXES = ("auto", *KINDS)
_PROVIDER_HELP = "where nvcc comes from; default: pypi from CUDA 13.0 on, conda before"


def parse_build(
    session: str, stages: Sequence[str], arguments: Sequence[str]
) -> argparse.Namespace:
    """The options of a `build-…` session.

    Args:
        session: its name, for messages.
        stages: what `--stage` may name.
        arguments: what stands behind `--`.

    Raises:
        UsageError: one is wrong.
    """
    return build_parser(session, stages).parse(arguments)


def build_parser(session: str, stages: Sequence[str]) -> Parser:
    """What a `build-…` session understands."""
    parser = new_parser(session, "Build, check and publish one wheel for each Python asked for.")
    add_target_options(parser)
    add = parser.add_argument
    add(
        "--jobs",
        default="auto",
        metavar="N|auto",
        help="compiles at once; auto: one for each core, started as memory allows",
    )
    add("--dist", metavar="DIR", help="folder for finished wheels; default: dist/ in the checkout")
    add("--keep-work", action="store_true", help="leave the intermediate files there after success")
    add(
        "--sandbox",
        choices=_SANDBOXES,
        default="auto",
        help="what keeps the build from network and other files; default: bubblewrap where it is "
        "installed, else the kernel's namespaces (unshare), else none",
    )
    add(
        "--no-cache",
        action="store_true",
        help="build again although nothing has changed, and compile everything",
    )
    add("--explain-key", action="store_true", help="say what would be rebuilt and why, and stop")
    add(
        "--stage",
        choices=tuple(stages),
        help="run this stage alone, on what the one before it left",
    )
    return parser


def add_target_options(parser: Parser) -> None:
    """Add what says which target is meant, and what every session that builds it needs."""
    add = parser.add_argument
    add(
        "--python",
        action="append",
        default=[],
        metavar="3.12|PATH",
        help="repeatable; default: the Python that runs nox",
    )
    add(
        "--arch",
        action="append",
        default=[],
        metavar="90",
        help="compute capability without dot, repeatable; default: the recipe's list",
    )
    add("--framework", metavar="torch==2.11.0", help="default: the recipe's")
    add(
        "--link",
        choices=tuple(MODES),
        help="where CUDA's libraries are: in NVIDIA's wheels, copied into this wheel, or linked "
        "in; default: the recipe's",
    )
    add("--source", metavar="DIR|ARCHIVE", help="build this instead of the recipe's source")
    add("--toolchain", choices=PROVIDERS, help=_PROVIDER_HELP)
    add(
        "--work",
        metavar="DIR",
        help="folder for intermediate files; default: work/ in the checkout",
    )
    add("--offline", action="store_true", help="download nothing; what is in the cache has to do")
    add(
        "--any-driver",
        action="store_true",
        help="the wheel is for another machine: this one's GPU driver may be too old for it",
    )
