"""The command line: what stands behind `nox -s <session> --`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from cuwheel.errors import UsageError, suggest
from cuwheel.locks import COOLDOWN
from cuwheel.recipe import MODES
from cuwheel.sandbox import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

PROVIDERS = ("pypi", "conda", "system")
_SANDBOXES = ("auto", *KINDS)
_PROVIDER_HELP = "where nvcc comes from; default: pypi from CUDA 13.0 on, conda before"


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
            is_empty = value == "" and value != self.get_default(name)
            if is_empty or (isinstance(value, list) and "" in value):
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


def new_parser(session: str, description: str) -> Parser:
    """A parser without options yet."""
    return Parser(prog=f"nox -s {session} --", description=description, allow_abbrev=False)
