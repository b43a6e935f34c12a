"""The command `release`: the plan of a release, and its publication if requested."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import rich.console
import rich.table

from cuwheel.base.errors import UsageError, suggest
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import file_lock
from cuwheel.base.system.folders.output_folder import check_output, claim
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.build.wheelhouse.index_folders import SITE_FOLDER
from cuwheel.publish.release.evidence import check_requirements, read_evidence
from cuwheel.publish.release.folder import (
    NOTES,
    headline,
    render_notes,
    withdrawn_since,
    write_index,
    write_release,
)
from cuwheel.publish.release.plan import (
    Plan,
    ReleaseRequest,
    earlier_releases,
    make_plan,
    write_withdrawals,
)
from cuwheel.publish.release.record import RECORDS, RELEASES, Release, read_releases
from cuwheel.publish.release.upload import UploadRequest, compare_with_index, upload

ReleaseState = Literal["planned", "published", "nothing new"]
_SHA256_SHOWN = 16  # characters of a hash in the table


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

    SCHEMA: ClassVar[Schema] = Schema("release", "1.2")

    tag: str
    state: ReleaseState
    folder: Path
    superseded: tuple[str, ...]
    missing: tuple[str, ...] | None
    release: Release


def plan_release(
    request: ReleaseRequest, destination: UploadRequest | None, console: Console, *, tag: str = ""
) -> ReleaseDocument:
    """Return the result that `publish_release` would have; nothing is written."""
    check_output(request.to, SITE_FOLDER)
    earlier = earlier_releases(request)
    plan = _plan(request, earlier, tag, console)
    done = _document(plan, earlier, tag, request)
    done = replace(done, state="planned" if plan else "nothing new")
    if destination is None:
        return done
    there = _check_upload(done, request, destination)
    missing = tuple(name for name, is_there in there.items() if not is_there)
    return replace(done, missing=missing)


def publish_release(
    request: ReleaseRequest, destination: UploadRequest | None, console: Console, *, tag: str = ""
) -> ReleaseDocument:
    """Release new wheels into a folder with its index, and upload them to another index.

    If nothing is new, the last release is completed. Runs on one folder wait for each other.

    Args:
        tag: of an existing release to complete; empty: make one.

    Raises:
        PublishedWheelError: other bytes are published under a wheel's name.
        PolicyError: a wheel hasn't passed what is required.
        CommandFailedError: an upload failed; the release is there.
        UsageError: there is nothing to release, or the folder isn't cuwheel's.
        CuwheelError: a wheel is damaged, an index doesn't answer, the disk is full.
    """
    check_output(request.to, SITE_FOLDER)
    earlier_releases(request)  # before a folder is made
    lock = request.to / ".release.lock"
    with file_lock(
        lock, on_wait=lambda: console.note("another release is being made; waiting for it")
    ):
        claim(request.to, SITE_FOLDER)
        earlier = earlier_releases(request)
        plan = _plan(request, earlier, tag, console)
        done = _document(plan, earlier, tag, request)
        if destination:
            _check_upload(done, request, destination)  # before anything is there for good
        if plan:
            with console.stage("release"):
                write_release(plan, request, earlier[-1] if earlier else None)
            earlier = (*earlier, done.release)
        with console.stage("index"):
            write_withdrawals(request, earlier)
            write_index(earlier, request)
        if destination is None:
            return done
        wheels = {wheel.entry.name: done.folder / wheel.entry.name for wheel in done.release.wheels}
        entries = [wheel.entry for wheel in done.release.wheels]
        return replace(done, missing=upload(wheels, entries, destination, console))


def _plan(
    request: ReleaseRequest, earlier: Sequence[Release], tag: str, console: Console
) -> Plan | None:
    """Return the plan of a new release; None: nothing is new, or a release was named."""
    if tag:
        return None
    with console.live("release") as line:
        line.show("reading wheels and records")
        now = datetime.datetime.now(tz=datetime.timezone.utc)
        plan = make_plan(request, earlier, now)
    return plan if plan.differs_from(earlier[-1] if earlier else None) else None


def _document(
    plan: Plan | None, earlier: Sequence[Release], tag: str, request: ReleaseRequest
) -> ReleaseDocument:
    """Return the release to publish; raise a UsageError if there is none."""
    tags = [release.tag for release in earlier]
    if tag and tag not in tags:
        raise UsageError(
            f"{request.to} has no release {tag}",
            why=suggest(tag, tags) if tags else "it holds none",
            fix="use an existing one, or omit --tag: a new release's tag is its date",
        )
    if plan is None and not earlier:
        raise UsageError(
            "there is nothing to release",
            why=f"no wheel is in {', '.join(map(str, request.folders))}",
            fix="build some, `nox -s matrix -- build`, or name their folder: -- --dist DIR",
        )
    chosen = plan.release if plan else earlier[tags.index(tag) if tag else -1]
    return ReleaseDocument(
        tag=chosen.tag,
        release=chosen,
        state="published" if plan else "nothing new",
        folder=request.to / RELEASES / chosen.tag,
        superseded=plan.superseded if plan else (),
        missing=None,
    )


def _check_upload(
    done: ReleaseDocument, request: ReleaseRequest, destination: UploadRequest
) -> dict[str, bool]:
    """Return True for each wheel that the index has; raise an error for other bytes."""
    entries = {done.folder / wheel.entry.name: wheel.entry for wheel in done.release.wheels}
    if done.state == "nothing new" and request.required:  # a new one was checked by its plan
        evidence = read_evidence(entries.values(), (*request.reports, done.folder / RECORDS))
        check_requirements(request.required, evidence, entries)
    return compare_with_index(entries.values(), destination)


def print_release(done: ReleaseDocument, terminal: rich.console.Console, console: Console) -> None:
    """Print what was released, or would be."""
    release = done.release
    earlier = {each.tag: each for each in read_releases(done.folder.parent.parent)}
    previous = earlier.get(release.previous)
    since = f", since {release.previous}" if release.previous else ", the first release"
    terminal.print(f"{release.tag}: {headline(release)}{since}", markup=False)
    if console.is_verbose:
        terminal.print(render_notes(release, previous), markup=False)
    elif not console.is_quiet:
        _print_table(release, previous, terminal)
    for name in done.superseded:
        console.note(f"left out: {name}, of which there is a newer build")
    if done.state == "planned":
        if done.missing:
            console.note(f"to upload: {', '.join(done.missing)}")
        console.note(f"nothing was written; with --publish it is written to {done.folder}")
        return
    if done.state == "nothing new":
        console.note(f"nothing new since {release.tag}")
    console.note(f"{done.folder / NOTES}")
    if done.missing is not None:
        console.note(f"uploaded: {plural(len(done.missing), 'wheel')}")


def _print_table(
    release: Release, previous: Release | None, terminal: rich.console.Console
) -> None:
    if release.wheels:
        terminal.print(_table(release))
    for name, reason in withdrawn_since(previous, release).items():
        text = f"withdrawn  {name}: {reason}" if reason else f"no longer withdrawn  {name}"
        terminal.print(text, markup=False)
    for failure in release.failed:
        terminal.print(f"failed  {failure.target}: {failure.what}; {failure.why}", markup=False)


def _table(release: Release) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", "wheel", "oldest driver", "perf", "verify", "size", "sha256"):
        table.add_column(heading, overflow="fold")
    for wheel in release.wheels:
        table.add_row(
            wheel.change,
            wheel.entry.name,
            ", ".join(wheel.facts.drivers),
            wheel.perf or "none",
            wheel.verify or "none",
            show_size(wheel.entry.size),
            wheel.entry.sha256[:_SHA256_SHOWN],
        )
    return table
