"""Findings that a project's page gives by itself, without looking at the files that it lists."""

from __future__ import annotations

import datetime
import re
from collections import Counter, defaultdict
from posixpath import basename
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from cuwheel.fetch.urls import redact_url
from cuwheel.index.check.rules import Finding
from cuwheel.wheel.variants import VARIANTS, split_variant, variants_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cuwheel.index.check.listing import ListedFile, Listing

# Digits of each hash that nobody can forge; pip takes the first three, uv blake2b too.
_STRONG = {"sha256": 64, "sha384": 96, "sha512": 128, "blake2b": 128}
_WEAK = {"md5": 32, "sha1": 40, "sha224": 56}
_DIGITS = {**_STRONG, **_WEAK}  # the best first
_SOURCES = (".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar")  # that pip takes
_SPECIFIED_SOURCES = (".tar.gz", ".zip")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")  # PEP 700
_AHEAD = datetime.timedelta(days=1)  # clocks differ
_COMPARED = ("url", "hashes", "requires_python", "yanked", "announced", "provenance")


def page_findings(project: str, listing: Listing) -> Iterator[Finding]:
    """What is wrong with a page.

    Args:
        project: the normalised name that the page stands below.
        listing: the page.
    """
    yield from listing.faults
    if listing.project and canonicalize_name(listing.project) != project:
        fact = f"the page of {project} says that it is the page of {listing.project}"
        yield Finding(code="project-name", where=listing.where, fact=fact)
    for name, count in Counter(one.name for one in listing.files).items():
        if count > 1:
            yield _finding("duplicate", listing, name, f"it is listed {count} times")
    names = {one.name for one in listing.files}
    for file in listing.files:
        for code, fact in _file_faults(project, listing, file):
            yield _finding(code, listing, file.name, fact)
    for needed, variants in _variants(names).items():
        for name in variants if needed not in names else ():
            yield _finding("variants", listing, name, f"the page lists no {needed}")
    if listing.has_sizes:
        yield from _version_findings(listing)


def _finding(code: str, listing: Listing, name: str, fact: str) -> Finding:
    return Finding(code=code, where=f"{listing.where}: {name}", fact=fact)


def _variants(names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """Variants, each with its label, by the name of the file that has to know them."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name in sorted(names):
        if label := split_variant(name)[1]:
            found[variants_name(name)][name] = label
    return found


def variant_labels(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Labels of variants by the name of the file that has to know them.

    Args:
        names: of all files of a page.
    """
    return {needed: tuple(dict.fromkeys(one.values())) for needed, one in _variants(names).items()}


def is_wheel(name: str) -> bool:
    """Whether a file is one by its name."""
    return name.endswith(".whl")


def best_hash(hashes: Mapping[str, str]) -> str:
    """The algorithm to go by; empty where none of them is known and has the digits that it has."""
    return next((one for one, digits in _DIGITS.items() if len(hashes.get(one, "")) == digits), "")


def is_readable(listing: Listing, file: ListedFile) -> bool:
    """Whether a link may be followed: none from a server to a file of this machine."""
    own, scheme = urlsplit(listing.url).scheme, urlsplit(file.url).scheme
    return scheme in {"http", "https"} or scheme == own == "file"


def _file_faults(project: str, listing: Listing, file: ListedFile) -> Iterator[tuple[str, str]]:
    """Codes and facts."""
    yield from _link_faults(listing, file)
    yield from _name_faults(project, file.name)
    yield from _hash_faults(file)
    try:
        SpecifierSet(file.requires_python)
    except InvalidSpecifier:
        yield "requires-python", f"{file.requires_python!r} is not a version specifier"
    if file.yanked == "":
        yield "yank-reason", "it is yanked, and the page gives no reason"
    yield from _metadata_faults(file)
    if listing.has_sizes:
        yield from _date_faults(file)
        if file.size is None:
            yield "no-size", "the page has no `size` for it"


def _link_faults(listing: Listing, file: ListedFile) -> Iterator[tuple[str, str]]:
    shown = redact_url(file.url)
    if not is_readable(listing, file):
        yield "link", f"{shown} can't be used on a page served over {urlsplit(listing.url).scheme}"
    elif (last := unquote(basename(urlsplit(file.url).path))) != file.name:
        yield "link", f"its link leads to {last or 'a folder'}: {shown}"
    if urlsplit(listing.url).scheme == "https" and urlsplit(file.url).scheme == "http":
        yield "insecure-link", f"it is linked as {shown}"


def _name_faults(project: str, name: str) -> Iterator[tuple[str, str]]:
    try:
        if is_wheel(name):
            own = parse_wheel_filename(split_variant(name)[0])[0]
        elif name.endswith(_SPECIFIED_SOURCES):
            own = parse_sdist_filename(name)[0]
        elif name.endswith((*_SOURCES, VARIANTS)):
            return
        else:
            yield "file-kind", "installers accept .whl files and source archives"
            return
    except (InvalidWheelFilename, InvalidSdistFilename) as problem:
        yield "file-name", str(problem)
        return
    if own != project:
        yield "file-name", f"it belongs to {own}, but this is the page of {project}"


def _hash_faults(file: ListedFile) -> Iterator[tuple[str, str]]:
    best = best_hash(file.hashes)
    if not file.hashes:
        yield "no-hash", "the page gives none"
    elif not best:
        said = ", ".join(f"{one}={digest}" for one, digest in file.hashes.items())
        yield "no-hash", f"{said} is not a hash that can be checked"
    elif best in _WEAK:
        yield "weak-hash", f"the page gives only {' and '.join(file.hashes)}"


def _metadata_faults(file: ListedFile) -> Iterator[tuple[str, str]]:
    if file.metadata is None and file.old_metadata is not None:
        yield "old-metadata-key", "the page has `dist-info-metadata` and no `core-metadata`"
    elif None not in (file.metadata, file.old_metadata) and file.metadata != file.old_metadata:
        said = (
            f"{_told(file.metadata)} under the new name, {_told(file.old_metadata)} under the old"
        )
        yield "metadata-keys", said
    elif file.announced is None and is_wheel(file.name):
        yield "no-metadata", "the page doesn't announce it"


def _date_faults(file: ListedFile) -> Iterator[tuple[str, str]]:
    if not file.uploaded:
        yield "no-date", "the page has no `upload-time` for it"
    elif not _TIME.fullmatch(file.uploaded):
        yield "date", f"{file.uploaded!r} isn't in the format of PEP 700"
    else:
        try:
            time = datetime.datetime.fromisoformat(f"{file.uploaded[:19]}+00:00")
        except ValueError:
            yield "date", f"{file.uploaded} is not a valid time"
            return
        if time > datetime.datetime.now(tz=datetime.timezone.utc) + _AHEAD:
            yield "date", f"{file.uploaded} is in the future"


def _version_findings(listing: Listing) -> Iterator[Finding]:
    if listing.versions is None:
        yield Finding(code="versions", where=listing.where, fact="the page has no `versions`")
        return
    said = {_version(one) for one in listing.versions}
    lacking = {
        version
        for file in listing.files
        if (version := _version_of(file.name)) and version not in said
    }
    if lacking:
        fact = f"it lacks {', '.join(map(str, sorted(lacking)))}"
        yield Finding(code="versions", where=listing.where, fact=fact)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _version_of(name: str) -> Version | None:
    """The version in a file's name; None where it can't be read."""
    try:
        if is_wheel(name):
            return parse_wheel_filename(split_variant(name)[0])[1]
        return parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def form_findings(html: Listing, data: Listing) -> Iterator[Finding]:
    """In what the two forms of a page disagree."""
    first, second = ({one.name: one for one in listing.files} for listing in (html, data))
    for name in sorted((first.keys() ^ second.keys()).difference(data.unread)):
        form = "HTML" if name in first else "JSON"
        yield _finding("forms", data, name, f"only the {form} form lists it")
    for name in sorted(first.keys() & second.keys()):
        for field in _differing(first[name], second[name]):
            said, other = (_told(getattr(one[name], field)) for one in (first, second))
            words = field.replace("_", "-").replace("announced", "METADATA")
            yield _finding("forms", data, name, f"{words}: {said} in HTML, {other} in JSON")


def _differing(html: ListedFile, data: ListedFile) -> Sequence[str]:
    """Fields in which they do; HTML can give one hash of several."""
    found = [name for name in _COMPARED if getattr(html, name) != getattr(data, name)]
    if "hashes" in found and html.hashes and html.hashes.items() <= data.hashes.items():
        found.remove("hashes")
    said, other = html.announced, data.announced
    if "announced" in found and said and other and said.items() <= other.items():
        found.remove("announced")
    return found


def _told(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={digest}" for name, digest in value.items()) or "no hash"
    return "nothing" if value is None else repr(value)
