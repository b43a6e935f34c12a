"""Variables that keep a program from working, found by running it without them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Those that any program may need, and one of `callers_environment`.
_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|TERM|LANG|LC_\w+|HOSTNAME|SHLVL|_|XDG_\w+"
    r"|SSH_\w+|PYTHONDONTWRITEBYTECODE"
)
# Variables with several parts, by what separates these.
_SEPARATORS = {
    "LD_LIBRARY_PATH": ":",
    "LD_PRELOAD": "[: ]",
    "CPATH": ":",
    "CPLUS_INCLUDE_PATH": ":",
    "C_INCLUDE_PATH": ":",
    "PATH": ":",
    "PYTHONPATH": ":",
    "XLA_FLAGS": r"\s+",
}
_LIKELY = frozenset({*_SEPARATORS, "PYTHONHOME", "PYTHONUSERBASE"})  # tried before all others
_JOINED = {"XLA_FLAGS": " "}  # the others by `os.pathsep`


@dataclass(frozen=True, kw_only=True)
class VariableChange:
    """A change of one variable.

    Attributes:
        taken: the part of its value that goes.
        rest: the value that stays; empty: the variable goes.
    """

    name: str
    taken: str
    rest: str = ""

    @property
    def text(self) -> str:
        """What goes, `/a in PYTHONPATH` or `NAME=value`."""
        return f"{self.taken} in {self.name}" if self.rest else f"{self.name}={self.taken}"

    @property
    def advice(self) -> str:
        """The change in words."""
        return f"remove {self.taken} from {self.name}" if self.rest else f"unset {self.name}"

    @property
    def command(self) -> str:
        """The command of a shell that makes it."""
        if not self.rest:
            return f"unset {self.name}"
        return f"export {self.name}={shlex.quote(self.rest)}"

    def apply(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables after it."""
        others = {name: value for name, value in environ.items() if name != self.name}
        return {**others, self.name: self.rest} if self.rest else others


@dataclass(frozen=True, kw_only=True)
class TracedChange(VariableChange):
    """A change of a variable that leads to a file."""

    leads_to: str

    @property
    def text(self) -> str:
        """What goes, and the file."""
        return f"{super().text} (it leads to {self.leads_to})"


def without_entry(environ: Mapping[str, str], name: str, entry: str) -> VariableChange | None:
    """Return the change that takes a folder or file from a list; None if it isn't in there."""
    entries = entries_of(name, environ)
    rest = [part for part in entries if os.path.realpath(part) != os.path.realpath(entry)]
    if len(rest) == len(entries):
        return None
    return VariableChange(name=name, taken=entry, rest=_JOINED.get(name, os.pathsep).join(rest))


def trace(change: VariableChange, seen: Mapping[str, Any]) -> VariableChange:
    """Return a change with the file in the folder that it takes away; the same without one.

    Args:
        seen: what an experiment has recorded; the files of its failure come first.
    """
    files = (*seen.get("frames", ()), *seen.get("origins", {}).values())
    files += tuple(reversed(seen.get("opened", ())))
    inside = (file for file in files if Path(change.taken) in Path(file).parents)
    if file := next(inside, ""):
        return TracedChange(name=change.name, taken=change.taken, rest=change.rest, leads_to=file)
    return change


def find_culprit(
    works: Callable[[Mapping[str, str]], bool],
    environ: Mapping[str, str],
    fixed: Iterable[str] = (),
) -> VariableChange | None:
    """Return the change with which a program works that fails now; None: there is none.

    Args:
        works: runs the program with variables.
        fixed: names that stay.
    """
    suspects = [name for name in environ if not _KEPT.fullmatch(name) and name not in {*fixed}]

    def works_without(names: Iterable[str]) -> bool:
        gone = set(names)
        return works({name: value for name, value in environ.items() if name not in gone})

    # Each trial is an import, which takes long: what fails without any has no such cause.
    likely = [name for name in suspects if name in _LIKELY]
    if likely and works_without(likely):
        suspects = likely
    elif likely == suspects or not works_without(suspects):
        return None
    if works(environ):  # a failure that doesn't come again, as under load
        return None
    while len(suspects) > 1:
        half = len(suspects) // 2
        suspects = suspects[:half] if works_without(suspects[:half]) else suspects[half:]
    trials = _trials(suspects[0], environ)
    return next((trial for trial in trials if works(trial.apply(environ))), None)


def _trials(name: str, environ: Mapping[str, str]) -> Iterator[VariableChange]:
    entries = entries_of(name, environ)
    if len(set(entries)) > 1:
        yield from filter(None, (without_entry(environ, name, entry) for entry in entries))
    yield VariableChange(name=name, taken=environ[name])


def entries_of(name: str, environ: Mapping[str, str]) -> list[str]:
    """Return the entries of a variable; of one that is no list, its value."""
    value = environ.get(name, "")
    separator = _SEPARATORS.get(name)
    return [*filter(None, re.split(separator, value) if separator else [value])]
