"""The pages of the simple API, which installers read.

Form and attributes are those of the specification "Simple repository API" (PEP 503 and 691, with
592, 658, 700, 714 and 740): packaging.python.org. Both forms of a page are in one folder,
`index.html` and `index.json`; a server may choose one by the `Accept` header.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from cuwheel.base.formats.wheel.publication import ATTESTATIONS
from cuwheel.build.wheelhouse.entries import Entry

_RUNS_WITH = "_runs-with"
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
class ListedFile:
    """A file that a project's page lists in addition to its wheels: the variants of a release."""

    project: str
    name: str
    content: bytes
    uploaded: str


def simple_pages(
    entries: Iterable[Entry],
    files: str,
    address: str = "",
    others: Iterable[ListedFile] = (),
    facts: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> dict[str, bytes]:
    """Return the contents of all pages by their path below `simple/`.

    Args:
        files: address of the wheels, or a path relative to `simple/`; without a slash at its end.
        address: full address of the wheels, required in links to attestations; empty: it isn't
            known, and attestations aren't linked.
        others: files next to the wheels; of projects without wheels they are left out.
        facts: of wheels, by hash, for the JSON form: keys that begin with `_` are an index's own.
    """
    by_project = sorted(entries, key=lambda entry: (entry.project, entry.version, entry.name))
    others_of: dict[str, list[ListedFile]] = defaultdict(list)
    for file in others:
        others_of[file.project].append(file)
    base = files if "://" in files else f"../{files}"
    pages: dict[str, str] = {}
    projects = []
    for project, group in groupby(by_project, key=lambda entry: entry.project):
        wheels = tuple(group)
        projects.append(project)
        listed = [
            _describe_wheel(entry, base, address)
            | ({_RUNS_WITH: known} if (known := facts.get(entry.sha256)) else {})
            for entry in wheels
        ]
        listed += [_describe_other(file, base) for file in others_of[project]]
        links = "".join(map(_link, listed))
        pages[f"{project}/index.html"] = _html(project, f"<h1>{escape(project)}</h1>\n{links}")
        versions = [*dict.fromkeys(entry.shown_version for entry in wheels)]
        content = {"name": project, "versions": versions, "files": listed}
        pages[f"{project}/index.json"] = _json(content)
    # With the page's name: from file:// and from plain web servers, installers need it.
    links = "".join(
        f'<a href="{quote(name)}/index.html">{escape(name)}</a><br>\n' for name in projects
    )
    pages["index.html"] = _html("Simple index", links)
    pages["index.json"] = _json({"projects": [{"name": project} for project in projects]})
    return {path: text.encode() for path, text in pages.items()}


def _describe_wheel(entry: Entry, base: str, address: str) -> dict[str, Any]:
    address = entry.at or address
    is_attested = entry.has_attestations and address
    facts = {
        "filename": entry.name,
        "url": f"{entry.at or base}/{entry.quoted}",
        "hashes": {"sha256": entry.sha256},
        "requires-python": entry.requires_python or None,
        "size": entry.size,
        "upload-time": entry.uploaded,
        "core-metadata": {"sha256": entry.metadata_sha256},
        "yanked": entry.yanked,
        "provenance": f"{address}/{entry.quoted}{ATTESTATIONS}" if is_attested else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _describe_other(file: ListedFile, base: str) -> dict[str, Any]:
    return {
        "filename": file.name,
        "url": f"{base}/{quote(file.name)}",
        "hashes": {"sha256": hashlib.sha256(file.content).hexdigest()},
        "size": len(file.content),
        "upload-time": file.uploaded,
    }


def _link(file: dict[str, Any]) -> str:
    """Return a file of the JSON form as the HTML form links it."""
    metadata = file.get("core-metadata")
    attributes = {
        "href": f"{file['url']}#sha256={file['hashes']['sha256']}",
        "data-requires-python": file.get("requires-python"),
        "data-core-metadata": metadata and f"sha256={metadata['sha256']}",
        "data-yanked": file.get("yanked"),
        "data-provenance": file.get("provenance"),
    }
    text = " ".join(
        f'{name}="{escape(value)}"' for name, value in attributes.items() if value is not None
    )
    return f"<a {text}>{escape(file['filename'])}</a><br>\n"


def _html(title: str, body: str) -> str:
    return f"{_HEAD.format(title=escape(title))}{body}{_FOOT}"


def _json(content: dict[str, Any]) -> str:
    return json.dumps({"meta": {"api-version": _VERSION}, **content}) + "\n"
