"""The pages that installers read.

Form and attributes are those of the specification "Simple repository API" (PEP 503 and 691, with
592, 658, 700, 714 and 740): packaging.python.org. Both forms of a page lie in one folder,
`index.html` and `index.json`; which one is served is the server's choice by the `Accept` header,
where it can choose.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cuwheel.index.entries import ATTESTATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cuwheel.index.entries import Entry

_VERSION = "1.3"  # of the API: the one with attestations
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="pypi:repository-version" content="1.3">
<title>{title}</title>
</head>
<body>
"""
_FOOT = "</body>\n</html>\n"


@dataclass(frozen=True, kw_only=True)
class IndexFile:
    """A file that a project's page lists beside its wheels: what variants a release has.

    Attributes:
        project: its normalised name.
        name: of the file.
        content: all of it.
        uploaded: as a wheel's.
    """

    project: str
    name: str
    content: bytes
    uploaded: str

    @property
    def sha256(self) -> str:
        """Of its content."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where wheels are: as a project's page links them, and by full address where it is known."""

    base: str
    address: str

    def url_of(self, entry: Entry) -> str:
        return f"{entry.at or self.base}/{entry.quoted}"

    def url_of_file(self, file: IndexFile) -> str:
        return f"{self.base}/{quote(file.name)}"

    def attestations_of(self, entry: Entry) -> str | None:
        address = entry.at or self.address
        if not (entry.has_attestations and address):
            return None
        return f"{address}/{entry.quoted}{ATTESTATIONS}"


def simple_pages(
    entries: Iterable[Entry], files: str, address: str = "", others: Iterable[IndexFile] = ()
) -> dict[str, bytes]:
    """Contents of all pages by their path below `simple/`.

    Args:
        entries: the wheels.
        files: where the wheels are: an address, or a relative one as seen from `simple/` itself;
            without a slash at its end.
        address: the wheels' full address, which links to attestations have to have; empty: it isn't
            known, and attestations aren't linked.
        others: files that lie beside the wheels; of projects without wheels they are left out.
    """
    by_project = sorted(entries, key=lambda one: (one.project, one.version, one.name))
    projects = {
        project: tuple(wheels)
        for project, wheels in groupby(by_project, key=lambda one: one.project)
    }
    beside: dict[str, list[IndexFile]] = defaultdict(list)
    for one in others:
        beside[one.project].append(one)
    place = _Place(base=files if "://" in files else f"../{files}", address=address)
    pages = {
        "index.html": _projects_html(projects),
        "index.json": _json({"projects": [{"name": project} for project in projects]}),
    }
    for project, wheels in projects.items():
        pages[f"{project}/index.html"] = _project_html(project, wheels, beside[project], place)
        pages[f"{project}/index.json"] = _project_json(project, wheels, beside[project], place)
    return {path: text.encode() for path, text in pages.items()}


def _projects_html(projects: Iterable[str]) -> str:
    # With the page's name: from file:// and from plain web servers, installers need it.
    links = (f'<a href="{quote(one)}/index.html">{escape(one)}</a><br>\n' for one in projects)
    return f"{_HEAD.format(title='Simple index')}{''.join(links)}{_FOOT}"


def _project_html(
    project: str, wheels: Sequence[Entry], others: Sequence[IndexFile], place: _Place
) -> str:
    links = "".join(_link(entry, place) for entry in wheels)
    for one in others:
        address = f"{place.url_of_file(one)}#sha256={one.sha256}"
        links += f'<a href="{escape(address)}">{escape(one.name)}</a><br>\n'
    return f"{_HEAD.format(title=escape(project))}<h1>{escape(project)}</h1>\n{links}{_FOOT}"


def _link(entry: Entry, place: _Place) -> str:
    attributes = {
        "href": f"{place.url_of(entry)}#sha256={entry.sha256}",
        "data-requires-python": entry.requires_python or None,
        "data-core-metadata": f"sha256={entry.metadata_sha256}",
        "data-yanked": entry.yanked,
        "data-provenance": place.attestations_of(entry),
    }
    said = " ".join(
        f'{name}="{escape(value)}"' for name, value in attributes.items() if value is not None
    )
    return f"<a {said}>{escape(entry.name)}</a><br>\n"


def _project_json(
    project: str, wheels: Sequence[Entry], others: Sequence[IndexFile], place: _Place
) -> str:
    versions = dict.fromkeys(entry.shown_version for entry in wheels)
    files = [_file(entry, place) for entry in wheels]
    files += [
        {
            "filename": one.name,
            "url": place.url_of_file(one),
            "hashes": {"sha256": one.sha256},
            "size": len(one.content),
            "upload-time": one.uploaded,
        }
        for one in others
    ]
    return _json({"name": project, "versions": list(versions), "files": files})


def _file(entry: Entry, place: _Place) -> dict[str, Any]:
    facts = {
        "filename": entry.name,
        "url": place.url_of(entry),
        "hashes": {"sha256": entry.sha256},
        "requires-python": entry.requires_python or None,
        "size": entry.size,
        "upload-time": entry.uploaded,
        "core-metadata": {"sha256": entry.metadata_sha256},
        "yanked": entry.yanked,
        "provenance": place.attestations_of(entry),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _json(content: dict[str, Any]) -> str:
    return json.dumps({"meta": {"api-version": _VERSION}, **content}) + "\n"
