"""What a release would hold: all that is new in some folders of wheels, and may be published."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cuwheel.errors import PublishedWheelError, UsageError
from cuwheel.index.entries import read_entries
from cuwheel.index.facts import WheelFacts, read_facts
from cuwheel.index.publishing import merged
from cuwheel.index.site import FILES
from cuwheel.index.yanks import read_yanks
from cuwheel.release.failures import build_logs, read_failures
from cuwheel.release.gate import check_requirements, read_evidence
from cuwheel.release.private_text import PublicText
from cuwheel.release.record import Release, ReleasedWheel, read_releases
from cuwheel.release.tags import next_tag
from cuwheel.release.withdrawals import Withdrawals
from cuwheel.sources.checkouts import commit_of
from cuwheel.system.files import sha256_of_file
from cuwheel.wheel.publication import build_tag_of

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping, Sequence

    from cuwheel.index.entries import Entry
    from cuwheel.release.gate import Evidence, Requirement
    from cuwheel.release.record import Change, FailedTarget


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """What is to be released.

    Attributes:
        folders: of wheels.
        to: the folder that is served.
        work: folder of the builds, for their logs.
        reports: folders with records of `perf` and `verify`.
        required: what each wheel has to have passed.
        cache: the cache's folder.
        checkout: of cuwheel, whose commit is named.
        base_url: address of the releases' files, a tag comes behind it; empty: wheels go to `to`.
        address: of `to`, for the lines that people copy.
        yanks: wheels of earlier releases that are withdrawn, and why, as `index.yanks.yank` takes
            them; None: they are good again.
    """

    folders: tuple[Path, ...]
    to: Path
    work: Path
    reports: tuple[Path, ...]
    required: tuple[Requirement, ...]
    cache: Path
    checkout: Path
    base_url: str = ""
    address: str = ""
    yanks: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A release that isn't there yet.

    Attributes:
        release: all that its record will say.
        wheels: the files of its wheels.
        logs: files by their place in the release.
        evidence: records of `perf` and `verify`, by SHA-256.
        superseded: names of wheels that are left out, as a newer build of each is there.
    """

    release: Release
    wheels: tuple[Path, ...]
    logs: Mapping[str, Path]
    evidence: Mapping[str, Evidence]
    superseded: tuple[str, ...]

    def differs_from(self, last: Release | None) -> bool:
        """Whether there are new wheels, or others are withdrawn than at the release before."""
        withdrawn = last.withdrawn if last else ()
        return bool(self.release.wheels) or self.release.withdrawn != withdrawn


def make_plan(asked: ReleaseRequest, earlier: Sequence[Release], now: datetime.datetime) -> Plan:
    """See what is new, and that all of it may be published; nothing is written.

    Args:
        asked: what is to be released.
        earlier: the releases before, the oldest first.
        now: in UTC.

    Raises:
        PublishedWheelError: other bytes are published under a wheel's name.
        ReleaseRequirementError: a wheel hasn't passed what is required.
        WheelIndexError: files in a folder are not valid wheels.
        UsageError: two folders have different wheels of one name, or what is to be withdrawn was
            never released.
    """
    found = _read_wheels(asked)
    _check_published(found, earlier, asked.to / FILES)
    new, superseded = _choose(found, earlier)
    evidence = read_evidence(new.values(), asked.reports)
    check_requirements(asked.required, evidence, new)
    failed, logs = read_failures(asked.folders, public_text(asked))
    of_builds = build_logs(asked.folders, asked.work)
    kept = [of_builds[entry.sha256] for entry in new.values() if entry.sha256 in of_builds]
    wheels = tuple(
        ReleasedWheel(
            entry=entry,
            facts=_facts(path, entry, asked.cache),
            change=_change(entry, earlier),
            perf=evidence[entry.sha256].perf_words,
            verify=evidence[entry.sha256].verify_words,
            log=of_builds.get(entry.sha256, ("",))[0],
        )
        for path, entry in new.items()
    )
    return Plan(
        release=_release(asked, earlier, wheels, failed, now),
        wheels=tuple(new),
        logs={**logs, **dict(kept)},
        evidence=evidence,
        superseded=superseded,
    )


def _release(
    asked: ReleaseRequest,
    earlier: Sequence[Release],
    wheels: tuple[ReleasedWheel, ...],
    failed: Mapping[str, FailedTarget],
    now: datetime.datetime,
) -> Release:
    """The record of what is found, beside the release before."""
    last = earlier[-1] if earlier else None
    failed_before = {one.target for one in last.failed} if last else set()
    withdrawals = Withdrawals(site=asked.to, releases=earlier, asked=asked.yanks)
    return Release(
        tag=next_tag(now.date(), [one.tag for one in earlier]),
        date=now.isoformat(timespec="seconds"),
        previous=last.tag if last else "",
        commit=commit_of(asked.checkout),
        wheels=wheels,
        failed=tuple(failed.values()),
        works_again=tuple(sorted(failed_before - failed.keys())),
        withdrawn=tuple(withdrawals.after().items()),
    )


def _read_wheels(asked: ReleaseRequest) -> dict[Path, Entry]:
    """All wheels of the folders but variants and those that were withdrawn, by name.

    A wheel that was read before isn't read again; what is known of it lies in the cache.
    """
    sources = {}
    for folder in asked.folders:
        digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        kept = asked.cache / "release" / f"{digest}.json"
        sources[folder] = read_entries(folder, read_yanks(folder), kept, writes=False)
    return {
        folder / name: entry
        for name, (folder, entry) in sorted(merged(sources).items())
        if not entry.variant and entry.yanked is None
    }


def _check_published(found: Mapping[Path, Entry], earlier: Iterable[Release], files: Path) -> None:
    """See that no name has been published with other bytes, by a release or in the site.

    Raises:
        PublishedWheelError: some have.
    """
    published = {
        wheel.entry.name: (wheel.entry.sha256, one.tag) for one in earlier for wheel in one.wheels
    }
    for path in found:
        if path.name not in published and (files / path.name).is_file():
            published[path.name] = sha256_of_file(files / path.name), str(files)
    changed = {
        path.name: f"{path.name}: {published[path.name][1]} has {published[path.name][0]}, "
        f"{path.parent} has {entry.sha256}"
        for path, entry in found.items()
        if path.name in published and published[path.name][0] != entry.sha256
    }
    if changed:
        free = 1 + max(build_tag_of(name) for name in (*changed, *published))
        raise PublishedWheelError(
            f"{len(changed)} of {len(found)} wheels are published with other bytes",
            why="\n".join(changed.values()),
            fix=f"build them again with `-- --build-tag {free}`, which gives them new names; or "
            "leave them out with another --dist",
        )


def _choose(
    found: Mapping[Path, Entry], earlier: Iterable[Release]
) -> tuple[dict[Path, Entry], tuple[str, ...]]:
    """The wheels that are in no release yet; of several builds of one, the newest.

    Returns:
        These, and the names of the older builds.
    """
    released = {wheel.entry.name for one in earlier for wheel in one.wheels}
    newest: dict[object, Path] = {}
    for path in sorted(found, key=lambda one: parse_wheel_filename(one.name)[2] or (0, "")):
        project, version, _, tags = parse_wheel_filename(path.name)
        newest[project, version, tags] = path
    chosen = set(newest.values())
    new = {path: entry for path, entry in found.items() if path.name not in released}
    superseded = tuple(path.name for path in new if path not in chosen)
    return {path: entry for path, entry in new.items() if path in chosen}, superseded


def _facts(path: Path, entry: Entry, cache: Path) -> WheelFacts:
    return read_facts(path, entry.sha256, cache) if entry.has_libraries else WheelFacts()


def _change(entry: Entry, earlier: Iterable[Release]) -> Change:
    """What a wheel is to who knows the releases before."""
    known = [
        wheel.entry
        for one in earlier
        for wheel in one.wheels
        if wheel.entry.project == entry.project
    ]
    if not known:
        return "new package"
    if all(one.version.public != entry.version.public for one in known):
        return "new version"
    same = [one for one in known if (one.version, one.tags) == (entry.version, entry.tags)]
    return "new build" if same else "new wheel"


def earlier_releases(asked: ReleaseRequest) -> tuple[Release, ...]:
    """The releases in the folder that is served, the oldest first.

    Raises:
        UsageError: one can't be read, or a folder of wheels isn't there.
    """
    if missing := [folder for folder in asked.folders if not folder.is_dir()]:
        raise UsageError(
            f"the folder {missing[0]} doesn't exist",
            why="the wheels to release are expected there",
            fix="build some, `nox -s matrix -- build`, or name their folder: -- --dist DIR",
        )
    return read_releases(asked.to)


def public_text(asked: ReleaseRequest) -> PublicText:
    """What makes the text of a release fit to be published."""
    return PublicText(
        {
            Path.home(): "~",
            asked.checkout: "<cuwheel>",
            asked.cache: "<cache>",
            asked.work: "<work>",
            **dict.fromkeys(asked.folders, "<dist>"),
        }
    )
