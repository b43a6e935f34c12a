"""Rules for METADATA and WHEEL: what the specification, installers and the index refuse."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from packaging.errors import ExceptionGroup
from packaging.metadata import Metadata, parse_email
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from cuwheel.audit.findings import Finding
from cuwheel.audit.tags import list_tags, minor_of
from cuwheel.wheel.metadata import header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.audit.case import Case


# Setuptools wrote it long before metadata 2.4 had it; twine lets it pass (7.0.0, `package.py`).
_EARLY_FIELD = "license-file introduced in metadata version"
_PATCHES = 100  # more than any Python has had releases
_WHEEL_MAJOR = 1  # of Wheel-Version: installers refuse a greater one (PEP 427)
_DESCRIPTION_MAX = 1 << 20  # bytes that are rendered
_SAID = 120  # characters of the renderer's message
_PLAIN = ("text/plain", "text/markdown")  # nothing in these can be wrong


def metadata_findings(case: Case) -> Iterator[Finding]:
    """Breaches in what the wheel says of itself."""
    yield from _specification_findings(case)
    yield from _description_findings(case)
    yield from _installer_findings(case)


def _specification_findings(case: Case) -> Iterator[Finding]:
    """What the core metadata specification forbids; upstream's faults are no breach of ours."""
    try:
        Metadata.from_email(case.scan.metadata, validate=True)
    except RecursionError:
        fact = "the brackets of a requirement are nested too deeply for any installer"
        yield Finding(file="METADATA", rule="metadata", fact=fact)
    except ExceptionGroup as problems:
        for problem in problems.exceptions:
            fact = " ".join(str(problem).split())
            if fact.startswith(_EARLY_FIELD):
                continue
            yield Finding(file="METADATA", rule="metadata", fact=fact, severity="warning")


def _installer_findings(case: Case) -> Iterator[Finding]:
    """What makes installers refuse the file though it can be read."""
    stated = next(iter(header(case.scan.tags_text, "wheel-version")), "")
    if stated.partition(".")[0] != str(_WHEEL_MAJOR):
        fact = f"Wheel-Version is {stated or 'missing'}, and installers support {_WHEEL_MAJOR}.x"
        yield Finding(file="WHEEL", rule="archive", fact=fact)
    required = next(iter(header(case.scan.metadata, "requires-python")), "")
    try:
        allowed = SpecifierSet(required)
    except InvalidSpecifier:
        return  # as `_specification_findings` says
    minors = {minor_of(tag) for tag in case.tags} - {None}
    is_for_these = all(minor_of(tag) is not None for tag in case.tags)
    if minors and is_for_these and not any(_allows(allowed, minor) for minor in minors):
        fact = f"Requires-Python is {required}, but the tag is {list_tags(case.tags)}"
        yield Finding(file="METADATA", rule="metadata", fact=fact)


def _description_findings(case: Case) -> Iterator[Finding]:
    """A description that the index doesn't show, by the renderer that the index itself uses."""
    raw, _ = parse_email(case.scan.metadata)
    description = raw.get("description") or ""
    stated = (raw.get("description_content_type") or "").partition(";")[0].strip().lower()
    if not description.strip() or stated in _PLAIN or len(description) > _DESCRIPTION_MAX:
        return
    # docutils takes 0.1 s to import, and few descriptions are reStructuredText.
    from readme_renderer import rst  # noqa: PLC0415

    said = io.StringIO()
    if rst.render(description, stream=said) is None:
        fault = " ".join(said.getvalue().split()).removeprefix("<string>:")[:_SAID]
        kind = (
            "reStructuredText" if stated else "read as reStructuredText because no type is stated,"
        )
        fact = f"the long description is {kind} and can't be rendered: line {fault}"
        yield Finding(file="METADATA", rule="metadata", fact=fact, severity="warning")


def _allows(specifier: SpecifierSet, minor: int | None) -> bool:
    """Whether some release of a Python is allowed."""
    return any(specifier.contains(f"3.{minor}.{patch}") for patch in range(_PATCHES))
