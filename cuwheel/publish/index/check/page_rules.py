"""Rules for a project's page alone, without reading the files that it lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from posixpath import basename
from urllib.parse import unquote, urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from cuwheel.base.fetch.indexes.pages import link_fault
from cuwheel.base.fetch.urls import redact_url
from cuwheel.base.formats.wheel.variants import split_variant
from cuwheel.publish.index.check.reading import Listing, PageFile
from cuwheel.publish.index.check.rules import Violation

# Digits of each hash, the best first; pip accepts the first three, uv also blake2b.
_STRONG = {"sha256": 64, "sha384": 96, "sha512": 128, "blake2b": 128}
_DIGITS = {**_STRONG, "md5": 32, "sha1": 40, "sha224": 56}
_COMPARED = ("url", "hashes", "requires_python", "yanked", "metadata")


def check_page(project: str, listing: Listing) -> Iterator[Violation]:
    """Yield what is wrong with a page."""
    yield from listing.faults
    if listing.project and canonicalize_name(listing.project) != project:
        fact = f"the page of {project} says that it is the page of {listing.project}"
        yield Violation(code="project-name", where=listing.where, fact=fact)
    for name, count in Counter(file.name for file in listing.files).items():
        if count > 1:
            yield _violation("duplicate", listing, name, f"it is listed {count} times")
    for file in listing.files:
        for code, fact in _file_faults(project, listing, file):
            yield _violation(code, listing, file.name, fact)


def _violation(code: str, listing: Listing, name: str, fact: str) -> Violation:
    return Violation(code=code, where=f"{listing.where}: {name}", fact=fact)


def best_hash(hashes: Mapping[str, str]) -> str:
    """Return the best algorithm with a hash of the right length; empty: there is none."""
    return next(
        (name for name, digits in _DIGITS.items() if len(hashes.get(name, "")) == digits), ""
    )


def may_link(listing: Listing, file: PageFile) -> bool:
    """Return True if a page may link a file's address, so that it is read."""
    return not link_fault(file.url, listing.index or listing.url)


def _file_faults(project: str, listing: Listing, file: PageFile) -> Iterator[tuple[str, str]]:
    """Yield codes and facts."""
    yield from _link_faults(listing, file)
    yield from _name_faults(project, file.name)
    if best_hash(file.hashes) not in _STRONG:
        yield "no-hash", f"the page gives {_show(file.hashes)}"
    try:
        SpecifierSet(file.requires_python)
    except InvalidSpecifier:
        yield "requires-python", f"{file.requires_python!r} is not a version specifier"


def _link_faults(listing: Listing, file: PageFile) -> Iterator[tuple[str, str]]:
    shown = redact_url(file.url)
    if urlsplit(listing.url).scheme == "https" and urlsplit(file.url).scheme == "http":
        yield "insecure-link", f"it is linked as {shown}"
    elif why := link_fault(file.url, listing.index or listing.url):
        yield "link", why
    elif (last := unquote(basename(urlsplit(file.url).path))) != file.name:
        yield "link", f"its link leads to {last or 'a folder'}: {shown}"


def _name_faults(project: str, name: str) -> Iterator[tuple[str, str]]:
    try:
        if name.endswith(".whl"):
            owner = parse_wheel_filename(split_variant(name)[0])[0]
        elif name.endswith((".tar.gz", ".zip")):
            owner = parse_sdist_filename(name)[0]
        else:  # which installers ignore, or old forms of a source
            return
    except (InvalidWheelFilename, InvalidSdistFilename) as problem:
        yield "file-name", str(problem)
        return
    if owner != project:
        yield "file-name", f"it belongs to {owner}, but this is the page of {project}"


def compare_forms(html: Listing, data: Listing) -> Iterator[Violation]:
    """Yield the differences of the two forms of a page."""
    first, second = ({file.name: file for file in listing.files} for listing in (html, data))
    for name in sorted((first.keys() ^ second.keys()).difference(data.unread)):
        form = "HTML" if name in first else "JSON"
        yield _violation("forms", data, name, f"only the {form} form lists it")
    for name in sorted(first.keys() & second.keys()):
        for field in _COMPARED:
            in_html, in_json = (getattr(files[name], field) for files in (first, second))
            if in_html == in_json or _has_one_of(in_html, in_json):
                continue
            fact = f"{field.replace('_', '-')}: {_show(in_html)} in HTML, {_show(in_json)} in JSON"
            yield _violation("forms", data, name, fact)


def _has_one_of(few: object, many: object) -> bool:
    """Return True for hashes of which HTML, as it can't have more, has one."""
    if not (isinstance(few, dict) and isinstance(many, dict)):
        return False
    return bool(few) and few.items() <= many.items()


def _show(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={digest}" for name, digest in value.items()) or "no hash"
    return "nothing" if value is None else repr(value)
