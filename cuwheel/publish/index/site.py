"""Sites: indexes for installers, pages for people, and the wheels, as files for any server."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.formats.wheel.publication import SIMPLE, published_texts
from cuwheel.base.paths import script
from cuwheel.base.system.files import (
    file_lock,
    naming_full_disk,
    remove_parts,
    stamp_of,
    write_atomically,
)
from cuwheel.base.system.folders.output_folder import check_output, claim, write_files
from cuwheel.base.system.regular_files import read_json, read_regular, read_text
from cuwheel.build.wheelhouse.entries import (
    Entry,
    read_entries,
    remember_entries,
    remembered_entries,
    with_yanks,
)
from cuwheel.build.wheelhouse.facts import WheelFacts, cuda_tag, read_facts
from cuwheel.build.wheelhouse.index_folders import FILES, HOME, PACKAGES, SITE_FOLDER
from cuwheel.build.wheelhouse.narrower import check_serves_as_many
from cuwheel.build.wheelhouse.simple_api import simple_pages
from cuwheel.build.wheelhouse.yanks import PublishedNames, read_yanks, write_yanks, yank
from cuwheel.build.workspace.masking import refuse_secrets, refuse_secrets_in_wheels
from cuwheel.publish.index.pages import ListedWheel, people_pages
from cuwheel.publish.index.publishing import check_unchanged, folder_key, publish, read_wheels
from cuwheel.publish.index.variants import variants_in, variants_of_releases, write_variants

_CODE = (
    (script("publish/index"), "*.py"),
    (script("build/wheelhouse"), "*.py"),
    (script("base/system/output"), "html.py"),
)
# Names in the cache folder of a site.
_LAST, _FILES, _ELSEWHERE = "last.json", "files.json", "elsewhere.json"


@dataclass(frozen=True, kw_only=True)
class SiteRequest:
    """A site, and the wheels to publish there.

    Attributes:
        folders: of wheels; none: only published ones are listed.
        base_url: address of the wheels, if they aren't in the site, such as that of a GitHub
            release's files or a bucket; empty: they are copied into the site.
        address: of the site, for the commands on the pages; empty: the browser fills it in.
        has_variants: write a variant (PEP 825) of each wheel with machine code.
        published: wheels that were published before at other base addresses, in addition to those
            in this machine's cache.
    """

    folders: tuple[Path, ...]
    site: Path
    cache: Path
    base_url: str = ""
    address: str = ""
    replaces_broader: bool = False
    has_variants: bool = False
    published: tuple[Entry, ...] = ()

    @property
    def files(self) -> Path:
        """The folder of the wheels in the site."""
        return self.site / FILES


@dataclass(frozen=True, kw_only=True)
class Site:
    """The content of a site; `cuda` are the releases with an index of their own, `cu130`."""

    wheels: int
    added: int
    variants: int
    cuda: tuple[str, ...]


def write_site(request: SiteRequest) -> Site:
    """Publish the wheels of some folders; published wheels are never changed or removed.

    A second call on the same site waits.

    Raises:
        PublishedWheelError: other bytes are published under a wheel's name, or a wheel of its
            version that serves more machines.
        WheelIndexError: files in a folder are not valid wheels.
        UsageError: two folders have different wheels of one name, a list of yanks is damaged, or
            the site's folder holds other files.
        DiskFullError: no space is left.
    """
    check_output(request.site, SITE_FOLDER)
    cache = _cache_of(request)
    with file_lock(request.site / ".lock"), naming_full_disk(request.site):
        claim(request.site, SITE_FOLDER)
        # Before anything is read, so that the next run notices changes during this one.
        state = fingerprint(
            request.folders, request.base_url, request.address, str(request.has_variants)
        )
        if unchanged := _unchanged(request, cache, state):
            return unchanged
        site = _write(request, cache)
        record = {"state": state, "site": fingerprint([request.site]), **asdict(site)}
        write_atomically(cache / _LAST, json.dumps(record))
        return site


def yank_in_site(
    request: SiteRequest, reasons: Mapping[str, str | None]
) -> dict[str, tuple[str, ...]]:
    """Yank wheels in the folders or in the site; the next `write_site` shows it.

    Returns:
        The names of the files, by the name in `reasons`.

    Raises:
        UsageError: there is no such wheel, or a list of yanks is damaged.
        DiskFullError: no space is left.
    """
    check_output(request.site, SITE_FOLDER)
    if not request.site.is_dir():
        return yank(reasons, request.folders)
    with file_lock(request.site / ".lock"), naming_full_disk(request.site):
        names = [path.name for path in request.files.glob("*.whl")]
        if request.base_url:
            remembered = remembered_entries(_cache_of(request) / _ELSEWHERE)
            names = [*remembered, *(entry.name for entry in request.published)]
        return yank(reasons, request.folders, PublishedNames(request.files, frozenset(names)))


def _check_texts(files: Path, wheels: Mapping[str, tuple[Path, Entry]]) -> None:
    """Refuse secrets in wheels, statements and attestations that aren't in the site yet."""
    texts = published_texts(folder / name for name, (folder, _) in wheels.items())
    refuse_secrets(path for path in texts if not _is_copied(path, files / path.name))
    refuse_secrets_in_wheels(
        folder / name for name, (folder, _) in wheels.items() if not (files / name).exists()
    )


def _is_copied(source: Path, target: Path) -> bool:
    try:
        return read_regular(target, limit=limits.JSON) == read_regular(source, limit=limits.JSON)
    except FileNotFoundError:
        return False


def _cache_of(request: SiteRequest) -> Path:
    """Return the cache folder of a site: entries of wheels, and the fingerprint of the last run."""
    return request.cache / "index" / folder_key(request.site)


def _unchanged(request: SiteRequest, cache: Path, state: str) -> Site | None:
    """Return the site if it was written from the same files and is intact."""
    record = read_json(cache / _LAST) or {}
    try:
        if record["state"] == state and record["site"] == fingerprint([request.site]):
            cuda = tuple(record["cuda"])
            return Site(wheels=record["wheels"], added=0, variants=record["variants"], cuda=cuda)
    except (KeyError, TypeError):
        pass
    return None


def _write(request: SiteRequest, cache: Path) -> Site:
    """Write it anew; unchanged files aren't touched."""
    wheels = read_wheels(request.folders, cache)
    if request.base_url:
        return _write_elsewhere(request, wheels, cache)
    files = request.files
    files.mkdir(exist_ok=True)
    remove_parts(files)
    published = {entry.name: entry for entry in read_entries(files, {}, cache / _FILES)}
    check_unchanged(wheels, published)
    _check_texts(files, wheels)
    _check_broad(request, wheels, published)
    publish(wheels, files, published)
    yanks = _yanks(files, wheels)
    new = {
        name: replace(entry, yanked=None)
        for name, (_, entry) in wheels.items()
        if name not in published
    }
    entries = read_entries(files, yanks, cache / _FILES, copied=new)
    if request.has_variants and write_variants(files, entries, request.cache):
        entries = read_entries(files, _yanks(files, wheels), cache / _FILES)
    return _write_pages(request, {files / entry.name: entry for entry in entries}, added=len(new))


def _check_broad(
    request: SiteRequest, wheels: Mapping[str, tuple[Path, Entry]], published: Mapping[str, Entry]
) -> None:
    """Check that no new wheel serves fewer machines than one that installers prefer it to."""
    if request.replaces_broader:
        return
    yanked = read_yanks(request.files)
    old = {request.files / name: entry for name, entry in published.items() if name not in yanked}
    offered = {folder / name: entry for name, (folder, entry) in wheels.items() if not entry.yanked}
    new = {path: entry for path, entry in offered.items() if path.name not in published}
    check_serves_as_many(new, {**old, **offered}, request.cache)


def _write_elsewhere(
    request: SiteRequest, wheels: Mapping[str, tuple[Path, Entry]], cache: Path
) -> Site:
    """Write the pages for wheels at a base address; published ones keep their address."""
    published = remembered_entries(cache / _ELSEWHERE)
    published |= {entry.name: entry for entry in request.published}
    check_unchanged(wheels, published)
    _check_texts(request.files, wheels)
    _check_broad(request, wheels, published)
    at = request.base_url.rstrip("/")
    entries = published | {name: replace(entry, at=at) for name, (_, entry) in wheels.items()}
    remember_entries(cache / _ELSEWHERE, entries.values())
    listed = with_yanks(entries.values(), _yanks(request.files, wheels))
    folders = {name: folder for name, (folder, _) in wheels.items()}
    files = {folders.get(entry.name, request.files) / entry.name: entry for entry in listed}
    return _write_pages(request, files, added=len(wheels.keys() - published.keys()))


def _yanks(files: Path, wheels: Mapping[str, tuple[Path, Entry]]) -> dict[str, str]:
    """Update the reasons from the folders, and keep those of wheels that are in no folder."""
    before = {name: why for name, why in read_yanks(files).items() if name not in wheels}
    now = {name: entry.yanked for name, (_, entry) in wheels.items() if entry.yanked is not None}
    yanks = {**before, **now}
    for name, plain in variants_in(files):
        if plain in wheels:
            yanks.pop(name, None)
        if plain in now:
            yanks[name] = now[plain]
    write_yanks(files, yanks)
    return yanks


def _write_pages(request: SiteRequest, wheels: Mapping[Path, Entry], *, added: int) -> Site:
    listed = [
        ListedWheel(
            entry=entry,
            cuda=cuda_tag(entry),
            facts=read_facts(path, entry.sha256, request.cache)
            if entry.has_libraries
            else WheelFacts(),
        )
        for path, entry in wheels.items()
        if not entry.variant
    ]
    facts = {wheel.entry.sha256: wheel.facts.runs_with for wheel in listed}
    by_cuda: dict[str, list[Entry]] = defaultdict(list)
    for entry in wheels.values():
        by_cuda[cuda_tag(entry)].append(entry)
    releases = variants_of_releases(wheels.values())
    parts = (
        [] if request.base_url else [{f"{FILES}/{file.name}": file.content for file in releases}]
    )
    base, address = request.base_url.rstrip("/"), request.address.rstrip("/")
    full = base or (f"{address}/{FILES}" if address else "")
    pages = simple_pages(wheels.values(), base or f"../{FILES}", full, releases, facts)
    parts.append(_below(SIMPLE, pages))
    tags = tuple(sorted(filter(None, by_cuda)))
    for tag in tags:
        pages = simple_pages(by_cuda[tag], base or f"../../{FILES}", full, releases, facts)
        parts.append(_below(f"{tag}/{SIMPLE}", pages))
    home, packages = people_pages(listed, files=base, address=address)
    write_files(request.site, SITE_FOLDER, [*parts, _below(PACKAGES, packages), {HOME: home}])
    variants = len(wheels) - len(listed)
    return Site(wheels=len(listed), added=added, variants=variants, cuda=tags)


def _below(folder: str, pages: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in pages.items()}


def fingerprint(folders: Iterable[Path], *facts: str) -> str:
    """Return a digest that any change of a file in some folders changes.

    States come from stat(2): no program can set an inode's change time. The code that writes a
    site counts too.
    """
    digest = hashlib.sha256()
    code = sorted(path for folder, pattern in _CODE for path in folder.glob(pattern))
    for text in (*facts, *map(read_text, code)):
        digest.update(f"{len(text)}:{text}".encode())
    for folder in folders:
        for line in sorted(_states(str(folder))):
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _states(folder: str) -> Iterator[str]:
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _states(entry.path)
            elif not entry.name.endswith(".lock"):
                yield f"{entry.path}\0{stamp_of(entry.stat(follow_symlinks=False))}\n"
