"""Targets whose last build made no wheel: what failed, and why by `explain`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from cuwheel.explain.catalogue import Weight
from cuwheel.explain.explanation import Explainer
from cuwheel.release.record import FailedTarget
from cuwheel.system.regular_files import read_json
from cuwheel.workspace.failure_record import failure_path, read_failure

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.explain.explanation import FoundCause
    from cuwheel.release.private_text import PublicText
    from cuwheel.workspace.failure_record import FailureRecord

LOGS = "logs"  # folder of a release
_SUFFIX = ".failed.json"


def read_failures(
    folders: Iterable[Path], text: PublicText
) -> tuple[dict[str, FailedTarget], dict[str, Path]]:
    """The failed targets of some folders of wheels.

    Args:
        folders: of wheels.
        text: makes what was said of a failure fit to be published.

    Returns:
        Each by its name, and the logs that there are by their place in the release.
    """
    found: dict[str, FailedTarget] = {}
    logs: dict[str, Path] = {}
    explain = functools.cache(Explainer)  # it costs a second, and most releases need none
    for folder in folders:
        for path in sorted(failure_path(folder, "x").parent.glob(f"*{_SUFFIX}")):
            target = path.name.removesuffix(_SUFFIX)
            record = read_failure(folder, target)
            if record is None:
                continue
            log = path.with_suffix(".log")
            place = f"{LOGS}/{target}.failed.log" if log.is_file() else ""
            cause = _cause(explain(), log) if place else None
            found[target] = _failed(target, record, cause, place, text)
            logs |= {place: log} if place else {}
    return dict(sorted(found.items())), logs


def _failed(
    target: str, record: FailureRecord, cause: FoundCause | None, log: str, text: PublicText
) -> FailedTarget:
    """A failed target, in the words of what its log shows, else of its error."""
    return FailedTarget(
        target=target,
        date=record.date,
        what=text.of(record.what),
        why=text.of((cause.why if cause else "") or record.why),
        fix=text.of((cause.fix if cause else "") or record.fix),
        anchor=cause.cause.slug if cause else record.anchor,
        log=log,
    )


def _cause(explainer: Explainer, log: Path) -> FoundCause | None:
    """The likeliest cause that a log shows; a guess is none."""
    with log.open("rb") as stream:
        causes = explainer.explain(stream).causes
    return causes[0] if causes and causes[0].weight > Weight.PERHAPS else None


def build_logs(folders: Iterable[Path], work: Path) -> dict[str, tuple[str, Path]]:
    """The log of each wheel's build: its place in the release and its file, by SHA-256.

    Args:
        folders: of wheels.
        work: folder of the builds, of which each target has one.
    """
    found = {}
    for folder in folders:
        for path in failure_path(folder, "x").parent.glob("*.json"):
            try:
                sha256 = str((read_json(path) or {})["summary"]["sha256"])
            except (KeyError, TypeError):
                continue
            log = work / path.stem / "logs" / "build.log"
            if log.is_file():
                found[sha256] = (f"{LOGS}/{path.stem}.log", log)
    return found
