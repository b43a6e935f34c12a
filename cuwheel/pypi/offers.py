"""What an address offers of a project: an index, a release's page or list, a folder of wheels.

Forms: PEP 503, 691, 592, 658, 700; a page that links wheels, as pip's `--find-links` takes;
GitHub's page of a release's files and its REST API ("Releases", "assets"), wherever they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pypi_simple
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from cuwheel.fetch.urls import is_local, local_path
from cuwheel.pypi.pages import PageFault, lacks, read_page, read_project_page, with_credentials
from cuwheel.system.files import checked_sha256, sha256_of_file
from cuwheel.wheel.publication import SIMPLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import requests

    from cuwheel.fetch.retry import Attempts

_ANY_FORM = "application/vnd.pypi.simple.v1+json, application/json;q=0.9, text/html;q=0.5"
# What GitHub shows of a release loads the list of its files from another address.
_RELEASE_PAGE = re.compile(r"/releases/tag/(?=[^/]+$)")
_RELEASE_FILES = "/releases/expanded_assets/"
_MOST_PAGES = 20  # of a list of releases
_NAME = re.compile(r"[A-Za-z0-9._+!-]+")  # of a wheel or an sdist; all else may lead elsewhere


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A wheel or an sdist that an address offers.

    Attributes:
        name: of the file.
        url: of the file; may hold the user and password of its index.
        index: the address that was asked.
        version: of it.
        is_wheel: whether it is a wheel.
        sha256: as the index says; empty where it doesn't.
        size: bytes; None where the index doesn't say.
        requires_python: as the index says; empty: any, or it doesn't say.
        yanked: why it was withdrawn; None: it stands.
        has_metadata: METADATA is beside it.
        metadata_sha256: of that; empty where the index doesn't say.
        is_in_index: installers find it at `index`; elsewhere they need its address.
    """

    name: str
    url: str
    index: str
    version: Version
    is_wheel: bool
    sha256: str = ""
    size: int | None = None
    requires_python: str = ""
    yanked: str | None = None
    has_metadata: bool = False
    metadata_sha256: str = ""
    is_in_index: bool = False


def read_offers(address: str, project: str, attempts: Attempts) -> tuple[Offer, ...] | PageFault:
    """All that an address offers of a project, or why it offers nothing.

    Args:
        address: http, https or file: a simple index, a project's page in one, a page that links
            wheels, a release of GitHub's or its API's list, a folder of wheels.
        project: its name.
        attempts: at asking.
    """
    if is_local(address) and not local_path(address).exists():
        return PageFault("isn't there", "unasked")
    offered = _read_folder(address, project, attempts) if is_local(address) else None
    if offered is None:
        found = _read_index(address, project, attempts)
        return found or lacks(project)
    return offered or lacks(project)


def _read_index(address: str, project: str, attempts: Attempts) -> tuple[Offer, ...] | PageFault:
    """What an index offers, or a site with one, or else the page itself."""
    said = None
    for index in (address, f"{address.rstrip('/')}/{SIMPLE}/"):
        page = read_project_page(index, project, attempts)
        if not isinstance(page, PageFault):
            return tuple(_of_index(page, index, project))
        said = said or page
        attempts.reset_count()
    found = _read_pages(address, project, attempts)
    # Where neither is understood, the index's own words are those that help.
    return (said or found) if isinstance(found, PageFault) else found


def _read_folder(address: str, project: str, attempts: Attempts) -> tuple[Offer, ...] | None:
    """What a folder of this machine offers; None: it holds no wheels."""
    folder = local_path(address)
    wheels = sorted(folder.glob("*.whl"))
    if not (folder / SIMPLE / "index.html").is_file():
        return tuple(_of_names(wheels, project)) if wheels else None
    page = read_project_page((folder / SIMPLE).as_uri(), project, attempts)
    listed = () if isinstance(page, str) else tuple(_of_index(page, address, project))
    # An index may be older than the folder; what it does name counts as it says.
    known = {one.name for one in listed}
    return (*listed, *_of_names((one for one in wheels if one.name not in known), project))


def _of_names(paths: Iterable[Path], project: str) -> Iterator[Offer]:
    for path in paths:
        if known := _identify(path.name, project):
            url = path.absolute().as_uri()
            yield Offer(name=path.name, url=url, index=path.parent.as_uri(), **known)


def with_hash(offer: Offer) -> Offer:
    """The same with its SHA-256, where it is of this machine and nobody has said it yet."""
    if offer.sha256 or not is_local(offer.url):
        return offer
    return replace(offer, sha256=sha256_of_file(local_path(offer.url)))


def _of_index(page: pypi_simple.ProjectPage, address: str, project: str) -> Iterator[Offer]:
    for file in page.packages:
        if known := _identify(file.filename, project):
            yield Offer(
                name=file.filename,
                url=with_credentials(file.url, address),
                index=address,
                sha256=checked_sha256(file.digests.get("sha256", "")),
                size=_size(file.size),
                requires_python=file.requires_python or "",
                yanked=(file.yanked_reason or "no reason is given") if file.is_yanked else None,
                has_metadata=bool(file.has_metadata),
                metadata_sha256=(file.metadata_digests or {}).get("sha256", "").lower(),
                is_in_index=True,
                **known,
            )


def _read_pages(address: str, project: str, attempts: Attempts) -> tuple[Offer, ...] | PageFault:
    """What the page itself lists, and those that follow it."""
    found: list[Offer] = []
    url, asked = _RELEASE_PAGE.sub(_RELEASE_FILES, address), set[str]()
    while url and url not in asked and len(asked) < _MOST_PAGES:
        asked.add(url)
        page = read_page(url, attempts, _ANY_FORM)
        if isinstance(page, str):
            return page
        attempts.note_progress()
        try:
            found += _of_page(page, address, project)
        except (ValueError, TypeError, AttributeError, RecursionError, KeyError):
            return PageFault("is not a page that lists files", "unreadable")
        url = _next_page(page)
    return tuple(found)


def _next_page(page: requests.Response) -> str:
    """The page that follows one of a list, on the same server (RFC 8288)."""
    url = page.links.get("next", {}).get("url", "")
    return url if urlsplit(url)[:2] == urlsplit(page.url)[:2] else ""


def _of_page(page: requests.Response, address: str, project: str) -> list[Offer]:
    if "json" not in page.headers.get("Content-Type", ""):
        return list(_of_links(page, address, project))
    content = page.json()
    if isinstance(content, dict) and "files" in content:
        read = pypi_simple.ProjectPage.from_json_data(content, page.url)
        return list(_of_index(read, address, project))
    releases = content if isinstance(content, list) else [content]
    return [offer for one in releases for offer in _of_release(one, address, project)]


def _of_links(page: requests.Response, address: str, project: str) -> Iterator[Offer]:
    """Files by the last part of their address: what a link shows may be shortened."""
    for link in pypi_simple.RepositoryPage.from_html(page.text, page.url).links:
        name = unquote(urlsplit(link.url).path.rpartition("/")[2])
        if known := _identify(name, project):
            url, _, fragment = link.url.partition("#")
            yield Offer(
                name=name,
                url=with_credentials(url, address),
                index=address,
                sha256=checked_sha256(fragment.removeprefix("sha256=")),
                requires_python=_text(link.attrs.get("data-requires-python")),
                **known,
            )


def _of_release(release: dict[str, Any], address: str, project: str) -> Iterator[Offer]:
    """The files of a release as GitHub's API has them."""
    for asset in release.get("assets", ()):
        if known := _identify(str(asset["name"]), project):
            yield Offer(
                name=str(asset["name"]),
                url=str(asset["browser_download_url"]),
                index=address,
                sha256=checked_sha256(str(asset.get("digest") or "").removeprefix("sha256:")),
                size=_size(int(asset["size"])) if "size" in asset else None,
                **known,
            )


def _size(stated: int | None) -> int | None:
    """Bytes that an index states; None where that can't be."""
    return stated if stated is None or stated >= 0 else None


def _text(value: str | list[str] | None) -> str:
    return value if isinstance(value, str) else ""


def _identify(name: str, project: str) -> dict[str, Any]:
    """Version and kind of a project's file; empty for other files, and for what is no name."""
    if not _NAME.fullmatch(name):
        return {}
    try:
        if name.endswith(".whl"):
            owner, version, _, _ = parse_wheel_filename(name)
        else:
            owner, version = parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return {}
    is_same = owner == canonicalize_name(project)
    return {"version": version, "is_wheel": name.endswith(".whl")} if is_same else {}
