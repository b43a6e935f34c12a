"""All that a server needs: indexes for installers, pages for people, and the wheels."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuwheel.index.entries import read_entries, remember_entries, remembered_entries
from cuwheel.index.facts import WheelFacts, cuda_tag, read_facts
from cuwheel.index.fingerprint import fingerprint
from cuwheel.index.pages import ListedWheel, people_pages
from cuwheel.index.publishing import check_unchanged, merged, publish
from cuwheel.index.simple_api import simple_pages
from cuwheel.index.tree import replace_pages
from cuwheel.index.variants import variants_in, variants_of_releases, write_variants
from cuwheel.index.yanks import PublishedNames, read_yanks, write_yanks, yank
from cuwheel.system.files import (
    file_lock,
    naming_full_disk,
    remove_parts,
    write_atomically,
)
from cuwheel.system.regular_files import read_json
from cuwheel.wheel.publication import SIMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cuwheel.index.entries import Entry

FILES = "files"  # folder of the wheels
_PACKAGES = "packages"  # folder of the pages for people


@dataclass(frozen=True, kw_only=True)
class SiteRequest:
    """What is to be published where.

    Attributes:
        folders: of wheels; none: all that there is was published before.
        site: the folder that is served.
        base_url: where the wheels are, if not in the site: GitHub's address of a release's files, a
            bucket; empty: they are put into the site.
        address: of the site, for the lines that people copy; empty: the page finds it out.
        cache: the cache's folder.
        has_variants: write a variant (PEP 825) of each wheel of which that can be said.
        published: wheels that were published before at other base addresses, as far as this
            machine's cache needn't know of them.
    """

    folders: tuple[Path, ...]
    site: Path
    base_url: str
    address: str
    cache: Path
    has_variants: bool = False
    published: tuple[Entry, ...] = ()

    @property
    def files(self) -> Path:
        """The folder of the wheels that are put into the site."""
        return self.site / FILES


@dataclass(frozen=True, kw_only=True)
class Site:
    """What was published.

    Attributes:
        wheels: so many in all, without variants.
        added: so many of them are new.
        variants: so many beside them.
        cuda: releases with an index of their own, `cu130`.
    """

    wheels: int
    added: int
    variants: int
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
    kept = _Kept.of(asked)
    with _site_lock(asked):
        # Before anything is read: what comes meanwhile is found by the next run.
        state = fingerprint(asked.folders, asked.base_url, asked.address, str(asked.has_variants))
        if found := _unchanged(asked, kept, state):
            return found
        site = _write(asked, kept)
        written = {"state": state, "site": fingerprint([asked.site])}
        said = {
            **written,
            "wheels": site.wheels,
            "variants": site.variants,
            "cuda": site.cuda,
        }
        write_atomically(kept.last, json.dumps(said))
        return site


def yank_in_site(
    asked: SiteRequest, reasons: Mapping[str, str | None]
) -> dict[str, tuple[str, ...]]:
    """Withdraw wheels that are in the folders, or that the site alone has or leads to.

    Args:
        asked: what is published where; `write_site` of it shows what was withdrawn.
        reasons: by name, as `yank` takes them.

    Returns:
        The names of the files, by what was asked for.

    Raises:
        UsageError: there is no such wheel, or a list of yanks is damaged.
        DiskFullError: no space is left.
    """
    if not asked.site.is_dir():
        return yank(reasons, asked.folders)
    with _site_lock(asked):
        return yank(reasons, asked.folders, PublishedNames(asked.files, _published_names(asked)))


def _published_names(asked: SiteRequest) -> frozenset[str]:
    """Wheels in the site, or those that this machine knows to be at a base address."""
    if not asked.base_url:
        return frozenset(path.name for path in asked.files.glob("*.whl"))
    there = remembered_entries(_Kept.of(asked).elsewhere)
    return frozenset([*there, *(one.name for one in asked.published)])


@contextlib.contextmanager
def _site_lock(asked: SiteRequest) -> Iterator[None]:
    with file_lock(asked.site / ".lock"), naming_full_disk(asked.site):
        yield


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """What is kept of a site in the cache."""

    folder: Path

    @classmethod
    def of(cls, asked: SiteRequest) -> _Kept:
        """That of the site in question."""
        return cls(folder=asked.cache / "index" / _digest_of(asked.site))

    @property
    def last(self) -> Path:
        """What it was written from."""
        return self.folder / "last.json"

    @property
    def files(self) -> Path:
        """What was read of its wheels."""
        return self.folder / "files.json"

    @property
    def elsewhere(self) -> Path:
        """What was published of wheels that are at a base address."""
        return self.folder / "elsewhere.json"

    def source(self, folder: Path) -> Path:
        """What was read of the wheels of a folder, into which nothing is written."""
        return self.folder / f"{_digest_of(folder)}.json"


def _digest_of(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _unchanged(asked: SiteRequest, kept: _Kept, state: str) -> Site | None:
    """The site as it is, if it was written from the same files and nothing was touched since."""
    said = read_json(kept.last) or {}
    try:
        if said["state"] == state and said["site"] == fingerprint([asked.site]):
            return Site(
                wheels=said["wheels"],
                added=0,
                variants=said["variants"],
                cuda=tuple(said["cuda"]),
            )
    except (KeyError, TypeError):
        pass
    return None


def _write(asked: SiteRequest, kept: _Kept) -> Site:
    """Write it anew; what stays as it is isn't touched."""
    sources = {
        folder: read_entries(folder, read_yanks(folder), kept.source(folder), writes=False)
        for folder in asked.folders
    }
    found = merged(sources)
    if asked.base_url:
        return _write_elsewhere(asked, found, kept)
    files = asked.files
    files.mkdir(exist_ok=True)
    remove_parts(files)
    published = {one.name: one for one in read_entries(files, {}, kept.files)}
    check_unchanged(found, published)
    publish(found, files, published)
    yanks = _yanks(files, found)
    new = {name: replace(one, yanked=None) for name, (_, one) in found.items()}
    copied = {name: one for name, one in new.items() if name not in published}
    entries = read_entries(files, yanks, kept.files, copied=copied)
    if asked.has_variants and write_variants(files, entries, asked.cache):
        entries = read_entries(files, _yanks(files, found), kept.files)
    added = len(copied)
    return _write_pages(asked, {files / one.name: one for one in entries}, added=added)


def _write_elsewhere(
    asked: SiteRequest, found: Mapping[str, tuple[Path, Entry]], kept: _Kept
) -> Site:
    """Pages for wheels at a base address; what was published before stays where it was."""
    published = remembered_entries(kept.elsewhere) | {one.name: one for one in asked.published}
    check_unchanged(found, published)
    at = asked.base_url.rstrip("/")
    wheels = published | {name: replace(one, at=at) for name, (_, one) in found.items()}
    remember_entries(kept.elsewhere, wheels.values())
    yanks = _yanks(asked.files, found)
    listed = {name: replace(one, yanked=yanks.get(name)) for name, one in wheels.items()}
    folders = {name: folder for name, (folder, _) in found.items()}
    files = {folders.get(name, asked.files) / name: one for name, one in listed.items()}
    return _write_pages(asked, files, added=len(found.keys() - published.keys()))


def _yanks(files: Path, found: Mapping[str, tuple[Path, Entry]]) -> dict[str, str]:
    """Reasons as the folders have them, and as they were for wheels that are in none any more."""
    before = {name: why for name, why in read_yanks(files).items() if name not in found}
    now = {name: one.yanked for name, (_, one) in found.items() if one.yanked is not None}
    yanks = {**before, **now}
    for name, plain in variants_in(files):
        if plain in found:
            yanks.pop(name, None)
        if plain in now:
            yanks[name] = now[plain]
    write_yanks(files, yanks)
    return yanks


def _write_pages(asked: SiteRequest, wheels: Mapping[Path, Entry], *, added: int) -> Site:
    listed = [
        ListedWheel(
            entry=entry,
            cuda=cuda_tag(entry),
            facts=read_facts(path, entry.sha256, asked.cache)
            if entry.has_libraries
            else WheelFacts(),
        )
        for path, entry in wheels.items()
        if not entry.variant
    ]
    by_cuda: dict[str, list[Entry]] = defaultdict(list)
    for entry in wheels.values():
        by_cuda[cuda_tag(entry)].append(entry)
    releases = variants_of_releases(wheels.values())
    if not asked.base_url:
        beside = {one.name: one.content for one in releases}
        replace_pages(asked.files, beside, others_stay=True)
    base, address = asked.base_url.rstrip("/"), asked.address.rstrip("/")
    full = base or (f"{address}/{FILES}" if address else "")
    pages = simple_pages(wheels.values(), base or f"../{FILES}", full, releases)
    replace_pages(asked.site / SIMPLE, pages)
    tags = tuple(sorted(filter(None, by_cuda)))
    for tag in tags:
        pages = simple_pages(by_cuda[tag], base or f"../../{FILES}", full, releases)
        replace_pages(asked.site / tag / SIMPLE, pages)
    home, packages = people_pages(listed, files=base, address=address)
    replace_pages(asked.site / _PACKAGES, packages)
    replace_pages(asked.site, {"index.html": home}, others_stay=True)
    variants = len(wheels) - len(listed)
    return Site(wheels=len(listed), added=added, variants=variants, cuda=tags)
