"""All that a server needs: indexes for installers, pages for people, and the wheels."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import PublishedWheelError, UsageError
from cuwheel.index.entries import ATTESTATIONS, read_entries
from cuwheel.index.facts import cuda_tag, read_facts
from cuwheel.index.fingerprint import fingerprint
from cuwheel.index.pages import ListedWheel, people_pages
from cuwheel.index.simple_api import simple_pages
from cuwheel.index.tree import replace_pages
from cuwheel.index.yanks import read_yanks, write_yanks
from cuwheel.system.files import (
    file_lock,
    naming_full_disk,
    new_file,
    remove_parts,
    write_atomically,
)
from cuwheel.wheel.publication import SIMPLE, statement_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cuwheel.index.entries import Entry

_FILES = "files"  # folder of the wheels
_PACKAGES = "packages"  # folder of the pages for people


@dataclass(frozen=True, kw_only=True)
class SiteRequest:
    """What is to be published where.

    Attributes:
        folders: of wheels.
        site: the folder that is served.
        base_url: where the wheels are, if not in the site: GitHub's address of a release's files, a
            bucket; empty: they are put into the site.
        address: of the site, for the lines that people copy; empty: the page finds it out.
        cache: the cache's folder.
    """

    folders: tuple[Path, ...]
    site: Path
    base_url: str
    address: str
    cache: Path


@dataclass(frozen=True, kw_only=True)
class Site:
    """What was published.

    Attributes:
        wheels: so many in all.
        added: so many of them are new.
        cuda: releases with an index of their own, `cu130`.
    """

    wheels: int
    added: int
    cuda: tuple[str, ...]


def write_site(asked: SiteRequest) -> Site:
    """Publish the wheels of some folders; what is published stays, under its name and as it is.

    A wheel that is gone from its folder stays in the site. Two of these on one site wait for each
    other.

    Raises:
        PublishedWheelError: other bytes are published under a wheel's name.
        WheelIndexError: files in a folder are not valid wheels.
        UsageError: two folders have different wheels of one name, or a list of yanks is damaged.
        DiskFullError: no space is left.
    """
    asked.site.mkdir(parents=True, exist_ok=True)
    kept = asked.cache / "index" / hashlib.sha256(str(asked.site).encode()).hexdigest()[:16]
    with file_lock(kept.with_suffix(".lock")), naming_full_disk(asked.site):
        last = kept.with_suffix(".last")
        if found := _unchanged(asked, last):
            return found
        site = _write(asked, kept.with_suffix(".json"))
        said = {"state": _state_of(asked), "wheels": site.wheels, "cuda": site.cuda}
        write_atomically(last, json.dumps(said))
        return site


def _state_of(asked: SiteRequest) -> str:
    return fingerprint((*asked.folders, asked.site), asked.base_url, asked.address)


def _unchanged(asked: SiteRequest, last: Path) -> Site | None:
    """The site as it is, if it was written from the same files and nothing was touched since."""
    try:
        said = json.loads(last.read_bytes())
        if said["state"] == _state_of(asked):
            return Site(wheels=said["wheels"], added=0, cuda=tuple(said["cuda"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _write(asked: SiteRequest, known: Path) -> Site:
    """Write it anew; what stays as it is isn't touched."""
    sources = {folder: read_entries(folder, read_yanks(folder)) for folder in asked.folders}
    found = _merged(sources)
    if asked.base_url:
        wheels = {folder / one.name: one for folder, one in found.values()}
        return _write_pages(asked, wheels, added=0)
    files = asked.site / _FILES
    files.mkdir(exist_ok=True)
    remove_parts(files)
    published = {one.name: one for one in read_entries(files, {}, known)}
    added = _publish(files, found, published)
    yanks = _yanks(files, found)
    entries = read_entries(files, yanks, known)
    return _write_pages(asked, {files / one.name: one for one in entries}, added=added)


def _merged(sources: Mapping[Path, Sequence[Entry]]) -> dict[str, tuple[Path, Entry]]:
    """All wheels by name, with their folder.

    Raises:
        UsageError: one name, different bytes.
    """
    found: dict[str, tuple[Path, Entry]] = {}
    for folder, entries in sources.items():
        for entry in entries:
            other, there = found.setdefault(entry.name, (folder, entry))
            if there.sha256 != entry.sha256:
                raise UsageError(
                    f"two folders have different wheels with the name {entry.name}",
                    why=f"SHA-256 {there.sha256} in {other}, {entry.sha256} in {folder}",
                    fix="publish one of them; a rebuilt wheel gets a build tag by itself when it "
                    "is built with the same --dist",
                )
    return found


def _publish(
    files: Path, found: Mapping[str, tuple[Path, Entry]], published: Mapping[str, Entry]
) -> int:
    """Put new wheels, and what belongs to them, into the site; how many these are.

    Raises:
        PublishedWheelError: other bytes have the name.
    """
    changed = [
        f"{name}: {published[name].sha256} is published, {entry.sha256} is in {folder}"
        for name, (folder, entry) in found.items()
        if name in published and published[name].sha256 != entry.sha256
    ]
    if changed:
        raise PublishedWheelError(
            f"{len(changed)} wheels are published with other bytes",
            why="; ".join(changed),
            fix="build again with the folder of the published wheels as --dist: the new wheel gets "
            "a build tag that is free",
        )
    for name, (folder, _) in found.items():
        for source in (statement_of(folder / name), folder / f"{name}{ATTESTATIONS}"):
            if source.is_file():
                _copy(source, files / source.name)
        if name not in published:
            _copy(folder / name, files / name)
    return len(found.keys() - published.keys())


def _copy(source: Path, final: Path) -> None:
    """Copy a file; where it is there already with its size and time, it stays."""
    state = source.stat()
    if final.is_file():
        there = final.stat()
        if (there.st_size, there.st_mtime_ns) == (state.st_size, state.st_mtime_ns):
            return
    with source.open("rb") as stream, new_file(final) as written:
        shutil.copyfileobj(stream, written)
    os.utime(final, ns=(state.st_atime_ns, state.st_mtime_ns))


def _yanks(files: Path, found: Mapping[str, tuple[Path, Entry]]) -> dict[str, str]:
    """Reasons as the folders have them, and as they were for wheels that are in none any more."""
    before = {name: why for name, why in read_yanks(files).items() if name not in found}
    now = {name: one.yanked for name, (_, one) in found.items() if one.yanked is not None}
    yanks = {**before, **now}
    write_yanks(files, yanks)
    return yanks


def _write_pages(asked: SiteRequest, wheels: Mapping[Path, Entry], *, added: int) -> Site:
    listed = [
        ListedWheel(
            entry=entry, cuda=cuda_tag(entry), facts=read_facts(path, entry.sha256, asked.cache)
        )
        for path, entry in wheels.items()
    ]
    by_cuda: dict[str, list[Entry]] = defaultdict(list)
    for one in listed:
        by_cuda[one.cuda].append(one.entry)
    base, address = asked.base_url.rstrip("/"), asked.address.rstrip("/")
    full = base or (f"{address}/{_FILES}" if address else "")
    replace_pages(asked.site / SIMPLE, simple_pages(wheels.values(), base or f"../{_FILES}", full))
    tags = tuple(sorted(filter(None, by_cuda)))
    for tag in tags:
        pages = simple_pages(by_cuda[tag], base or f"../../{_FILES}", full)
        replace_pages(asked.site / tag / SIMPLE, pages)
    home, packages = people_pages(listed, files=base, address=address)
    replace_pages(asked.site / _PACKAGES, packages)
    replace_pages(asked.site, {"index.html": home}, others_stay=True)
    return Site(wheels=len(wheels), added=added, cuda=tags)
