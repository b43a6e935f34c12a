"""The parser that all sessions share, tables of options, and readers of their values."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from cuwheel.base.errors import UsageError, suggest
from cuwheel.base.formats.binaries.archs import is_arch
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.quantities import read_size
from cuwheel.cli.examples import closing_text

# `--dist DIR`, `--fail-on {error,never}`, `--only PATTERN...` (repeatable), `--offline`; without
# dashes `wheels WHEEL+`, `folder DIR?`
_NOT_A_CHOICE = re.compile(r"argument [a-z]+: invalid choice: '([^']*)'")  # no option's
_SPELLING = re.compile(r"(-{0,2}[\w-]+)(?: (?:\{(.*)\}|(.+?)))?(\.\.\.|[+*?])?")
_SHORT = {"--quiet": "-q", "--verbose": "-v"}
_ALSO = {"--jobs": ("-j",), "--requirement": ("-r",)}  # as make, ninja and pip call them
JSON_TEXT = "print JSON to standard output instead of text"
ENVIRONMENT = {
    "--python PATH|ENVIRONMENT": "an interpreter, the folder of an environment, or a conda "
    "environment's name; default: the active environment, else the `python3` on PATH"
}
"""The option of commands that examine or change an environment."""


@dataclass(frozen=True)
class Option:
    """An option or argument that isn't a plain text.

    Attributes:
        text: its help.
        read: the reader of its value; None: a text.
        group: the heading above it in `--help`; empty: argparse's own.
    """

    text: str
    read: Callable[[str], Any] | None = None
    default: Any = None
    group: str = ""


Options = Mapping[str, str | Option]


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Return what writes help, with colours on a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return _Plain(prog=prog)
    from rich_argparse import RawDescriptionRichHelpFormatter  # noqa: PLC0415 - loads all of rich

    class Colourful(RawDescriptionRichHelpFormatter):
        help_markup = text_markup = False  # brackets are brackets
        group_name_formatter = str  # no capitals

    return Colourful(prog=prog)


class _Plain(argparse.HelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Keep the lines of what closes a help; a description is wrapped."""
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises our error and names the nearest option.

    Attributes:
        needs: pairs of options, of which the first has no effect without the second: what it does.
        excludes: pairs of options that can't be combined: why.
    """

    needs: Mapping[tuple[str, str], str] = MappingProxyType({})
    excludes: Mapping[tuple[str, str], str] = MappingProxyType({})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._replaced: dict[str, tuple[str, Any]] = {}  # by option: its name, its own default

    def replace_default(self, action: argparse.Action, value: Any) -> None:
        """Give an option another default; what excludes it on the command line undoes it."""
        self._replaced[action.option_strings[0]] = action.dest, action.default
        self.set_defaults(**{action.dest: value})

    def format_usage(self) -> str:
        """Return the usage without colours: argparse cuts it at its seventh character."""
        formatter = _Plain(prog=self.prog)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        return formatter.format_help()

    def add_options(self, options: Options) -> None:
        """Add options and arguments by their spelling, each with its help.

        `--dist DIR`, `--to {a,b}`, `--only NAME...` (repeatable), `--quick`; without dashes
        `wheels WHEEL+`, `folder DIR?`. Without a default it is None, an empty list or False.
        """
        amount = self.add_mutually_exclusive_group() if "--quiet" in options else self
        for spelling, described in options.items():
            match = _SPELLING.fullmatch(spelling)
            if match is None:
                raise ValueError(f"{spelling} is not the spelling of an option")
            flag, words, value, suffix = match.groups()
            option = described if isinstance(described, Option) else Option(described)
            details: dict[str, Any] = {"help": as_typed(option.text), "default": option.default}
            place = self._group(option.group)
            if flag in _SHORT:
                amount.add_argument(flag, _SHORT[flag], action="store_true", help=details["help"])
                continue
            if not words and not value:
                place.add_argument(flag, action="store_true", help=details["help"])
                continue
            details |= {"choices": tuple(words.split(","))} if words else {"metavar": value}
            if suffix == "...":
                details |= {"action": "append", "default": option.default or []}
            elif suffix:
                details["nargs"] = suffix
            place.add_argument(flag, *_ALSO.get(flag, ()), type=option.read or str, **details)

    def _group(self, title: str) -> argparse._ActionsContainer:
        """Return the group of a title, a new one where there is none yet."""
        groups = (group for group in self._action_groups if group.title == title)
        return (next(groups, None) or self.add_argument_group(title)) if title else self

    @property
    def described(self) -> tuple[argparse.Action, ...]:
        """Every option and argument that a person may write, but for `--help`."""
        hidden = ("help", argparse.SUPPRESS)
        return tuple(
            action for action in self._actions if not {action.dest, action.help} & {*hidden}
        )

    def read_value(self, action: argparse.Action, text: str) -> Any:
        """Return the value of an option as a text that isn't on the command line; UsageError."""
        try:
            value = self._get_value(action, text)
            self._check_value(action, value)
        except argparse.ArgumentError as problem:
            self.error(str(problem))
        return value

    def error(self, message: str) -> NoReturn:
        """Raise argparse's own errors as a UsageError."""
        if match := _NOT_A_CHOICE.match(message):
            raise self._unknown([match[1]])
        message = re.sub(r"^argument (--[\w-]+)/-\w:", r"argument \1:", message)
        raise UsageError(
            f"{self.prog}: {message}",
            why="the session doesn't support this command line",
            fix="-- --help shows every option",
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all of the arguments; options may be before, between and after names."""
        parsed, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            raise self._unknown(unknown)
        for name, value in vars(parsed).items():
            is_empty = value == "" and value != self.get_default(name)
            if is_empty or (isinstance(value, list) and "" in value):
                self.error(f"--{name} was given without a value (an unset variable?)")
        self._check_pairs(parsed)
        return parsed

    def _unknown(self, arguments: Sequence[str]) -> UsageError:
        """Return the error for options that there aren't, or for names that aren't taken."""
        options = [argument for argument in arguments if argument.startswith("-")]
        known = [flag for action in self._actions for flag in action.option_strings]
        if options:
            name = options[0].split("=")[0]
            return UsageError(
                f"{self.prog}: unknown option {name}",
                why=suggest(name, [flag for flag in known if flag.startswith("--")]),
                fix="-- --help shows every option",
            )
        names = [
            " or ".join(action.choices or (str(action.metavar or action.dest),))
            for action in self._get_positional_actions()
        ]
        return UsageError(
            f"{self.prog}: unexpected argument {arguments[0]}",
            why=f"what it takes besides options: {', '.join(names) or 'nothing'}",
            fix=f"--only '{arguments[0]}*' chooses by name"
            if "--only" in known
            else "-- --help shows every option",
        )

    def _check_pairs(self, parsed: argparse.Namespace) -> None:
        """Raise an error for an option without the one that it needs, or with one it excludes."""
        given = {
            flag
            for action in self._actions
            for flag in action.option_strings
            if getattr(parsed, action.dest, action.default) != action.default
        }
        for (option, needed), why in self.needs.items():
            if option in given and needed not in given | self._replaced.keys():
                raise UsageError(
                    f"{option} needs {needed}",
                    why=why,
                    fix=f"add {needed}, or leave out {option}",
                )
        for (option, other), why in self.excludes.items():
            if {option, other} <= given:
                raise UsageError(
                    f"{option} and {other} can't be combined",
                    why=why,
                    fix="leave out one of them",
                )
        self._undo_defaults(parsed, given)

    def _undo_defaults(self, parsed: argparse.Namespace, given: set[str]) -> None:
        """Give an option its own default again, where a given one excludes it."""
        for pair in (*self.excludes, ("--quiet", "--verbose")):
            for option, other in (pair, pair[::-1]):
                if option in self._replaced and option not in given and other in given:
                    dest, default = self._replaced[option]
                    setattr(parsed, dest, default)


def new_parser(
    session: str,
    description: str,
    options: Options = MappingProxyType({}),
    *,
    needs: Mapping[tuple[str, str], str] = MappingProxyType({}),
    excludes: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> Parser:
    """Return the parser of a session; for the tables see `Parser`."""
    parser = Parser(
        prog=as_typed(f"nox -s {session} --"),
        description=as_typed(description),
        epilog=closing_text(session),
        allow_abbrev=False,
        formatter_class=_formatter,
    )
    parser.add_options(options)
    parser.needs, parser.excludes = needs, excludes
    return parser


def refuse_none(session: str, kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise a UsageError with the known names if none is given after `--`."""
    if not names:
        raise UsageError(
            f"nox -s {session} -- needs a {kind}",
            why=f"known: {', '.join(known)}" if known else f"there is no {kind} here",
            fix=f"choose one of them, as in `nox -s {session} -- {known[0]}`"
            if known
            else "add a recipe: CONTRIBUTING.md shows how",
        )


def existing(path: Path, option: str, fix: str, *, is_folder: bool = False) -> Path:
    """Return the file or folder that an option names; raise a UsageError if it isn't there."""
    if not (path.is_dir() if is_folder else path.exists()):
        raise UsageError(
            f"{path} doesn't exist",
            why=f"{option} names it, relative to the working directory",
            fix=fix,
        )
    return path


def check_archs(archs: Sequence[str], fix: str) -> None:
    """Raise a UsageError for an arch that isn't a compute capability."""
    for arch in archs:
        if not is_arch(arch):
            raise UsageError(
                f"--arch {arch} is not a compute capability",
                why="write it without dot and without sm_: 90, 90a, 100f",
                fix=fix,
            )


def read_days(text: str) -> int:
    """Return a number of days, from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return int(text)


def size_argument(text: str) -> int:
    """Return the bytes of an option that is a size."""
    size = read_size(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"{text} is not a size such as 500M or 20G")
    return size
