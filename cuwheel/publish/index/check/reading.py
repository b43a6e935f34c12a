"""Pages and files of an index, read with limits from a server or a folder, and parsed."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pypi_simple
from mailbits import ContentType
from pypi_simple import DistributionPackage, Link, RepositoryPage

from cuwheel.base import limits
from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.indexes.pages import PageFault, answered, read_page, with_credentials
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import is_local, local_path, redact_url
from cuwheel.base.fetch.web import Head, read_head
from cuwheel.base.system.console import Listener
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.parallel import Stop
from cuwheel.base.system.regular_files import parse_json
from cuwheel.publish.index.check.rules import Violation

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = {
    True: _JSON,
    False: "application/vnd.pypi.simple.v1+html, text/html;q=0.5",
}
_PAGES = {True: "index.json", False: "index.html"}
_LACKING = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.NOT_ACCEPTABLE)
_ABSENT = frozenset(map(answered, _LACKING))
_FIX = "check that the address is that of an index, with simple/ at its end; or try again later"
_DIGEST = re.compile(r"(\w+)=([0-9A-Fa-f]+)")
# That of PEP 714, that of PEP 691, and the one that PyPI has used since.
_IN_JSON = ("core-metadata", "dist-info-metadata", "data-dist-info-metadata")


@dataclass(frozen=True, kw_only=True)
class RawPage:
    """A page before parsing; the requested address may hold a user and password."""

    url: str
    requested: str
    content: bytes
    is_json: bool
    charset: str | None = None


class Budget:
    """Bytes of files that may be downloaded, shared by threads.

    Files are counted at their end, so all that are downloaded in parallel may exceed it.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._guard = threading.Lock()
        self.used = 0

    @property
    def left(self) -> int:
        """Remaining bytes."""
        return max(0, self._size - self.used)

    def count(self, size: int) -> None:
        """Count bytes that were downloaded."""
        with self._guard:
            self.used += size


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A reader of pages and files."""

    scratch: Path
    budget: Budget
    stop: Stop
    console: Listener

    def page(self, folder: str, *, is_json: bool) -> RawPage | str | None:
        """Read a page in one form, or return why not; None where the index doesn't offer it."""
        named = f"{folder}{_PAGES[is_json]}"
        if is_local(folder):
            return self._page(named, is_json=is_json) if local_path(named).is_file() else None
        page = self._page(folder, is_json=is_json)
        if page is None and is_json:  # a plain file server of a site
            return self._page(named, is_json=True)
        return page

    def _page(self, url: str, *, is_json: bool) -> RawPage | str | None:
        page = read_page(url, Attempts(self.stop), _ACCEPT[is_json])
        if isinstance(page, str):
            return None if page in _ABSENT else page
        kind = ContentType.parse(page.headers.get("Content-Type", "text/html"))
        if not is_local(url) and ("json" in kind.content_type) is not is_json:
            return None
        return RawPage(
            url=page.url,
            requested=url,
            content=page.content,
            is_json=is_json,
            charset=kind.params.get("charset"),
        )

    def head(self, url: str) -> Head:
        """Request the headers of an address.

        Raises:
            DownloadError: a server doesn't answer, or refuses to.
        """
        return read_head(url, Attempts(self.stop), fix=_FIX)

    def metadata(self, url: str) -> bytes | None:
        """Read a METADATA file; None: there is none.

        Raises:
            DownloadError: a server doesn't answer, or refuses to.
        """
        page = read_page(url, Attempts(self.stop), "*/*")
        if not isinstance(page, PageFault):
            return page.content
        if page.kind == "missing":
            return None
        raise DownloadError(f"{redact_url(url)} can't be read", why=f"it {page}", fix=_FIX)

    @contextlib.contextmanager
    def whole(self, url: str, name: str, size: int) -> Iterator[Path]:
        """Download a file, of at most so many bytes, until the block ends; open a local one.

        Raises:
            DownloadError: it can't be downloaded.
            HashMismatchError: it is larger.
        """
        if is_local(url):
            yield local_path(url)
            return
        with temporary_folder(self.scratch) as folder:
            path = folder / "file"
            file = PinnedFile(name=name, sha256="", max_size=size)
            download(
                *(file, path, url),
                console=self.console,
                stop=self.stop,
                fix=_FIX,
            )
            self.budget.count(path.stat().st_size)
            yield path


@dataclass(frozen=True, kw_only=True)
class PageFile:
    """A file on a page.

    Attributes:
        requires_python: a specifier; empty: any.
        size: bytes; None where the page has none.
        yanked: the reason; None: it isn't yanked.
        metadata: hashes of its METADATA file; None: it isn't announced.
    """

    name: str
    url: str
    hashes: Mapping[str, str]
    requires_python: str = ""
    size: int | None = None
    yanked: str | None = None
    metadata: Mapping[str, str] | None = None

    @property
    def key(self) -> int:
        """A number that is equal for files with the same check."""
        facts = (self.hashes, self.metadata, self.requires_python, self.size)
        return hash((self.url, repr(facts)))


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A project's page in one form.

    Attributes:
        index: the index's address, which limits the links on the page; empty: `url` does.
        project: the name on the page; empty in HTML.
        unread: names of files with malformed entries.
    """

    where: str
    url: str
    files: tuple[PageFile, ...]
    index: str = ""
    project: str = ""
    faults: tuple[Violation, ...] = ()
    unread: tuple[str, ...] = ()


def read_listing(page: RawPage, where: str, index: str = "") -> Listing:
    """Parse a project's page.

    Raises:
        ValueError: it isn't a page of an index.
    """
    if page.is_json:
        return replace(_read_json(page, where), index=index)
    links = RepositoryPage.from_html(page.content, page.url, page.charset).links
    files = tuple(_of_link(link, page) for link in links)
    return Listing(where=where, url=page.url, files=files, index=index)


def read_projects(page: RawPage) -> tuple[tuple[str, str], ...]:
    """Parse the list of an index's projects: name of each, and its address in HTML.

    Raises:
        ValueError: it isn't the list of an index.
    """
    if page.is_json:
        projects = pypi_simple.IndexPage.from_json_data(_loaded(page)).projects
        return tuple((name, "") for name in projects)
    links = RepositoryPage.from_html(page.content, page.url, page.charset).links
    return tuple((link.text, link.url) for link in links)


def _of_link(link: Link, page: RawPage) -> PageFile:
    read = DistributionPackage.from_link(link)
    return _listed(
        read,
        page,
        # PEP 592: a link without a value is yanked without a reason.
        yanked=read.yanked_reason if read.is_yanked else None,
        metadata=_announced(link.attrs, "data-core-metadata", "data-dist-info-metadata"),
    )


def _announced(attributes: Mapping[str, Any], *names: str) -> Mapping[str, str] | None:
    """Return the hashes of the METADATA file under the first name that has any."""
    for value in map(attributes.get, names):
        if isinstance(value, dict):
            return {str(name).lower(): str(digest).lower() for name, digest in value.items()}
        if isinstance(value, str) and (match := _DIGEST.fullmatch(value)):
            return {match[1].lower(): match[2].lower()}
        if str(value).lower() == "true":
            return {}
    return None


def _read_json(page: RawPage, where: str) -> Listing:
    data = _loaded(page)
    files = data.get("files")
    if not isinstance(files, list):
        raise ValueError("it has no list of files")  # noqa: TRY004 - an error in the page's data
    head = pypi_simple.ProjectPage.from_json_data({**data, "files": []}, page.url)
    parsed = [_of_entry(entry, head.project, page, where) for entry in files]
    faulty = [
        entry for entry, file in zip(files, parsed, strict=True) if isinstance(file, Violation)
    ]
    return Listing(
        where=where,
        url=page.url,
        files=tuple(file for file in parsed if isinstance(file, PageFile)),
        project=head.project,
        faults=tuple(fault for fault in parsed if isinstance(fault, Violation)),
        unread=tuple(entry["filename"] for entry in faulty if _is_named(entry)),
    )


def _of_entry(entry: Any, project: str, page: RawPage, where: str) -> PageFile | Violation:
    try:
        read = DistributionPackage.from_json_data(entry, project, page.url)
    except ValueError as problem:
        place = f"{where}: {entry['filename']}" if _is_named(entry) else where
        return Violation(code="entry", where=place, fact=_describe(problem))
    return _listed(
        read,
        page,
        yanked=(read.yanked_reason or "") if read.is_yanked else None,
        metadata=_announced(entry, *_IN_JSON),
    )


def _is_named(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("filename"), str)


def _listed(read: DistributionPackage, page: RawPage, **more: Any) -> PageFile:
    return PageFile(
        name=read.filename,
        url=with_credentials(read.url, page.requested),
        hashes={name.lower(): digest.lower() for name, digest in read.digests.items()},
        requires_python=read.requires_python or "",
        size=read.size,
        **more,
    )


def _loaded(page: RawPage) -> dict[str, Any]:
    try:
        data = parse_json(page.content)
    except RecursionError as problem:
        raise ValueError("it is nested too deeply") from problem
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - an error in the page's data
    return data


def _describe(problem: ValueError) -> str:
    """Return the fields and faults that a validation reports."""
    errors = getattr(problem, "errors", None)
    if errors is None:
        return str(problem)
    return "; ".join(
        f"{'.'.join(map(str, error['loc'])) or 'it'}: {error['msg'][0].lower()}{error['msg'][1:]}"
        for error in errors()
    )[: limits.FAULTS]
