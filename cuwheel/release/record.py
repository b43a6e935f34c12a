"""What a release is, as it stands in its `release.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cuwheel.errors import UsageError
from cuwheel.index.entries import Entry, checked_toolkit
from cuwheel.index.facts import WheelFacts
from cuwheel.release.tags import is_tag, tag_order
from cuwheel.system.files import checked_sha256
from cuwheel.system.output.documents import Schema
from cuwheel.system.whole_files import read_text
from cuwheel.workspace.serialization import from_json

if TYPE_CHECKING:
    from pathlib import Path

RELEASES = "releases"  # folder of all of them
RECORD = "release.json"
RECORDS = "records"  # folder of a release: what was measured and verified
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

    SCHEMA: ClassVar[Schema] = Schema("release-record", "1.0")

    tag: str
    date: str
    previous: str
    commit: str
    wheels: tuple[ReleasedWheel, ...]
    failed: tuple[FailedTarget, ...] = ()
    works_again: tuple[str, ...] = ()
    withdrawn: tuple[tuple[str, str], ...] = ()


def read_releases(folder: Path) -> tuple[Release, ...]:
    """The releases in a folder, the oldest first.

    Args:
        folder: that is served; needn't be there.

    Raises:
        UsageError: one can't be read.
    """
    found = [path for path in (folder / RELEASES).glob("*") if path.is_dir() and is_tag(path.name)]
    return tuple(map(_read_release, sorted(found, key=lambda path: tag_order(path.name))))


def _read_release(folder: Path) -> Release:
    path = folder / RECORD
    try:
        content = json.loads(read_text(path))
        Release.SCHEMA.take_from(content)
        wheels = tuple(map(_wheel_of, content.pop("wheels")))
        failed = tuple(from_json(FailedTarget, one) for one in content.pop("failed"))
        found = from_json(Release, {**content, "wheels": [], "failed": []})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(
            f"{path} is not the record of a release",
            why=f"{type(problem).__name__}: {problem}",
            fix="restore it from a backup: only these records show what is published",
        ) from problem
    return replace(found, tag=folder.name, wheels=wheels, failed=failed)


def _wheel_of(data: dict[str, Any]) -> ReleasedWheel:
    """A wheel again.

    Raises:
        ValueError: it is none: its name, hash or toolkit leads elsewhere, or a field is of another
            type.
    """
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
