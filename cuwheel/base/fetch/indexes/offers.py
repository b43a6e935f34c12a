"""Files of a project at an address: an index, a release's page or list, a folder of wheels.

METADATA of a wheel is read without the wheel: PEP 658, else by range requests.

Forms: PEP 503, 691, 592, 658, 700; a page that links wheels, as pip's `--find-links` takes;
GitHub's page of a release's files and its REST API ("Releases", "assets"), on any host.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

import requests
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from cuwheel.base import limits
from cuwheel.base.errors import CuwheelError, DownloadError, UnsafeArchiveError
from cuwheel.base.fetch.indexes.pages import (
    PageFault,
    beside,
    lacks,
    link_fault,
    read_page,
    read_project_page,
    with_credentials,
)
from cuwheel.base.fetch.remote_file import open_remote
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import is_local, local_path
from cuwheel.base.formats.wheel.archive import check_table, open_wheel
from cuwheel.base.formats.wheel.publication import MARKED, SIMPLE, split_mark
from cuwheel.base.system.files import checked_sha256, sha256_of_file

if TYPE_CHECKING:
    import pypi_simple

_ANY_FORM = "application/vnd.pypi.simple.v1+json, application/json;q=0.9, text/html;q=0.5"
_WINDOW = 1 << 15  # bytes of a request; METADATA and the table of most wheels are less
# GitHub's page of a release loads the list of its files from another address.
_RELEASE_PAGE = re.compile(r"/releases/tag/(?=[^/]+$)")
_RELEASE_FILES = "/releases/expanded_assets/"
_MOST_PAGES = 20  # of a list of releases
_NAME = re.compile(r"[A-Za-z0-9._+!-]+")  # of a wheel or an sdist; others may lead elsewhere
_FILE = re.compile(rb"\.(whl|tar\.gz|zip)\b")  # on a page

Form = Literal["any", "index", "page"]
"""What is at an address: a simple index, or a page that lists files."""


@dataclass(frozen=True, kw_only=True)
class IndexFile:
    """File that an index offers.

    Attributes:
        url: of the file; may hold the user and password of its index.
        sha256: as the index states it; empty where it doesn't.
        size: bytes; None where the index states none.
    """

    name: str
    url: str
    sha256: str = ""
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Offer(IndexFile):
    """Wheel or sdist at an address.

    Attributes:
        requires_python: as the index states it; empty: any, or unknown.
        yanked: why it was withdrawn; None: it wasn't.
        metadata_sha256: of that; empty where the index states none.
        attestations: address of its attestations (PEP 740), as the index states it.
        is_in_index: installers find it at `index`; elsewhere they need its address.
        declares: facts by name that its index states of all of its wheels: `cuda`, `torch`.
    """

    index: str
    version: Version
    is_wheel: bool
    requires_python: str = ""
    yanked: str | None = None
    has_metadata: bool = False
    metadata_sha256: str = ""
    attestations: str = ""
    is_in_index: bool = False
    declares: tuple[tuple[str, str], ...] = ()


class PartOfOffers(tuple[Offer, ...]):  # noqa: SLOT001 - a tuple can't have any with names
    """Files on the first pages of a list.

    Attributes:
        fault: further pages weren't read.
    """

    fault: PageFault

    def __new__(cls, offers: Iterable[Offer], fault: PageFault) -> PartOfOffers:  # noqa: PYI034 - as PageFault
        """Create a tuple with a fault."""
        part = super().__new__(cls, offers)
        part.fault = fault
        return part


def read_offers(
    address: str,
    project: str,
    attempts: Attempts,
    *,
    form: Form = "any",
    most_pages: int = _MOST_PAGES,
) -> tuple[Offer, ...] | PageFault:
    """Return the files of a project at an address, `PartOfOffers` if it has more, or why not any.

    A page that names an address that it mustn't is refused as a whole: the rest of it has the same
    author.

    Args:
        address: http, https or file: a simple index, a project's page in one, a page that links
            wheels, a release of GitHub's or its API's list, a folder of wheels.
        form: of the address where it is known, so that no other one is tried.
        most_pages: of a list of releases.
    """
    if is_local(address) and not local_path(address).exists():
        return PageFault("isn't there", "unasked")
    in_folder = _read_folder(address, project, attempts) if is_local(address) else None
    offers: tuple[Offer, ...] | PageFault
    if in_folder is not None:
        offers = in_folder
    elif form == "page":
        offers = _read_pages(address, project, attempts, most_pages)
    else:
        offers = _read_index(address, project, attempts, most_pages * (form == "any"))
    if isinstance(offers, PageFault):
        return offers
    faults = filter(None, (link_fault(offer.url, address) for offer in offers))
    if why := next(faults, ""):
        return PageFault(why, "unreadable")
    files = _withdraw_marked(offers) or lacks(project)
    if isinstance(offers, PartOfOffers) and not isinstance(files, PageFault):
        return PartOfOffers(files, offers.fault)
    return files


def _withdraw_marked(offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """Withdraw wheels of a source given with `--source` where one of the pinned source is there.

    The author of the list may not have: their local version is longer, so it counts as higher.
    """
    marks = [split_mark(offer.version)[1] for offer in offers]
    pinned = {
        offer.version.public
        for offer, mark in zip(offers, marks, strict=True)
        if offer.is_wheel and not mark
    }
    return tuple(
        replace(offer, yanked=MARKED)
        if offer.yanked is None and mark and offer.version.public in pinned
        else offer
        for offer, mark in zip(offers, marks, strict=True)
    )


def _read_index(
    address: str, project: str, attempts: Attempts, most_pages: int
) -> tuple[Offer, ...] | PageFault:
    """Return the offers of an index, or of a site with one, or else of the page itself.

    A page that lists nothing of the project shows no lack of it where the index didn't answer.
    """
    faults: list[PageFault] = []
    for index in (address, f"{address.rstrip('/')}/{SIMPLE}/"):
        page = read_project_page(index, project, attempts)
        if not isinstance(page, PageFault):
            return tuple(offers_on(page, index, project))
        faults.append(page)
        if not most_pages:
            return page
        attempts.reset_count()
    offers = _read_pages(address, project, attempts, most_pages)
    if not isinstance(offers, PageFault):
        return offers
    silent = [fault for fault in faults if fault.kind == "unasked"]
    if offers == lacks(project) and not silent:
        return offers
    # Where none is understood, the reason of the index is the useful one.
    return [*silent, *faults][0]


def _read_folder(address: str, project: str, attempts: Attempts) -> tuple[Offer, ...] | None:
    """Return the offers of a folder on this machine; None: it holds no wheels."""
    folder = local_path(address)
    wheels = sorted(folder.glob("*.whl"))
    if not (folder / SIMPLE / "index.html").is_file():
        return tuple(_of_names(wheels, project)) if wheels else None
    page = read_project_page((folder / SIMPLE).as_uri(), project, attempts)
    listed = () if isinstance(page, str) else tuple(offers_on(page, address, project))
    # An index may be older than the folder; its entries win.
    known = {offer.name for offer in listed}
    return (*listed, *_of_names((wheel for wheel in wheels if wheel.name not in known), project))


def _of_names(paths: Iterable[Path], project: str) -> Iterator[Offer]:
    for path in paths:
        if known := _identify(path.name, project):
            url = path.absolute().as_uri()
            yield Offer(name=path.name, url=url, index=path.parent.as_uri(), **known)


def with_hash(offer: Offer) -> Offer:
    """Return an offer with its SHA-256, where it is on this machine and the index states none."""
    if offer.sha256 or not is_local(offer.url):
        return offer
    return replace(offer, sha256=sha256_of_file(local_path(offer.url)))


def offers_on(page: pypi_simple.ProjectPage, address: str, project: str) -> Iterator[Offer]:
    """Yield the wheels and sdists on a project's page of an index."""
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
                attestations=with_credentials(file.provenance_url or "", address),
                is_in_index=True,
                **known,
            )


def _read_pages(
    address: str, project: str, attempts: Attempts, most: int
) -> tuple[Offer, ...] | PageFault:
    """Return the files on a page and the next ones, or why these don't show what there is."""
    offers: list[Offer] = []
    lists_files = False
    url, visited = _RELEASE_PAGE.sub(_RELEASE_FILES, address), set[str]()
    while url and url not in visited and len(visited) < most:
        visited.add(url)
        page = read_page(url, attempts, _ANY_FORM)
        if isinstance(page, str):
            return page
        attempts.note_progress()
        lists_files |= bool(_FILE.search(page.content))
        try:
            offers += _of_page(page, address, project)
        except (ValueError, TypeError, AttributeError, RecursionError, KeyError):
            return PageFault("is not a page that lists files", "unreadable")
        url = page.links.get("next", {}).get("url", "")  # RFC 8288
        if urlsplit(url)[:2] != urlsplit(page.url)[:2]:  # on another server
            break
    if url and url not in visited:
        pages = f"has pages after the first {len(visited)}"
        fault = PageFault(f"{pages}, which weren't read", "unasked")
        return PartOfOffers(offers, fault) if offers else fault
    return tuple(offers) if lists_files else lacks(project)


def _of_page(page: requests.Response, address: str, project: str) -> list[Offer]:
    if "json" not in page.headers.get("Content-Type", ""):
        return list(_of_links(page, address, project))
    content = page.json()
    if isinstance(content, dict) and "files" in content:
        import pypi_simple  # noqa: PLC0415 - slow, and builds read no pages

        project_page = pypi_simple.ProjectPage.from_json_data(content, page.url)
        return list(offers_on(project_page, address, project))
    releases = content if isinstance(content, list) else [content]
    return [offer for release in releases for offer in _of_release(release, address, project)]


def _of_links(page: requests.Response, address: str, project: str) -> Iterator[Offer]:
    """Yield files by the last part of their address: the text of a link may be shortened."""
    import pypi_simple  # noqa: PLC0415 - slow, and builds read no pages

    for link in pypi_simple.RepositoryPage.from_html(page.text, page.url).links:
        name = unquote(urlsplit(link.url).path.rpartition("/")[2])
        if known := _identify(name, project):
            url, _, fragment = link.url.partition("#")
            requires = link.attrs.get("data-requires-python")
            yield Offer(
                name=name,
                url=with_credentials(url, address),
                index=address,
                sha256=checked_sha256(fragment.removeprefix("sha256=")),
                requires_python=requires if isinstance(requires, str) else "",
                **known,
            )


def _of_release(release: dict[str, Any], address: str, project: str) -> Iterator[Offer]:
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
    """Return the bytes that an index states; None where that can't be."""
    return stated if stated is None or stated >= 0 else None


def _identify(name: str, project: str) -> dict[str, Any]:
    """Return version and kind of a project's file; empty for other files, and for invalid names."""
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


class UnreadMetadataError(Exception):
    """The requirements of a wheel can't be determined; the message follows its name.

    Attributes:
        is_unusable: the wheel is gone or damaged; else it may be sound.
    """

    def __init__(self, why: str, *, is_unusable: bool = False) -> None:
        super().__init__(why)
        self.is_unusable = is_unusable


def read_metadata(offer: Offer, attempts: Attempts) -> str:
    """Read METADATA of a wheel: the server's separate file (PEP 658), else from the wheel.

    Of a wheel on a server only its table of members and that one are read.

    Raises:
        UnreadMetadataError: the server doesn't provide it.
    """
    if offer.has_metadata:
        page = read_page(beside(offer.url, ".metadata"), attempts, "*/*")
        if not isinstance(page, str) and len(page.content) <= limits.METADATA:
            digest = hashlib.sha256(page.content).hexdigest()
            if offer.metadata_sha256 in {"", digest}:
                return page.content.decode("utf-8", "replace")
    try:
        with (
            open_remote(offer.url, window=_WINDOW) as stream,
            open_wheel(Path(offer.name), stream) as wheel,
        ):
            check_table(wheel)
            return wheel.read_text("METADATA")
    except CuwheelError as problem:
        is_gone = isinstance(problem, DownloadError) and problem.is_missing
        is_unusable = is_gone or isinstance(problem, UnsafeArchiveError)
        why = f"{problem.what}: {problem.why}"
        raise UnreadMetadataError(why, is_unusable=is_unusable) from problem
    except (OSError, InvalidWheelFilename, requests.RequestException) as problem:
        is_unusable = isinstance(problem, FileNotFoundError | InvalidWheelFilename)
        raise UnreadMetadataError(str(problem), is_unusable=is_unusable) from problem
