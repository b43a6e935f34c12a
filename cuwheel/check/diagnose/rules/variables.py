"""Verdicts on variables of the loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cuwheel.check.diagnose.facts.variables import VariableChange, entries_of, without_entry
from cuwheel.check.diagnose.verdict import Diagnosis, broken, warns


def judge_start(change: VariableChange) -> Diagnosis:
    """Judge a variable with which no program runs."""
    return broken(
        "diagnose-variable",
        f"no program runs with {change.text}",
        "`true` fails with it, and succeeds without; all else is examined without",
        f"remove {change.taken} from {change.name}",
        change.command,
    )


def judge_variables(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Yield a verdict on each library to be loaded first that isn't there."""
    for entry in dict.fromkeys(entries_of("LD_PRELOAD", environ)):
        change = without_entry(environ, "LD_PRELOAD", entry)
        if "/" in entry and "$" not in entry and not Path(entry).exists() and change:
            yield warns(
                "diagnose-variable",
                f"LD_PRELOAD names {entry}, which isn't there",
                "the loader prints an error at the start of every program, and goes on without it",
                f"remove {entry} from LD_PRELOAD",
                change.command,
            )
