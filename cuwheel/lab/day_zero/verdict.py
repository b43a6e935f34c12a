"""The verdicts of a trial of a framework's release, one for each recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from cuwheel.base.system.output.documents import Schema
from cuwheel.build.pipeline.package_build.trial import TriedFile

State = Literal["works", "works with changes", "broken", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result for one recipe.

    Attributes:
        recipe: its name.
        version: upstream's release.
        target: `mamba-ssm-132-cp312-torch2.15`; empty: there was none to try.
        state: `works`: as the recipe is, with `--framework`; `broken`: no change that was tried
            helps; `unknown`: nothing was found out.
        changes: that were tried, in a few words each: `CUDA 13.2`, `C++20`.
        diff: the change of the recipe's file, as `git diff` would show it; empty: none is needed.
        command: makes that change, or builds the wheel where none is needed.
        why: of `broken` and `unknown`: the cause.
        error: the compiler's first error; empty without one.
        files: that compiled.
        count: how many CUDA files the package's build compiles; 0: not known.
        wheel: with `--build`, its file name.
        log: of the compile that failed; empty: none did.
        seconds: of all of it.
    """

    recipe: str
    version: str
    target: str = ""
    state: State
    changes: tuple[str, ...] = ()
    diff: str = ""
    command: str = ""
    why: str = ""
    error: str = ""
    files: tuple[TriedFile, ...] = ()
    count: int = 0
    wheel: str = ""
    log: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class DayZeroDocument:
    """What `day-zero --json` writes.

    Attributes:
        framework: `torch==2.15.0`.
        cuda: the release that it was built with, `13.2`.
        python: that the recipes were tried with, `3.12`.
        archs: that the files were compiled for; empty: those of each recipe.
        date: day of the trial, ISO 8601.
        verdicts: in the order of the trial.
        held_back: recipes that stay at older releases on purpose, and weren't tried.
    """

    SCHEMA: ClassVar[Schema] = Schema("day-zero", "1.0")

    framework: str
    cuda: str
    python: str
    archs: tuple[str, ...]
    date: str
    verdicts: tuple[Verdict, ...]
    held_back: tuple[str, ...]
