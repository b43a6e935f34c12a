"""A project's page as it lists files: both forms read into the same words."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pypi_simple
from pypi_simple import DistributionPackage, RepositoryPage

from cuwheel import limits
from cuwheel.index.check.rules import Finding
from cuwheel.pypi.pages import with_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pypi_simple import Link

    from cuwheel.index.check.reading import RawPage

_DIGEST = re.compile(r"(\w+)=([0-9A-Fa-f]+)")
_CORE, _OLD = "core-metadata", "dist-info-metadata"
# Names in JSON: that of PEP 714, that of PEP 691, and the one that PyPI has used since.
_OLD_IN_JSON = (_OLD, f"data-{_OLD}")


@dataclass(frozen=True, kw_only=True)
class ListedFile:
    """A file as a page lists it.

    Attributes:
        name: of the file.
        url: where it is.
        hashes: hexadecimal digits by algorithm, both in lower case.
        requires_python: a specifier of Pythons; empty: any.
        size: bytes; None where the page doesn't say.
        uploaded: the time, as written; empty where the page doesn't say.
        yanked: why it was withdrawn; None: it wasn't.
        metadata: hashes of its METADATA file; None: it isn't announced.
        old_metadata: likewise, as announced under the old name.
        provenance: the link to its attestations, as written; empty: none.
    """

    name: str
    url: str
    hashes: Mapping[str, str]
    requires_python: str = ""
    size: int | None = None
    uploaded: str = ""
    yanked: str | None = None
    metadata: Mapping[str, str] | None = None
    old_metadata: Mapping[str, str] | None = None
    provenance: str = ""

    @property
    def announced(self) -> Mapping[str, str] | None:
        """Hashes of its METADATA file, under whichever name."""
        return self.old_metadata if self.metadata is None else self.metadata

    @property
    def key(self) -> int:
        """Equal for files that are checked in the same way."""
        said = (self.hashes, self.announced, self.requires_python, self.size, self.provenance)
        return hash((self.url, repr(said)))


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A project's page in one form.

    Attributes:
        form: `HTML` or `JSON`.
        where: of the page, for findings.
        url: of the page.
        files: those that could be read.
        project: its name as the page gives it; empty in HTML.
        versions: as the page lists them; None where it doesn't.
        has_sizes: whether its API version asks for sizes and versions (PEP 700).
        faults: what couldn't be read.
        unread: names of the files of which that is.
    """

    form: str
    where: str
    url: str
    files: tuple[ListedFile, ...]
    project: str = ""
    versions: tuple[str, ...] | None = None
    has_sizes: bool = False
    faults: tuple[Finding, ...] = ()
    unread: tuple[str, ...] = ()


def read_listing(page: RawPage, where: str) -> Listing:
    """What a project's page says.

    Raises:
        ValueError: it isn't a page of an index.
    """
    return _read_json(page, where) if page.is_json else _read_html(page, where)


def read_projects(page: RawPage) -> tuple[tuple[str, str], ...]:
    """The projects of an index: the name of each, and its address where the form gives one.

    Raises:
        ValueError: it isn't the list of an index.
    """
    if page.is_json:
        found = pypi_simple.IndexPage.from_json_data(_loaded(page))
        return tuple((name, "") for name in found.projects)
    links = RepositoryPage.from_html(page.content, page.url, page.charset).links
    return tuple((link.text, link.url) for link in links)


def _read_html(page: RawPage, where: str) -> Listing:
    links = RepositoryPage.from_html(page.content, page.url, page.charset).links
    files = tuple(_of_link(link, page) for link in links)
    return Listing(form="HTML", where=where, url=page.url, files=files)


def _of_link(link: Link, page: RawPage) -> ListedFile:
    read = DistributionPackage.from_link(link)
    return _listed(
        read,
        page,
        # PEP 592: a link without a value is yanked without a reason.
        yanked=read.yanked_reason if read.is_yanked else None,
        metadata=_announced(link.attrs.get(f"data-{_CORE}")),
        old_metadata=_announced(link.attrs.get(f"data-{_OLD}")),
        provenance=read.provenance_url or "",
    )


def _announced(value: Any) -> Mapping[str, str] | None:
    """What an attribute, or a field in JSON, says of the METADATA file."""
    if isinstance(value, dict):
        return {str(name).lower(): str(digest).lower() for name, digest in value.items()}
    if isinstance(value, str) and (found := _DIGEST.fullmatch(value)):
        return {found[1].lower(): found[2].lower()}
    return {} if value is True or str(value).lower() == "true" else None


def _read_json(page: RawPage, where: str) -> Listing:
    data = _loaded(page)
    files = data.get("files")
    if not isinstance(files, list):
        raise ValueError("it has no list of files")  # noqa: TRY004 - of the page, not of ours
    head = pypi_simple.ProjectPage.from_json_data({**data, "files": []}, page.url)
    read = [_of_entry(entry, head.project, page, where) for entry in files]
    faulty = [one for one, found in zip(files, read, strict=True) if isinstance(found, Finding)]
    minor = int((head.repository_version or "1.0").split(".")[1])
    return Listing(
        form="JSON",
        where=where,
        url=page.url,
        files=tuple(one for one in read if isinstance(one, ListedFile)),
        project=head.project,
        versions=None if head.versions is None else tuple(head.versions),
        has_sizes=minor >= 1,
        faults=tuple(one for one in read if isinstance(one, Finding)),
        unread=tuple(one["filename"] for one in faulty if _is_named(one)),
    )


def _of_entry(entry: Any, project: str, page: RawPage, where: str) -> ListedFile | Finding:
    try:
        read = DistributionPackage.from_json_data(entry, project, page.url)
    except ValueError as problem:
        place = f"{where}: {entry['filename']}" if _is_named(entry) else where
        return Finding(code="entry", where=place, fact=_words(problem))
    old = (entry[name] for name in _OLD_IN_JSON if name in entry)
    return _listed(
        read,
        page,
        uploaded=str(entry.get("upload-time") or ""),
        yanked=(read.yanked_reason or "") if read.is_yanked else None,
        metadata=_announced(entry.get(_CORE)),
        old_metadata=_announced(next(old, None)),
        provenance=str(entry.get("provenance") or ""),  # as written, not as validated
    )


def _is_named(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("filename"), str)


def _listed(read: DistributionPackage, page: RawPage, **more: Any) -> ListedFile:
    return ListedFile(
        name=read.filename,
        url=with_credentials(read.url, page.asked),
        hashes={name.lower(): digest.lower() for name, digest in read.digests.items()},
        requires_python=read.requires_python or "",
        size=read.size,
        **more,
    )


def _loaded(page: RawPage) -> dict[str, Any]:
    try:
        data = json.loads(page.content)
    except RecursionError as problem:
        raise ValueError("it is nested too deeply") from problem
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - of the page, not of ours
    return data


def _words(problem: ValueError) -> str:
    """The faults that a validation names: field and fault of each."""
    errors = getattr(problem, "errors", None)
    if errors is None:
        return str(problem)
    return "; ".join(_told(errors()))[: limits.FAULTS]


def _told(errors: list[dict[str, Any]]) -> Iterator[str]:
    for one in errors:
        name = ".".join(map(str, one["loc"])) or "it"
        yield f"{name}: {one['msg'][0].lower()}{one['msg'][1:]}"
