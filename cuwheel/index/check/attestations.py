"""Attestations of a file in the form of PEP 740: whether they are about that file.

Signatures aren't checked here: that takes Sigstore's keys and a policy.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cuwheel.index.check.page_rules import is_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = 1  # of provenance objects and of attestations
# What reading a field of another type raises.
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


def attestation_faults(content: bytes, name: str, sha256: str) -> Iterator[str]:
    """What is wrong with a provenance object.

    Args:
        content: of the file that the index links as provenance.
        name: of the file that it is about.
        sha256: of that; empty where it isn't known.
    """
    try:
        provenance = json.loads(content)
        if provenance["version"] != _VERSION:
            yield f"it has version {provenance['version']!r}, only {_VERSION} is supported"
            return
        attestations = [
            one for bundle in provenance["attestation_bundles"] for one in bundle["attestations"]
        ]
        if not attestations:
            yield "it contains no attestation"
        for attestation in attestations:
            yield from _subject_faults(_statement(attestation), name, sha256)
    except _MALFORMED as problem:
        yield f"it doesn't have the format of PEP 740 ({problem!r})"


def _statement(attestation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(attestation["envelope"]["statement"]))
    return found


def _subject_faults(statement: dict[str, Any], name: str, sha256: str) -> Iterator[str]:
    [subject] = statement["subject"]
    stated = str(subject["digest"]["sha256"]).lower()
    if not _is_same_name(subject["name"], name):
        yield f"an attestation is about {subject['name']}"
    if sha256 and stated != sha256:
        yield f"an attestation is about SHA-256 {stated}, the page says {sha256}"


def _is_same_name(stated: str, name: str) -> bool:
    """PEP 740 has names compared by their parts: the order of compressed tags may differ."""
    if stated == name or not (is_wheel(stated) and is_wheel(name)):
        return stated == name
    try:
        return parse_wheel_filename(stated) == parse_wheel_filename(name)
    except InvalidWheelFilename:
        return False
