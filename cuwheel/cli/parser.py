"""The parser that all sessions share: it says what a session understands and who is wrong."""

from __future__ import annotations

import argparse
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from cuwheel.errors import UsageError, suggest
from cuwheel.spelling import as_typed
from cuwheel.system.quantities import read_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _Formatter(argparse.HelpFormatter):
    """Writes commands as the caller types them."""

    def _expand_help(self, action: argparse.Action) -> str:
        return as_typed(super()._expand_help(action))


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises our error and names the nearest option.

    Attributes:
        elsewhere: options of other sessions that this one can't have: why, and what to do instead.
    """

    elsewhere: Mapping[str, tuple[str, str]] = MappingProxyType({})

    @property
    def described(self) -> tuple[argparse.Action, ...]:
        """Every option and argument that a person may write, but for `--help`."""
        hidden = ("help", argparse.SUPPRESS)
        return tuple(one for one in self._actions if not {one.dest, one.help} & {*hidden})

    def error(self, message: str) -> NoReturn:
        """Raise what argparse itself finds wrong.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"{self.prog}: {message}",
            why="the session doesn't support this command line",
            fix="put --help after `--` to see every option",
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all of the arguments; options may stand before, between and behind names.

        Raises:
            UsageError: something is unknown or malformed.
        """
        parsed, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            words = [word for word in unknown if word.startswith("-")] or unknown
            name = words[0].split("=")[0]
            if name in self.elsewhere:
                why, fix = self.elsewhere[name]
                raise UsageError(f"{self.prog}: {name} is no option of it", why=why, fix=fix)
            known = [flag for action in self._actions for flag in action.option_strings]
            raise UsageError(
                f"{self.prog}: unknown option {name}",
                why=suggest(name, [flag for flag in known if flag.startswith("--")]),
                fix="put --help after `--` to see every option",
            )
        self._refuse_empty(parsed)
        return parsed

    def _refuse_empty(self, parsed: argparse.Namespace) -> None:
        for name, value in vars(parsed).items():
            is_empty = value == "" and value != self.get_default(name)
            if is_empty or (isinstance(value, list) and "" in value):
                self.error(f"--{name} was given without a value (an unset variable?)")


def new_parser(session: str, description: str) -> Parser:
    """A parser without options yet."""
    return Parser(
        prog=as_typed(f"nox -s {session} --"),
        description=as_typed(description),
        allow_abbrev=False,
        formatter_class=_Formatter,
    )


def refuse_none(session: str, kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    """See that something is named behind `--`.

    Args:
        session: that takes it.
        kind: what it is, for the message: `target`.
        names: what is named.
        known: what could be.

    Raises:
        UsageError: nothing is named; the message lists what could be.
    """
    if not names:
        raise UsageError(
            f"nox -s {session} -- needs a {kind}",
            why=f"known: {', '.join(known)}" if known else f"there is no {kind} here",
            fix=f"choose one of them, as in `nox -s {session} -- {known[0]}`"
            if known
            else "add a recipe: CONTRIBUTING.md shows how",
        )


def read_count(text: str) -> int:
    """A number from 1 on.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


def size_argument(text: str) -> int:
    """Bytes, of an option that is a size.

    Raises:
        argparse.ArgumentTypeError: it is no size.
    """
    size = read_size(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"{text} is not a size such as 500M or 20G")
    return size
