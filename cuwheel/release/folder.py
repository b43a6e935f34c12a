"""A release as a folder: complete or not there, and the index beside it."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from cuwheel.errors import WheelIndexError
from cuwheel.index.entries import ATTESTATIONS, METADATA
from cuwheel.index.facts import keep_facts
from cuwheel.index.site import SiteRequest, write_site
from cuwheel.release.notes import CHECKSUMS, NOTES, render_notes
from cuwheel.release.plan import public_text
from cuwheel.release.record import RECORD, RECORDS, RELEASES
from cuwheel.system.files import (
    list_tree,
    naming_full_disk,
    new_folder,
    remove_tree,
    sha256_of_file,
)
from cuwheel.system.output.documents import as_file
from cuwheel.wheel.archive import open_wheel
from cuwheel.wheel.publication import REBUILT, statement_of
from cuwheel.wheel.staged_files import sync_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.index.site import Site
    from cuwheel.release.plan import Plan, ReleaseRequest
    from cuwheel.release.private_text import PublicText
    from cuwheel.release.record import Release

_CHUNK = 1 << 20  # bytes


def write_release(plan: Plan, asked: ReleaseRequest, last: Release | None) -> Path:
    """Put a release into its folder, which is there when all of it is.

    The caller holds the lock of the folder that is served.

    Args:
        plan: of the release.
        asked: where it goes.
        last: the release before.

    Raises:
        WheelIndexError: a wheel has changed since the plan was made.
        DiskFullError: no space is left.
    """
    folder = asked.to / RELEASES / plan.release.tag
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(".v*"):  # of one that was killed
        remove_tree(left)
    text = public_text(asked)
    with naming_full_disk(asked.to), new_folder(folder) as aside:
        for path, wheel in zip(plan.wheels, plan.release.wheels, strict=True):
            _copy_wheel(path, wheel.entry.sha256, aside)
        for place, log in plan.logs.items():
            _copy_log(log, aside / place, text)
        for wheel in plan.release.wheels:
            for kind, record in plan.evidence[wheel.entry.sha256].files.items():
                _copy_log(record, aside / RECORDS / f"{wheel.entry.name}.{kind}.json", text)
        _write(aside / RECORD, as_file(plan.release))
        _write(aside / NOTES, render_notes(plan.release, last))
        _write(aside / CHECKSUMS, _checksums(aside))
        # Else a power cut can leave the name with records and wheels that hold nothing.
        sync_files(aside, [str(aside / name) for name in list_tree(aside)])
    return folder


def write_index(releases: Sequence[Release], asked: ReleaseRequest) -> Site:
    """Bring the index up to date with some releases.

    Args:
        releases: all of them, the oldest first.
        asked: where they are.

    Raises:
        WheelIndexError: a file in the release isn't the wheel that it was.
        DiskFullError: no space is left.
    """
    last = releases[-1]
    folder = asked.to / RELEASES / last.tag
    site = SiteRequest(
        folders=(),
        site=asked.to,
        base_url="",
        address=asked.address,
        cache=asked.cache,
    )
    if asked.base_url:
        for wheel in (wheel for one in releases for wheel in one.wheels):
            keep_facts(wheel.facts, wheel.entry.sha256, asked.cache)
        base = asked.base_url.rstrip("/")
        published = tuple(
            replace(wheel.entry, at=f"{base}/{one.tag}") for one in releases for wheel in one.wheels
        )
        return write_site(replace(site, base_url=f"{base}/{last.tag}", published=published))
    # What is in the site may have been withdrawn there; the folder of a release says nothing of it.
    # What lacks may be of an older release too: one that was ended before its index was written.
    lacking = [
        one
        for one in releases
        if not all((site.files / wheel.entry.name).is_file() for wheel in one.wheels)
    ]
    folders = {asked.to / RELEASES / one.tag: one for one in lacking}
    written = write_site(replace(site, folders=tuple(folders)))
    for place, one in {**folders, folder: last}.items():
        for wheel in one.wheels:
            _share(site.files / wheel.entry.name, place / wheel.entry.name)
    return written


def _share(source: Path, final: Path) -> None:
    """Let two files of the same bytes be one, where the file system can: neither ever changes."""
    if final.samefile(source):
        return
    aside = final.with_name(f".{final.name}.link")
    with contextlib.suppress(OSError):
        aside.unlink(missing_ok=True)
        aside.hardlink_to(source)
        aside.replace(final)


def _copy_wheel(path: Path, sha256: str, folder: Path) -> None:
    """Copy a wheel with all that is published beside it.

    Raises:
        WheelIndexError: it isn't the wheel any more whose hash is given.
    """
    digest = hashlib.sha256()
    final = folder / path.name
    with path.open("rb") as stream, final.open("xb") as written:
        while piece := stream.read(_CHUNK):
            digest.update(piece)
            written.write(piece)
    if digest.hexdigest() != sha256:
        raise WheelIndexError(
            f"{path.name} changed while it was being released",
            why=f"its SHA-256 was {sha256}, it is {digest.hexdigest()}",
            fix="wait until the process that writes it has ended, and run the same command again",
        )
    with open_wheel(final) as wheel:
        (folder / f"{path.name}{METADATA}").write_bytes(wheel.read("METADATA") or b"")
    attestations = path.with_name(f"{path.name}{ATTESTATIONS}")
    rebuilt = (one for one in path.parent.iterdir() if one.name.startswith(f"{path.name}{REBUILT}"))
    for beside in (statement_of(path), attestations, *rebuilt):
        if beside.is_file():
            shutil.copyfile(beside, folder / beside.name)


def _copy_log(source: Path, final: Path, text: PublicText) -> None:
    """Copy text of this machine without its folders and without passwords in addresses."""
    final.parent.mkdir(parents=True, exist_ok=True)
    with source.open(encoding="utf-8", errors="replace") as stream, final.open("x") as written:
        for line in stream:
            written.write(text.of(line))


def _checksums(folder: Path) -> str:
    """In the form of sha256sum(1)."""
    return "".join(f"{sha256_of_file(folder / name)}  {name}\n" for name in list_tree(folder))


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
