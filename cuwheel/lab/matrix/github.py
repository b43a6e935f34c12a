"""For workflows: the cells that a change in git affects, and those to build as a GitHub matrix."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cuwheel.base import limits
from cuwheel.base.caller import Caller
from cuwheel.base.errors import CommandFailedError, UsageError
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.process import run
from cuwheel.build.pipeline.build_needs import compile_seconds
from cuwheel.build.recipe.source import Folder
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.request import Shard
from cuwheel.lab.matrix.state import CellState

# "A matrix will generate a maximum of 256 jobs per workflow run."
# https://docs.github.com/en/actions/reference/limits
MAX_JOBS = 256
# Inputs of a wheel, relative to the project folder; `{0}` is the recipe's module or the toolkit.
_OF_RECIPE = (
    r"recipes/{0}\.py",
    r"recipes/(smoke|perf)/{0}\b.*",
    r"patches/{0}/.*",
    r"envs/(build|smoke)/{0}[-.].*",
)
_OF_TOOLKIT = (r"envs/cuda{0}/.*",)


@dataclass(frozen=True, kw_only=True)
class MatrixJob:
    """A job of the workflow: one cell to be built.

    Attributes:
        id: of the cell, `causal-conv1d-130-cp312-torch2.11`.
        target: recipe and toolkit, `causal-conv1d-130`.
        python: `3.12`.
        options: what stands behind `nox -s build --` for it.
        cache: name of the compile cache that it shares with cells of the same kernels.
    """

    id: str
    target: str
    python: str
    options: str
    cache: str


@dataclass(frozen=True, kw_only=True)
class MatrixShard:
    """A job that compiles a share of a cell before the cell's own job.

    Attributes:
        id: of the cell, and behind it the shard, `causal-conv1d-130-cp312-torch2.11.shard-3`.
        cell: id of the cell.
        python: `3.12`.
        options: what stands behind `nox -s build --` for it, `--shard 3/16` included.
        cache: as the cell's.
    """

    id: str
    cell: str
    python: str
    options: str
    cache: str


@dataclass(frozen=True, kw_only=True)
class MatrixDocument:
    """What `matrix --json` prints: what is to be built, as GitHub Actions takes it.

    Attributes:
        include: for `strategy.matrix.include`, one item for each cell that a build would build.
        shards: likewise, the jobs that come before those of long builds, with `--shard-above`.
    """

    SCHEMA: ClassVar[Schema] = Schema("matrix", "1.1")

    include: tuple[MatrixJob, ...]
    shards: tuple[MatrixShard, ...] = ()


def matrix_document(
    states: Iterable[CellState], *, longest: float | None = None, cores: int = 1
) -> MatrixDocument:
    """Return the due cells as jobs.

    Args:
        longest: seconds of a build above which it is done in shards; None: none is.
        cores: of a machine that builds.

    Raises:
        UsageError: there are more of them than one workflow run may have.
    """
    due = [state for state in states if state.is_due]
    shards = [shard for state in due if longest for shard in _shards(state, longest, cores)]
    for jobs, what in ((due, "cells have to be built"), (shards, "shards have to compile")):
        if len(jobs) > MAX_JOBS:
            raise UsageError(
                f"{len(jobs)} {what}, but a GitHub matrix has at most {MAX_JOBS} jobs",
                why="GitHub refuses a run with more",
                fix="select fewer: --only 'causal-conv1d-*', --python 3.12, "
                "--framework torch==2.11.0",
            )
    return MatrixDocument(include=tuple(map(_job, due)), shards=tuple(shards))


def _shards(state: CellState, longest: float, cores: int) -> Iterator[MatrixShard]:
    """Yield the shards of a build that takes longer; none where nothing is known of its time."""
    job, count = _job(state), math.ceil(_expected_seconds(state, cores) / longest)
    for number in range(1, count + 1) if count > 1 else ():
        yield MatrixShard(
            id=f"{job.id}.shard-{number}",
            cell=job.id,
            python=job.python,
            options=f"{job.options} --shard {Shard(number, count)}",
            cache=job.cache,
        )


def _expected_seconds(state: CellState, cores: int) -> float:
    """Return the longer of a cell's last build and what its recipe's known compiles take."""
    job = state.cell.job
    return max(state.seconds or 0.0, compile_seconds(job) / cores)


def _job(state: CellState) -> MatrixJob:
    target = state.cell.job.target
    return MatrixJob(
        id=state.cell.id,
        target=target.name,
        python=target.python,
        options=" ".join(state.cell.options),
        # Cells of the same kernels, but for other Pythons, share it.
        cache=state.cell.id.replace(f"-cp{target.python.replace('.', '')}", ""),
    )


@functools.cache  # called for each cell
def changed_files(root: Path, since: str, caller: Caller) -> tuple[str, ...]:
    """Return the files of a folder that differ from a commit, new and removed ones too.

    Raises:
        UsageError: the folder is in no repository, or there is no such commit.
    """
    command = ["git", "-C", str(root), "diff", "--name-only", "--relative"]
    command += ["--end-of-options", since, "--", "."]
    environ = {**caller.environ, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return tuple(run(command, env=environ, timeout=limits.GIT).output.splitlines())
    except CommandFailedError as error:
        raise UsageError(
            f"git can't list the changes in {root} since {since}",
            why=" ".join(error.tail) or error.why,
            fix="name a commit, branch or tag that this clone has; for a shallow clone, run "
            "`git fetch --unshallow`",
        ) from error


def is_about(target: Target, files: tuple[str, ...]) -> bool:
    """Return True if one of these files is an input of a target's wheel.

    cuwheel's own code isn't counted: it may change all wheels, and most of its changes none.
    """
    source = target.recipe.source
    if isinstance(source, Folder) and any(file.startswith(f"{source.path}/") for file in files):
        return True
    patterns = [pattern.format(re.escape(target.recipe.folder)) for pattern in _OF_RECIPE]
    patterns += [pattern.format(target.toolkit.tag) for pattern in _OF_TOOLKIT]
    return any(re.fullmatch(pattern, file) for pattern in patterns for file in files)
