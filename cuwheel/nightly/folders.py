"""The folder of reports: one folder for each run, the link to the last, and the oldest removed."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from cuwheel.nightly.record import NightlyRun, read_run
from cuwheel.system.files import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LATEST = "latest"
_RUN = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(-\d+)?")


def new_run_folder(reports: Path, started: str) -> Path:
    """Make a run's folder, `2026-11-23T02-30-00Z`.

    Args:
        reports: the folder of all of them.
        started: when, in UTC, as `NightlyRun` has it.

    Raises:
        OSError: it can't be made.
    """
    reports.mkdir(parents=True, exist_ok=True)
    name = started.partition("+")[0].replace(":", "-") + "Z"
    number = 1
    while True:
        folder = reports / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:  # of another GPU's run, begun in the same second
            number += 1
        else:
            return folder


def publish(run: Path) -> None:
    """Have `latest` lead to a run; a reader finds the old one or the new, never none.

    Raises:
        OSError: it can't be written.
    """
    aside = run.parent / f".{LATEST}.{os.getpid()}"
    aside.unlink(missing_ok=True)
    aside.symlink_to(run.name)
    aside.replace(run.parent / LATEST)


def earlier_runs(run: Path) -> Iterator[tuple[str, NightlyRun]]:
    """Names and reports of the runs before one, the newest first."""
    for folder in reversed(_runs(run.parent)):
        if folder.name < run.name:
            try:
                yield folder.name, read_run(folder)
            except (OSError, ValueError):  # killed before its first step
                continue


def remove_old_runs(current: Path, keep: int) -> tuple[str, ...]:
    """Remove all runs but the newest; one that has written no end may still be going on.

    Args:
        current: the folder of the run that asks.
        keep: how many stay.

    Returns:
        The names of those that were removed.
    """
    latest = (current.parent / LATEST).resolve()
    old = [one for one in _runs(current.parent)[:-keep] if one not in {current, latest}]
    gone = [one for one in old if _has_ended(one, current)]
    for folder in gone:
        remove_tree(folder)
    return tuple(folder.name for folder in gone)


def _has_ended(folder: Path, current: Path) -> bool:
    try:
        return bool(read_run(folder).ended) or folder.name < current.name[:10]
    except (OSError, ValueError):
        return folder.name < current.name[:10]  # of a day before


def _runs(reports: Path) -> list[Path]:
    return sorted(one for one in reports.iterdir() if _RUN.fullmatch(one.name) and one.is_dir())
