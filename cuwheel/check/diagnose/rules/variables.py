"""Verdicts on variables of the loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cuwheel.check.diagnose.facts.variables import entries_of, without_entry
from cuwheel.check.diagnose.verdict import Diagnosis, warns


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
