"""The session `release`: what would be released; it is published only where that is asked for."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import rich.console
import rich.table

from cuwheel.errors import UsageError, suggest
from cuwheel.release.folder import write_index, write_release
from cuwheel.release.gate import check_requirements, read_evidence
from cuwheel.release.notes import NOTES, headline, render_notes, withdrawn_since
from cuwheel.release.plan import earlier_releases, make_plan
from cuwheel.release.record import RECORDS, RELEASES
from cuwheel.release.upload import compare_with_index, upload
from cuwheel.release.withdrawals import Withdrawals
from cuwheel.system.files import file_lock
from cuwheel.system.output.documents import Schema
from cuwheel.system.quantities import plural, show_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.release.plan import Plan, ReleaseRequest
    from cuwheel.release.record import Release
    from cuwheel.release.upload import UploadRequest
    from cuwheel.system.console import Console

State = Literal["planned", "published", "nothing new"]
_SHA256_SHOWN = 16  # characters of a hash in the table


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was released, or would be.

    Attributes:
        release: that one; where nothing is new, the last one.
        previous: the release before it; None: it is the first.
        state: `planned`: it isn't there yet, and nothing was written.
        folder: of the release.
        superseded: wheels that are left out, as a newer build of each is there.
        missing: names of wheels that the index hasn't got, or that were uploaded now; None: no
            index was named.
    """

    release: Release
    previous: Release | None
    state: State
    folder: Path
    superseded: tuple[str, ...] = ()
    missing: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ReleaseDocument:
    """What `release --json` prints.

    Attributes:
        tag: of the release.
        state: `planned`: it isn't there yet, and nothing was written; `nothing new`: it is the last
            one.
        folder: of the release.
        superseded: names of wheels that are left out, as a newer build of each is there.
        missing: names of wheels that the index hadn't got: with `--publish` they were uploaded;
            null: no index was named.
        release: what its `release.json` holds.
    """

    SCHEMA: ClassVar[Schema] = Schema("release", "1.0")

    tag: str
    state: State
    folder: Path
    superseded: tuple[str, ...]
    missing: tuple[str, ...] | None
    release: Release


def plan_release(
    asked: ReleaseRequest, destination: UploadRequest | None, console: Console, *, tag: str = ""
) -> Outcome:
    """Say what `publish_release` would do; nothing is written.

    Raises:
        CuwheelError: as for `publish_release`.
    """
    earlier = earlier_releases(asked)
    plan = _plan(asked, earlier, tag, console)
    found = _outcome(plan, earlier, tag, asked)
    found = replace(found, state="planned" if plan else "nothing new")
    if destination is None:
        return found
    there = _check_upload(found, asked, destination)
    missing = tuple(name for name, is_there in there.items() if not is_there)
    return replace(found, missing=missing)


def publish_release(
    asked: ReleaseRequest, destination: UploadRequest | None, console: Console, *, tag: str = ""
) -> Outcome:
    """Release what is new: into a folder with its index, and from there to another index.

    Where nothing is new, the last release is published to the end. Two of these on one folder wait
    for each other.

    Args:
        asked: what is to be released.
        destination: an index that the wheels are uploaded to; None: none.
        console: shows how it goes.
        tag: of a release that is there and is to be published to the end; empty: make one.

    Raises:
        PublishedWheelError: other bytes are published under a wheel's name.
        ReleaseRequirementError: a wheel hasn't passed what is required, of a release that is
            uploaded again too.
        UploadError: an upload failed; the release is there.
        UsageError: there is nothing to release.
        CuwheelError: a wheel is none, an index can't be asked, the disk is full.
    """
    earlier_releases(asked)  # before a folder is made
    asked.to.mkdir(parents=True, exist_ok=True)
    lock = asked.to / ".release.lock"
    with file_lock(
        lock, on_wait=lambda: console.note("another release is being made; waiting for it")
    ):
        earlier = earlier_releases(asked)
        plan = _plan(asked, earlier, tag, console)
        found = _outcome(plan, earlier, tag, asked)
        if destination:
            _check_upload(found, asked, destination)  # before anything is there for good
        if plan:
            with console.stage("release"):
                write_release(plan, asked, found.previous)
            earlier = (*earlier, found.release)
        with console.stage("index"):
            withdrawals = Withdrawals(site=asked.to, releases=earlier, asked=asked.yanks)
            withdrawals.write(asked.folders)
            write_index(earlier, asked)
        if destination is None:
            return found
        wheels = {one.entry.name: found.folder / one.entry.name for one in found.release.wheels}
        entries = [one.entry for one in found.release.wheels]
        return replace(found, missing=upload(wheels, entries, destination, console))


def _plan(
    asked: ReleaseRequest, earlier: Sequence[Release], tag: str, console: Console
) -> Plan | None:
    """The release that is to be made; None: there is nothing new, or a release was named."""
    if tag:
        return None
    with console.live("release") as line:
        line.show("reading wheels and records")
        now = datetime.datetime.now(tz=datetime.timezone.utc)
        plan = make_plan(asked, earlier, now)
    return plan if plan.differs_from(earlier[-1] if earlier else None) else None


def _outcome(
    plan: Plan | None, earlier: Sequence[Release], tag: str, asked: ReleaseRequest
) -> Outcome:
    """What there is to publish.

    Raises:
        UsageError: nothing, or no release has the tag.
    """
    tags = [one.tag for one in earlier]
    if tag and tag not in tags:
        raise UsageError(
            f"{asked.to} has no release {tag}",
            why=suggest(tag, tags) if tags else "it holds none",
            fix="use an existing one, or omit --tag: a new release's tag is its date",
        )
    if plan is None and not earlier:
        raise UsageError(
            "there is nothing to release",
            why=f"no wheel is in {', '.join(map(str, asked.folders))}",
            fix="build some, `nox -s matrix -- build`, or name their folder: -- --dist DIR",
        )
    position = tags.index(tag) if tag else len(tags) if plan else len(tags) - 1
    chosen = plan.release if plan else earlier[position]
    return Outcome(
        release=chosen,
        previous=earlier[position - 1] if position else None,
        state="published" if plan else "nothing new",
        folder=asked.to / RELEASES / chosen.tag,
        superseded=plan.superseded if plan else (),
    )


def _check_upload(
    found: Outcome, asked: ReleaseRequest, destination: UploadRequest
) -> dict[str, bool]:
    """See that all wheels of a release may go to an index; nothing is written.

    Returns:
        Whether the index has each.

    Raises:
        CuwheelError: as for `publish_release`.
    """
    entries = {found.folder / one.entry.name: one.entry for one in found.release.wheels}
    if found.state == "nothing new" and asked.required:  # of a new one it was seen by its plan
        evidence = read_evidence(entries.values(), (*asked.reports, found.folder / RECORDS))
        check_requirements(asked.required, evidence, entries)
    return compare_with_index(entries.values(), destination)


def print_outcome(found: Outcome, terminal: rich.console.Console, console: Console) -> None:
    """Say what was released, or would be.

    Args:
        found: that.
        terminal: for the report.
        console: says how much.
    """
    release = found.release
    since = f", since {release.previous}" if release.previous else ", the first release"
    terminal.print(f"{release.tag}: {headline(release)}{since}", markup=False)
    if console.is_verbose:
        terminal.print(render_notes(release, found.previous), markup=False)
    elif not console.is_quiet:
        _print_table(found, terminal)
    for name in found.superseded:
        console.note(f"left out: {name}, of which there is a newer build")
    if found.state == "planned":
        if found.missing:
            console.note(f"to upload: {', '.join(found.missing)}")
        console.note(f"nothing was written; with --publish it is written to {found.folder}")
        return
    if found.state == "nothing new":
        console.note(f"nothing new since {release.tag}")
    console.note(f"{found.folder / NOTES}")
    if found.missing is not None:
        console.note(f"uploaded: {plural(len(found.missing), 'wheel')}")


def _print_table(found: Outcome, terminal: rich.console.Console) -> None:
    release = found.release
    if release.wheels:
        terminal.print(_table(release))
    for name, reason in withdrawn_since(found.previous, release).items():
        told = f"withdrawn  {name}: {reason}" if reason else f"no longer withdrawn  {name}"
        terminal.print(told, markup=False)
    for one in release.failed:
        terminal.print(f"failed  {one.target}: {one.what}; {one.why}", markup=False)


def release_document(found: Outcome) -> ReleaseDocument:
    """The same as a document."""
    return ReleaseDocument(
        tag=found.release.tag,
        state=found.state,
        folder=found.folder,
        superseded=found.superseded,
        missing=found.missing,
        release=found.release,
    )


def _table(release: Release) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", "wheel", "oldest driver", "perf", "verify", "size", "sha256"):
        table.add_column(heading, overflow="fold")
    for one in release.wheels:
        table.add_row(
            one.change,
            one.entry.name,
            ", ".join(one.facts.drivers),
            one.perf or "none",
            one.verify or "none",
            show_size(one.entry.size),
            one.entry.sha256[:_SHA256_SHOWN],
        )
    return table
