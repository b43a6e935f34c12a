"""The command line: what stands behind `nox -s <session> --`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from cuwheel.errors import UsageError, suggest
from cuwheel.locks import COOLDOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

PROVIDERS = ("pypi", "conda", "system")


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises our error and names the nearest option."""

    @property
    def described(self) -> tuple[argparse.Action, ...]:
        """Every option and argument, but for `--help`."""
        return tuple(action for action in self._actions if action.dest != "help")

    def error(self, message: str) -> NoReturn:
        """Raise what argparse itself finds wrong.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"{self.prog}: {message}",
            why="this command line isn't one that the session understands",
            fix="put --help behind `--` to see every option",
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all of the arguments.

        Raises:
            UsageError: something is unknown or malformed.
        """
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            words = [word for word in unknown if word.startswith("-")] or unknown
            name = words[0].split("=")[0]
            known = [flag for action in self._actions for flag in action.option_strings]
            raise UsageError(
                f"{self.prog}: unknown option {name}",
                why=suggest(name, [flag for flag in known if flag.startswith("--")]),
                fix="put --help behind `--` to see every option",
            )
        self._refuse_empty(parsed)
        return parsed

    def _refuse_empty(self, parsed: argparse.Namespace) -> None:
        for name, value in vars(parsed).items():
            if value == "" or (isinstance(value, list) and "" in value):
                self.error(f"--{name} is given without a value (an unset variable?)")


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
    parser = _parser(session, "Build, check and publish one wheel for each Python asked for.")
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
        "--jobs",
        default="auto",
        metavar="N|auto",
        help="compiles at once; auto counts cores and memory",
    )
    add("--source", metavar="DIR|ARCHIVE", help="build this instead of the recipe's source")
    add(
        "--toolchain",
        default="pypi",
        choices=PROVIDERS,
        help="where nvcc comes from; default: pypi",
    )
    add(
        "--work",
        metavar="DIR",
        help="folder for intermediate files; default: work/ in the checkout",
    )
    add("--dist", metavar="DIR", help="folder for finished wheels; default: dist/ in the checkout")
    add("--keep-work", action="store_true", help="leave the intermediate files there after success")
    add("--offline", action="store_true", help="download nothing; what is in the cache has to do")
    add("--no-cache", action="store_true", help="build again although nothing has changed")
    add("--explain-key", action="store_true", help="say what would be rebuilt and why, and stop")
    add(
        "--stage",
        choices=tuple(stages),
        help="run this stage alone, on what the one before it left",
    )
    return parser


def parse_lock(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the `lock` session.

    Raises:
        UsageError: one is wrong, or no lock is named.
    """
    return lock_parser().parse(arguments)


def lock_parser() -> Parser:
    """What the `lock` session understands."""
    parser = _parser("lock", "Resolve and pin with hashes.")
    add = parser.add_argument
    add(
        "names",
        nargs="+",
        metavar="engine|dev|toolchain:130|build:RECIPE|all",
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
    return parser


def parse_toolchain(session: str, arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a `toolchain-…` session.

    Raises:
        UsageError: one is wrong.
    """
    return toolchain_parser(session).parse(arguments)


def toolchain_parser(session: str) -> Parser:
    """What a `toolchain-…` session understands."""
    parser = _parser(session, "Make a CUDA toolchain and print its folder.")
    parser.add_argument("--toolchain", default="pypi", choices=PROVIDERS, help="default: pypi")
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
    parser = _parser("index", "Write the package index of a folder of wheels.")
    parser.add_argument("--dist", metavar="DIR", help="default: dist/ in the checkout")
    return parser


def parse_nothing(session: str, arguments: Sequence[str]) -> None:
    """See that a session without options got none.

    Raises:
        UsageError: it got some.
    """
    _parser(session, "Takes no options.").parse(arguments)


def _days(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number of days")
    return int(text)


def _parser(session: str, description: str) -> Parser:
    return Parser(prog=f"nox -s {session} --", description=description, allow_abbrev=False)
