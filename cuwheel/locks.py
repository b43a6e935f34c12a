"""Which locks there are: the engine's own, the toolchains', and one for each recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.catalogue import find_recipe
from cuwheel.errors import LockError, UsageError, suggest
from cuwheel.lockfile import faults_of_lock, read_input
from cuwheel.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.catalogue import Entry
    from cuwheel.recipe import Framework
    from cuwheel.target import Target

COOLDOWN = 7  # days that a release has to have been public before it is considered

_OLDEST_PYTHON = "3.10"  # that the engine itself runs on


@dataclass(frozen=True, kw_only=True)
class LockJob:
    """One lock file and what it is made from.

    Attributes:
        name: `engine`, `dev`, `toolchain:130` or `build:<recipe>`.
        source: the `.in` file.
        lock: the file to write.
        python: the oldest Python that it has to serve, `3.10`.
        replace: a requirement that takes the place of the one for the same package.
    """

    name: str
    source: Path
    lock: Path
    python: str
    replace: str = ""

    @property
    def wanted(self) -> str:
        """The input as the resolver gets it."""
        return read_input(self.source, self.replace)

    @property
    def command(self) -> str:
        """What a person types to write this lock again."""
        return f"nox -s lock -- {self.name}" + f" --framework {self.replace}" * bool(self.replace)


def lock_jobs(
    names: Iterable[str], entries: tuple[Entry, ...], framework: Framework | None = None
) -> tuple[LockJob, ...]:
    """The locks that these names stand for.

    Args:
        names: as on the command line; `all` stands for every one.
        entries: the catalogue.
        framework: for `build:` locks, instead of the recipe's own.

    Raises:
        UsageError: a name is unknown; the message names the nearest.
    """
    known = {job.name: job for job in _all_jobs(entries)}
    chosen: list[LockJob] = []
    for name in names:
        if name == "all":
            chosen += known.values()
        elif name in known:
            chosen.append(known[name])
        else:
            raise UsageError(
                f'no lock is called "{name}"',
                why=suggest(name, [*known, "all"]),
                fix="nox -s lock -- " + "|".join([*known, "all"]),
            )
    return tuple(_with_framework(job, entries, framework) for job in chosen)


def check_target_lock(target: Target) -> None:
    """See that the lock of a target's build environment is there and matches its input.

    Raises:
        LockError: with every fault, and the command that writes the lock again.
    """
    framework = target.framework
    pinned = f"{framework.name}=={framework.version}" if framework else ""
    replaced = pinned if framework != target.recipe.framework else ""
    source = target.root / "envs" / "build" / f"{target.recipe.folder}.in"
    faults = faults_of_lock(target.lock, read_input(source, replaced))
    if faults:
        command = f"nox -s lock -- build:{target.recipe.name}"
        raise LockError(
            f"{target.id}: the lock {target.lock.name} can't be used",
            why="\n".join(faults),
            fix=command + (f" --framework {pinned}" if replaced else ""),
        )


def _all_jobs(entries: tuple[Entry, ...]) -> list[LockJob]:
    envs = ROOT / "envs"
    jobs = [
        LockJob(
            name=name,
            source=envs / f"{name}.in",
            lock=envs / f"{name}.lock",
            python=_OLDEST_PYTHON,
        )
        for name in ("engine", "dev")
    ]
    jobs += [
        LockJob(
            name=f"toolchain:{source.parent.name.removeprefix('cuda')}",
            source=source,
            lock=source.with_suffix(".lock"),
            python=_OLDEST_PYTHON,
        )
        for source in sorted(envs.glob("cuda*/pypi.in"))
    ]
    return jobs + [_job_of_recipe(entry) for entry in entries if entry.recipe]


def _job_of_recipe(entry: Entry) -> LockJob:
    recipe = find_recipe(entry.name, [entry]).recipe
    folder = recipe.folder if recipe else entry.name
    oldest = recipe.requires_python.removeprefix(">=") if recipe else _OLDEST_PYTHON
    return LockJob(
        name=f"build:{entry.name}",
        source=entry.root / "envs" / "build" / f"{folder}.in",
        lock=entry.root / "envs" / "build" / f"{folder}.lock",
        python=oldest.split(",")[0],
    )


def _with_framework(
    job: LockJob, entries: tuple[Entry, ...], framework: Framework | None
) -> LockJob:
    if framework is None:
        return job
    kind, _, name = job.name.partition(":")
    recipe = find_recipe(name, entries).recipe if kind == "build" else None
    if recipe is None or recipe.framework is None:
        raise UsageError(
            f"--framework doesn't go with {job.name}",
            why="only locks of recipes that are compiled against a framework hold one",
            fix="leave it out, or name one lock, e.g. build:causal-conv1d",
        )
    if framework == recipe.framework:
        return job
    stem = f"{job.lock.stem}-{framework.name}{framework.version}"
    return LockJob(
        name=job.name,
        source=job.source,
        lock=job.lock.with_name(f"{stem}.lock"),
        python=job.python,
        replace=f"{framework.name}=={framework.version}",
    )
