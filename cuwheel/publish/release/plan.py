"""Plan of a release: new wheels in some folders, which may be published, and withdrawn ones."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import parse_wheel_filename

from cuwheel.base.errors import PolicyError, PublishedWheelError, UsageError
from cuwheel.base.formats.wheel.publication import MARKED, build_tag_of, split_mark
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.quantities import plural
from cuwheel.build.inputs.checkouts import commit_of
from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.wheelhouse.facts import WheelFacts, keep_facts, read_facts
from cuwheel.build.wheelhouse.index_folders import FILES
from cuwheel.build.wheelhouse.narrower import check_serves_as_many
from cuwheel.build.wheelhouse.yanks import YANKS, called, changed_yanks, read_yanks, write_yanks
from cuwheel.build.workspace.masking.public_text import PublicText
from cuwheel.publish.index.publishing import read_wheels
from cuwheel.publish.release.evidence import (
    Baseline,
    Evidence,
    Requirement,
    build_logs,
    check_requirements,
    read_evidence,
    read_failures,
)
from cuwheel.publish.release.record import (
    Change,
    FailedTarget,
    Release,
    ReleasedWheel,
    next_tag,
    read_releases,
)


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """A request for a release.

    Attributes:
        reports: folders with records of `perf` and `verify`.
        base_url: address of the releases' files, before the tag; empty: wheels go to `to`.
        address: of `to`, for commands to copy.
        takes_marked: whether wheels of a source given with `--source` may be in it.
        yanks: wheels of earlier releases to withdraw, each with a reason; None: not any more.
        cells: target ids of the matrix; a failure of anything else isn't published. None: any is.
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
    takes_marked: bool = False
    replaces_broader: bool = False
    yanks: Mapping[str, str | None] = field(default_factory=dict)
    cells: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A release that isn't there yet.

    Attributes:
        evidence: records of `perf` and `verify`, by SHA-256.
        superseded: names of wheels that are left out, as a newer build of each is there.
    """

    release: Release
    wheels: tuple[Path, ...]
    logs: Mapping[str, Path]
    evidence: Mapping[str, Evidence]
    superseded: tuple[str, ...]

    def differs_from(self, last: Release | None) -> bool:
        """Return True if there are new wheels, or other withdrawals than before."""
        withdrawn = last.withdrawn if last else ()
        return bool(self.release.wheels) or self.release.withdrawn != withdrawn


def make_plan(request: ReleaseRequest, earlier: Sequence[Release], now: datetime.datetime) -> Plan:
    """Read what is new, and check that all of it may be published; nothing is written.

    Args:
        now: in UTC.

    Raises:
        PublishedWheelError: other bytes are published under a wheel's name, or a wheel of its
            version that serves more machines.
        PolicyError: a wheel hasn't passed what is required.
        WheelIndexError: files in a folder are not valid wheels.
        UsageError: two folders have different wheels of one name, or a wheel to withdraw was never
            released.
    """
    entries = _read_wheels(request)
    _refuse_marked(request, entries)
    _check_published(entries, earlier, request.to / FILES)
    new, superseded = _choose(entries, earlier)
    _check_broad(request, entries, new, earlier)
    evidence = read_evidence(new.values(), request.reports)
    check_requirements(request.required, evidence, new, _baselines(request, new, earlier))
    failed, logs = read_failures(request.folders, public_text(request), request.cells)
    of_builds = build_logs(request.folders, request.work)
    new_logs = [of_builds[entry.sha256] for entry in new.values() if entry.sha256 in of_builds]
    wheels = tuple(
        ReleasedWheel(
            entry=entry,
            facts=read_facts(path, entry.sha256, request.cache)
            if entry.has_libraries
            else WheelFacts(),
            change=_change(entry, earlier),
            perf=evidence[entry.sha256].words("perf"),
            verify=evidence[entry.sha256].words("verify"),
            log=of_builds.get(entry.sha256, ("",))[0],
        )
        for path, entry in new.items()
    )
    return Plan(
        release=_release(request, earlier, wheels, failed, now),
        wheels=tuple(new),
        logs={**logs, **dict(new_logs)},
        evidence=evidence,
        superseded=superseded,
    )


def _release(
    request: ReleaseRequest,
    earlier: Sequence[Release],
    wheels: tuple[ReleasedWheel, ...],
    failed: Mapping[str, FailedTarget],
    now: datetime.datetime,
) -> Release:
    last = earlier[-1] if earlier else None
    failed_before = {failure.target for failure in last.failed} if last else set()
    return Release(
        tag=next_tag(now.date(), [release.tag for release in earlier]),
        date=now.isoformat(timespec="seconds"),
        previous=last.tag if last else "",
        commit=commit_of(request.checkout),
        wheels=wheels,
        failed=tuple(failed.values()),
        works_again=tuple(sorted(failed_before - failed.keys())),
        withdrawn=tuple(withdrawn_after(request, earlier).items()),
    )


def _read_wheels(request: ReleaseRequest) -> dict[Path, Entry]:
    """Return all wheels of the folders by name, but variants and withdrawn ones.

    The cache has the facts of wheels that were read before.
    """
    wheels = read_wheels(request.folders, request.cache / "release")
    return {
        folder / name: entry
        for name, (folder, entry) in sorted(wheels.items())
        if not entry.variant and entry.yanked in {None, MARKED}
    }


def _refuse_marked(request: ReleaseRequest, wheels: Mapping[Path, Entry]) -> None:
    """Raise an error with all wheels that aren't of the source that their recipe pins."""
    marked = [path for path, entry in wheels.items() if split_mark(entry.version)[1]]
    if request.takes_marked or not marked:
        return
    raise PolicyError(
        f"{plural(len(marked), 'wheel')} can't be released: built from a source given with "
        "--source",
        why="\n".join(path.name for path in marked) + "\nno recipe pins what they were built from",
        fix="remove them from their folder and build without --source, or release them "
        "deliberately: --given-source",
        anchor="release-requirement",
    )


def _check_published(wheels: Mapping[Path, Entry], earlier: Iterable[Release], files: Path) -> None:
    published = {
        wheel.entry.name: (wheel.entry.sha256, release.tag)
        for release in earlier
        for wheel in release.wheels
    }
    for path in wheels:
        if path.name not in published and (files / path.name).is_file():
            published[path.name] = sha256_of_file(files / path.name), str(files)
    changed = {
        path.name: f"{path.name}: {published[path.name][1]} has {published[path.name][0]}, "
        f"{path.parent} has {entry.sha256}"
        for path, entry in wheels.items()
        if path.name in published and published[path.name][0] != entry.sha256
    }
    if changed:
        free = 1 + max(build_tag_of(name) for name in (*changed, *published))
        raise PublishedWheelError(
            f"{len(changed)} of {len(wheels)} wheels are published with other bytes",
            why="\n".join(changed.values()),
            fix=f"build them again with `-- --build-tag {free}`, which gives them new names; or "
            "leave them out with another --dist",
        )


def _choose(
    wheels: Mapping[Path, Entry], earlier: Iterable[Release]
) -> tuple[dict[Path, Entry], tuple[str, ...]]:
    """Return the newest builds that are in no release yet, and the names of older builds."""
    released = _released_names(earlier)
    newest: dict[object, Path] = {}
    for path in sorted(wheels, key=lambda path: parse_wheel_filename(path.name)[2] or (0, "")):
        project, version, _, tags = parse_wheel_filename(path.name)
        newest[project, version, tags] = path
    chosen = set(newest.values())
    new = {path: entry for path, entry in wheels.items() if path.name not in released}
    superseded = tuple(path.name for path in new if path not in chosen)
    return {path: entry for path, entry in new.items() if path in chosen}, superseded


def _check_broad(
    request: ReleaseRequest,
    wheels: Mapping[Path, Entry],
    new: Mapping[Path, Entry],
    earlier: Iterable[Release],
) -> None:
    """Raise an error if a new wheel serves fewer machines than one it would replace."""
    if request.replaces_broader:
        return
    released = {
        request.to / FILES / wheel.entry.name: wheel
        for release in earlier
        for wheel in release.wheels
    }
    withdrawn = read_yanks(request.to / FILES)
    for wheel in released.values():  # the file itself may be elsewhere
        keep_facts(wheel.facts, wheel.entry.sha256, request.cache)
    there = {path: wheel.entry for path, wheel in released.items() if path.name not in withdrawn}
    check_serves_as_many(new, {**there, **wheels}, request.cache)


def _baselines(
    request: ReleaseRequest, new: Mapping[Path, Entry], earlier: Iterable[Release]
) -> dict[str, tuple[Baseline, ...]]:
    """Return by SHA-256 the wheel that each new one follows: the last for the same machines."""
    withdrawn = withdrawn_after(request, tuple(earlier))
    last = {
        _machines(wheel.entry): wheel.entry
        for release in earlier
        for wheel in release.wheels
        if wheel.entry.name not in withdrawn
    }
    return {
        entry.sha256: (Baseline(path=request.to / FILES / old.name, sha256=old.sha256),)
        for entry in new.values()
        if (old := last.get(_machines(entry))) and old.sha256 != entry.sha256
    }


def _machines(entry: Entry) -> tuple[object, ...]:
    """Return what wheels of one package for the same machines have in common."""
    return entry.project, entry.version.local, entry.tags


def _change(entry: Entry, earlier: Iterable[Release]) -> Change:
    """Return a wheel's change from the releases before."""
    known = [
        wheel.entry
        for release in earlier
        for wheel in release.wheels
        if wheel.entry.project == entry.project
    ]
    if not known:
        return "new package"
    if all(other.version.public != entry.version.public for other in known):
        return "new version"
    same = [other for other in known if (other.version, other.tags) == (entry.version, entry.tags)]
    return "new build" if same else "new wheel"


def earlier_releases(request: ReleaseRequest) -> tuple[Release, ...]:
    """Return the releases in the folder that is served, the oldest first."""
    if missing := [folder for folder in request.folders if not folder.is_dir()]:
        raise UsageError(
            f"the folder {missing[0]} doesn't exist",
            why="the wheels to release are expected there",
            fix="build some, `nox -s matrix -- build`, or name their folder: -- --dist DIR",
        )
    return read_releases(request.to)


def public_text(request: ReleaseRequest) -> PublicText:
    """Return the masking of text that is published."""
    return PublicText(
        {
            Path.home(): "~",
            request.checkout: "<cuwheel>",
            request.cache: "<cache>",
            request.work: "<work>",
            **dict.fromkeys(request.folders, "<dist>"),
        }
    )


def withdrawn_after(request: ReleaseRequest, releases: Sequence[Release]) -> dict[str, str]:
    """Return the reasons of withdrawn wheels of some releases after the request, by name."""
    released = _released_names(releases)
    requested = called(request.yanks, released, str(request.to))
    yanks = changed_yanks(_listed_yanks(request.to, releases), requested)
    return {name: why for name, why in sorted(yanks.items()) if name in released}


def write_withdrawals(request: ReleaseRequest, releases: Sequence[Release]) -> None:
    """Write the requested changes to the site, and to those of the folders with such a wheel."""
    requested = called(request.yanks, _released_names(releases), str(request.to))
    listed = _listed_yanks(request.to, releases)
    write_yanks(request.to / FILES, changed_yanks(listed, requested))
    for folder in request.folders:
        there = {name: why for name, why in requested.items() if (folder / name).is_file()}
        write_yanks(folder, changed_yanks(read_yanks(folder), there))


def _released_names(releases: Iterable[Release]) -> set[str]:
    return {wheel.entry.name for release in releases for wheel in release.wheels}


def _listed_yanks(site: Path, releases: Sequence[Release]) -> dict[str, str]:
    """Return the reasons of withdrawals that the site lists, else those of the last record."""
    files = site / FILES
    if (files / YANKS).is_file() or not releases:
        return read_yanks(files)
    return dict(releases[-1].withdrawn)
