"""Which cells a change in git is about."""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError, UsageError
from cuwheel.model.source import Folder
from cuwheel.system.process import run

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target


# What decides a wheel, below a project folder; `{0}` names the recipe's module or the toolkit.
_OF_RECIPE = (
    r"recipes/{0}\.py",
    r"recipes/(smoke|perf)/{0}\b.*",
    r"patches/{0}/.*",
    r"envs/(build|smoke)/{0}[-.].*",
)
_OF_TOOLKIT = (r"envs/cuda{0}/.*",)


@functools.cache  # each cell asks
def changed_files(root: Path, since: str) -> tuple[str, ...]:
    """Files below a folder that differ from a commit, new and removed ones among them.

    Args:
        root: the project folder.
        since: the commit, branch or tag.

    Raises:
        UsageError: the folder is in no repository, or there is no such commit.
    """
    command = ["git", "-C", str(root), "diff", "--name-only", "--relative"]
    command += ["--end-of-options", since, "--", "."]
    environ = {**os.environ, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return tuple(run(command, env=environ).output.splitlines())
    except CommandFailedError as error:
        raise UsageError(
            f"git can't list the changes in {root} since {since}",
            why=" ".join(error.tail) or error.why,
            fix="name a commit, branch or tag that this clone has; for a shallow clone, run "
            "`git fetch --unshallow`",
        ) from error


def is_about(target: Target, files: tuple[str, ...]) -> bool:
    """Whether one of these files decides what a target's wheel holds.

    cuwheel's own code isn't counted: it may change all of them, and most of its changes none.
    """
    source = target.recipe.source
    if isinstance(source, Folder) and any(file.startswith(f"{source.path}/") for file in files):
        return True
    patterns = [one.format(re.escape(target.recipe.folder)) for one in _OF_RECIPE]
    patterns += [one.format(target.toolkit.tag) for one in _OF_TOOLKIT]
    return any(re.fullmatch(pattern, file) for pattern in patterns for file in files)
