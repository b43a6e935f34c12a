"""Verdicts on variables of the loader."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from cuwheel.check.diagnose.facts.variables import VariableChange, entries_of, without_entry
from cuwheel.check.diagnose.verdict import Diagnosis, broken, notes, warns


def judge_start(change: VariableChange) -> Diagnosis:
    """Judge a variable with which no program runs."""
    return broken(
        "diagnose-variable",
        f"no program runs with {change.text}",
        "`true` fails with it, and succeeds without; all else is examined without",
        change.advice,
        change.command,
    )


# What switches the GPU off: variable, pattern of its value, the package that reads it.
_OFF = (
    ("CUDA_VISIBLE_DEVICES", r"\s*(-1|none)?\s*(,.*)?", ""),
    ("JAX_PLATFORMS", r"(?!.*(cuda|gpu)).+", "jax"),
    ("JAX_PLATFORM_NAME", r"cpu", "jax"),
    ("NUMBA_DISABLE_CUDA", r"[1-9]\d*", "numba"),
    ("NUMBA_ENABLE_CUDASIM", r"[1-9]\d*", "numba"),
)


def judge_switches(
    environ: Mapping[str, str], installed: Collection[str], *, has_gpu: bool
) -> Iterator[Diagnosis]:
    """Yield a verdict on each variable that switches GPUs off, without effect where there is none.

    Args:
        installed: the names of projects.
        has_gpu: what sees no GPU has verdicts of its own then.
    """
    for name, value, reader in _OFF:
        is_off = name in environ and re.fullmatch(value, environ[name], re.IGNORECASE)
        if not has_gpu and is_off and (not reader or reader in installed):
            yield notes(
                "no-cuda-device",
                f"{name}={environ[name]!r} switches the GPU off for {reader or 'all programs'}",
                "on a machine with a GPU it would not be used either",
                f"unset {name}, unless that is intended",
                f"unset {name}",
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
