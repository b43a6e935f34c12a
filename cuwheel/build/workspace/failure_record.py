"""The record of a failed build next to the wheels, for reports about many builds."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import CommandFailedError, CuwheelError
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.regular_files import open_file
from cuwheel.build.workspace.serialization import read_record, to_json


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
    """Return the path of the record of a target's failed build."""
    return dist / ".cuwheel" / f"{target}.failed.json"


def read_failure(dist: Path, target: str) -> FailureRecord | None:
    """Read how the last build of a target failed; None: it didn't."""
    return read_record(failure_path(dist, target), FailureRecord)


def read_failures(dist: Path, name: str, *, since: float) -> Iterator[FailureRecord]:
    """Read the failures of a target with any Python and framework.

    Args:
        name: `causal-conv1d-130`.
        since: seconds since the epoch.
    """
    for path in sorted(failure_path(dist, name).parent.glob(f"{name}-*.failed.json")):
        failure = read_record(path, FailureRecord)
        if failure and path.stat().st_mtime >= since:
            yield failure


def write_failure(error: CuwheelError, dist: Path, target: str) -> None:
    """Record why a build failed, with its log and the cause in it.

    A record that can't be written, as on a full disk, is no second error.
    """
    path = failure_path(dist, target)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        log, cause = _keep_log(error, path.with_suffix(".log"))
        write_atomically(path, to_json(failure_of(error, log=log, cause=cause)))


def failure_of(error: CuwheelError, *, log: str = "", cause: str = "") -> FailureRecord:
    """Describe a failure that happened now, with secrets masked."""
    from cuwheel.build.workspace.masking import PublicText  # noqa: PLC0415 - its rules take time to load

    text = PublicText({}, names=False)
    return FailureRecord(
        date=datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds"),
        exit_code=error.exit_code,
        what=text.of(error.what),
        why=text.of(error.why),
        fix=text.of(error.fix),
        anchor=cause or error.anchor,
        cause=cause,
        log=log,
    )


def forget_failure(dist: Path, target: str) -> None:
    """Remove the record: the wheel is there."""
    record = failure_path(dist, target)
    for path in (record, record.with_suffix(".log")):
        path.unlink(missing_ok=True)


def _keep_log(error: CuwheelError, copy: Path) -> tuple[str, str]:
    """Copy the log of a failed program before the next build removes it; explain it.

    Returns:
        The copy's file name, and the slug of the cause; empty where there is none.
    """
    copy.unlink(missing_ok=True)
    if not isinstance(error, CommandFailedError) or error.log is None:
        return "", ""
    from cuwheel.build.workspace.masking import PublicText  # noqa: PLC0415 - as above
    from cuwheel.check.explain.explanation import Explainer  # noqa: PLC0415 - only where it failed

    PublicText({}, names=False).copy_file(error.log, copy)
    with open_file(copy) as stream:
        causes = Explainer().explain(stream, error.known).causes
    return copy.name, causes[0].slug if causes else ""
