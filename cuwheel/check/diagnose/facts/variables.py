"""Variables that keep a program from working, found by running it without them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

# Beginnings of names of variables that Python, the loader or a GPU package reads.
_READ = re.compile(r"PYTHON|LD_|CUDA|CUPY|JAX|NUMBA|OMP_|MKL_|ORT_|TORCH|TRITON|XLA_")
_OWN = frozenset({"PYTHONDONTWRITEBYTECODE"})  # of `callers_environment`
_LISTS = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"})


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
    def command(self) -> str:
        """The command of a shell that makes it."""
        if not self.rest:
            return f"unset {self.name}"
        return f"export {self.name}={shlex.quote(self.rest)}"

    def apply(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables after it."""
        others = {name: value for name, value in environ.items() if name != self.name}
        return {**others, self.name: self.rest} if self.rest else others


def without_entry(environ: Mapping[str, str], name: str, entry: str) -> VariableChange | None:
    """Return the change that takes a folder or file from a list; None if it isn't in there."""
    entries = entries_of(name, environ)
    rest = [part for part in entries if os.path.realpath(part) != os.path.realpath(entry)]
    if len(rest) == len(entries):
        return None
    return VariableChange(name=name, taken=entry, rest=os.pathsep.join(rest))


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
    fixed = {*fixed, *_OWN}
    suspects = [name for name in environ if _READ.match(name) and name not in fixed]
    rest = {name: value for name, value in environ.items() if name not in suspects}
    # A failure that doesn't come again, as under load, has no such cause.
    if not suspects or works(environ) or not works(rest):
        return None
    trials = (trial for name in suspects for trial in _trials(name, environ))
    return next((trial for trial in trials if works(trial.apply(environ))), None)


def _trials(name: str, environ: Mapping[str, str]) -> Iterator[VariableChange]:
    entries = entries_of(name, environ)
    if len(set(entries)) > 1:
        yield from filter(None, (without_entry(environ, name, entry) for entry in entries))
    yield VariableChange(name=name, taken=environ[name])


def entries_of(name: str, environ: Mapping[str, str]) -> list[str]:
    """Return the entries of a variable; of one that is no list, its value."""
    value = environ.get(name, "")
    separator = r"[: ]" if name == "LD_PRELOAD" else ":"
    return [*filter(None, re.split(separator, value) if name in _LISTS else [value])]
