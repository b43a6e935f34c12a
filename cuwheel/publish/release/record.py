"""The record of a release, `release.json`, and the tags of releases, such as `v2026-11-23.1`."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cuwheel.base.errors import UsageError
from cuwheel.base.system.files import checked_sha256
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.build.wheelhouse.entries import Entry, checked_toolkit
from cuwheel.build.wheelhouse.facts import WheelFacts
from cuwheel.build.workspace.serialization import from_json

RELEASES = "releases"  # folder of all of them
RECORD = "release.json"
RECORDS = "records"  # folder of a release: what was measured and verified
_TAG = re.compile(r"v(\d{4}-\d\d-\d\d)(?:\.([1-9]\d*))?")
Change = Literal["new package", "new version", "new wheel", "new build"]


@dataclass(frozen=True, kw_only=True)
class ReleasedWheel:
    """A wheel of a release.

    Attributes:
        entry: as the index has it.
        facts: what is in it.
        change: what it is to who knows the releases before: `new wheel` is one of a known version
            for another Python, CUDA or framework, `new build` other bytes of a known wheel.
        perf: what the newest measurement of these bytes found, in words; empty: there is none.
        verify: likewise of the newest verification.
        log: of its build, relative to the release; empty: none is kept.
    """

    entry: Entry
    facts: WheelFacts
    change: Change
    perf: str = ""
    verify: str = ""
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class FailedTarget:
    """A target whose last build made no wheel.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        date: of the build, in UTC.
        what: the fact.
        why: its cause: by `explain`, where the log shows it.
        fix: what to do, likewise.
        anchor: of TROUBLESHOOTING.md.
        log: relative to the release; empty without one.
    """

    target: str
    date: str
    what: str
    why: str
    fix: str
    anchor: str
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release; what its `release.json` holds.

    Attributes:
        tag: `v2026-11-23`.
        date: when it was put together, in UTC, ISO 8601.
        previous: the tag of the release before; empty: it is the first.
        commit: of cuwheel's checkout; empty where it is no git repository.
        wheels: what is new in it, by name; those of the releases before stay published.
        failed: targets without a wheel.
        works_again: targets that had failed at the release before, and don't any more.
        withdrawn: names and reasons of all wheels that were withdrawn from earlier releases.
    """

    SCHEMA: ClassVar[Schema] = Schema("release-record", "1.2")

    tag: str
    date: str
    previous: str
    commit: str
    wheels: tuple[ReleasedWheel, ...]
    failed: tuple[FailedTarget, ...] = ()
    works_again: tuple[str, ...] = ()
    withdrawn: tuple[tuple[str, str], ...] = ()


def read_releases(folder: Path) -> tuple[Release, ...]:
    """Read the releases in a folder, which may be missing, the oldest first."""
    folders = {
        path: order
        for path in (folder / RELEASES).glob("*")
        if path.is_dir() and (order := tag_order(path.name))
    }
    return tuple(map(_read_release, sorted(folders, key=folders.__getitem__)))


def _read_release(folder: Path) -> Release:
    path = folder / RECORD
    try:
        content = parse_json(read_text(path))
        Release.SCHEMA.take_from(content)
        wheels = tuple(map(_wheel_of, content.pop("wheels")))
        failed = tuple(from_json(FailedTarget, data) for data in content.pop("failed"))
        release = from_json(Release, {**content, "wheels": [], "failed": []})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(
            f"{path} is not the record of a release",
            why=f"{type(problem).__name__}: {problem}",
            fix="restore it from a backup: only these records show what is published",
        ) from problem
    return replace(release, tag=folder.name, wheels=wheels, failed=failed)


def _wheel_of(data: dict[str, Any]) -> ReleasedWheel:
    """Return a wheel from its data; raise a ValueError for names that lead elsewhere."""
    entry = from_json(Entry, data.pop("entry"))
    facts = from_json(WheelFacts, data.pop("facts"))
    try:
        parse_wheel_filename(entry.name)
    except InvalidWheelFilename as problem:
        raise ValueError(str(problem)) from problem
    if "/" in entry.name:
        raise ValueError(f"{entry.name} is not a file name")
    # Files of the cache get their names from it, and folders of the site from the toolkit.
    if not entry.sha256 or checked_sha256(entry.sha256) != entry.sha256:
        raise ValueError(f"{entry.sha256!r} is not a SHA-256")
    if checked_toolkit(entry.toolkit) != entry.toolkit:
        raise ValueError(f"{entry.toolkit!r} is not a CUDA release")
    return ReleasedWheel(entry=entry, facts=facts, **data)


def tag_order(tag: str) -> tuple[str, int] | None:
    """Return a sorting key by time, `.10` after `.9`; None for what is no tag of a release."""
    match = _TAG.fullmatch(tag)
    return (match[1], int(match[2] or 0)) if match else None


def next_tag(day: datetime.date, taken: Collection[str]) -> str:
    """Return the tag of one more release on a day in UTC."""
    first = f"v{day.isoformat()}"
    orders = [order for tag in taken if (order := tag_order(tag)) and order[0] == day.isoformat()]
    return f"{first}.{max(number for _, number in orders) + 1}" if orders else first
