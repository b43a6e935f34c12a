"""What a failed build leaves beside the wheels, for whoever looks at many builds later."""

from __future__ import annotations

import contextlib
import datetime
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError
from cuwheel.system.files import write_atomically
from cuwheel.workspace.serialization import read_record, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.errors import CuwheelError


@dataclass(frozen=True, kw_only=True)
class FailureRecord:
    """How a build failed.

    Attributes:
        date: when, in UTC, `2026-11-23T01:13:29+00:00`.
        exit_code: of the error.
        what: the fact.
        why: its cause.
        fix: what to do.
        anchor: of the entry in TROUBLESHOOTING.md.
        cause: slug of the cause that `explain` finds in the log; empty without a log or a cause.
        log: file name of the copied log next to this record; empty without one.
    """

    date: str
    exit_code: int
    what: str
    why: str
    fix: str
    anchor: str
    cause: str = ""
    log: str = ""


def failure_path(dist: Path, target: str) -> Path:
    """Where the record of a target's failed build is."""
    return dist / ".cuwheel" / f"{target}.failed.json"


def read_failure(dist: Path, target: str) -> FailureRecord | None:
    """How the last build of a target failed; None where it didn't."""
    return read_record(failure_path(dist, target), FailureRecord)


def read_failures(dist: Path, name: str, *, since: float) -> Iterator[FailureRecord]:
    """How builds of a recipe for a toolkit failed lately, whichever Python and framework they had.

    Args:
        dist: where wheels go.
        name: `causal-conv1d-130`.
        since: seconds since the epoch.
    """
    for path in sorted(failure_path(dist, name).parent.glob(f"{name}-*.failed.json")):
        failure = read_record(path, FailureRecord)
        if failure and path.stat().st_mtime >= since:
            yield failure


def write_failure(error: CuwheelError, dist: Path, target: str) -> None:
    """Record why a build failed, with its log and what the log says.

    That it can't be written, as the disk may be full, is no second error.
    """
    path = failure_path(dist, target)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        log, cause = _keep_log(error, path.with_suffix(".log"))
        now = datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
        record = FailureRecord(
            date=now,
            exit_code=error.exit_code,
            what=error.what,
            why=error.why,
            fix=error.fix,
            anchor=cause or error.anchor,
            cause=cause,
            log=log,
        )
        write_atomically(path, to_json(record))


def forget_failure(dist: Path, target: str) -> None:
    """Remove the record: the wheel is there."""
    path = failure_path(dist, target)
    for one in (path, path.with_suffix(".log")):
        one.unlink(missing_ok=True)


def _keep_log(error: CuwheelError, copy: Path) -> tuple[str, str]:
    """Copy the log of a failed program, as the next build empties its folder; and explain it."""
    copy.unlink(missing_ok=True)
    if not isinstance(error, CommandFailedError) or error.log is None:
        return "", ""
    from cuwheel.explain.catalogue import Weight  # noqa: PLC0415 - only where it failed
    from cuwheel.explain.explanation import Explainer  # noqa: PLC0415 - as above

    shutil.copyfile(error.log, copy)
    with copy.open("rb") as stream:
        causes = Explainer().explain(stream, error.known).causes
    is_known = causes and causes[0].weight > Weight.PERHAPS  # a guess is no reason to record
    return copy.name, causes[0].cause.slug if is_known else ""
