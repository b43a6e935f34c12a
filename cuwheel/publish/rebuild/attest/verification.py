"""A rebuilder's statement of a wheel: in-toto, with SLSA's verification summary (v1).

The form is that of https://slsa.dev/spec/v1.1/verification_summary. The policy is "built again, it
is the same bytes"; the level and the field with differences are our own. Why: docs/adr/0033.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from packaging.utils import parse_wheel_filename

from cuwheel.base.system.quantities import first_of
from cuwheel.publish.rebuild.attest.signatures import StatementError
from cuwheel.version import __version__

PREDICATE_TYPE = "https://slsa.dev/verification_summary/v1"
POLICY = "urn:cuwheel:policy:same-bytes:v1"  # what was verified: docs/adr/0033
LEVEL = "CUWHEEL_SAME_BYTES"  # names that begin with SLSA_ are SLSA's
_STATEMENT = "https://in-toto.io/Statement/v1"
_PASSED, _FAILED = "PASSED", "FAILED"
_OURS = "cuwheel_rebuild"  # SLSA requires a vendor in front of an extension's name
_SLSA = "1.1"
_VERIFIER = "urn:cuwheel:rebuilder:"  # and the key's id
# What reading a field of another type raises; nesting without end, what showing it does.
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of building a published wheel again.

    Attributes:
        when: in UTC.
        differences: members and kernels in which they differ, one line each; nothing where they
            are the same bytes.
        materials: what went in and wasn't as the wheel's provenance states, one line each.
        inputs: SHA-256 of each statement that was read or made, by file name.
    """

    wheel: str
    sha256: str
    rebuilt_sha256: str
    when: datetime.datetime
    differences: tuple[str, ...] = ()
    materials: tuple[str, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()

    @property
    def is_same(self) -> bool:
        """True if both are the same bytes."""
        return self.sha256 == self.rebuilt_sha256


def statement_of(verification: Verification, verifier: str) -> str:
    """Return the in-toto statement of a verification as JSON.

    Args:
        verifier: the id of the key that signs it, or `sigstore`.
    """
    name, version, *_ = parse_wheel_filename(verification.wheel)
    purl = f"pkg:pypi/{name}@{quote(str(version))}?file_name={quote(verification.wheel)}"
    when = verification.when.astimezone(datetime.timezone.utc)
    predicate = {
        "verifier": {"id": f"{_VERIFIER}{verifier}"},
        "timeVerified": f"{when:%Y-%m-%dT%H:%M:%SZ}",
        "resourceUri": purl,
        "policy": {"uri": POLICY},
        "inputAttestations": [
            {"uri": uri, "digest": {"sha256": sha256}} for uri, sha256 in verification.inputs
        ],
        "verificationResult": _PASSED if verification.is_same else _FAILED,
        "verifiedLevels": [LEVEL if verification.is_same else _FAILED],
        "slsaVersion": _SLSA,
        _OURS: {
            "result": "same bytes" if verification.is_same else "other bytes",
            "sha256": verification.rebuilt_sha256,
            "differences": verification.differences,
            "materials": verification.materials,
            "cuwheel": __version__,
        },
    }
    stated = {
        "_type": _STATEMENT,
        "subject": [{"name": verification.wheel, "digest": {"sha256": verification.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    return json.dumps(stated, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def check_statement(stated: Mapping[str, Any], wheel: str, sha256: str) -> str:
    """Check that a statement is about a wheel's bytes; return its verifier.

    Raises:
        StatementError: it is about something else, or incomplete.
    """
    try:
        predicate = stated["predicate"]
        _check_subject(stated, wheel, sha256)
        result, levels = predicate["verificationResult"], predicate["verifiedLevels"]
        own = predicate[_OURS]
        if result == _FAILED:
            named = first_of([*map(str, own["differences"])], 1)
            where = f": {named}" if named else ""
            raise StatementError(f"it says that a rebuild gave other bytes{where}")
        if result != _PASSED or levels != [LEVEL]:
            raise StatementError(f"its result is {result!r} with {levels!r}, not PASSED")
        if own["sha256"] != sha256:
            raise StatementError("it says PASSED for a wheel that was rebuilt to other bytes")
        return str(predicate["verifier"]["id"]).removeprefix(_VERIFIER)
    except _MALFORMED as problem:
        raise StatementError(f"it is incomplete ({problem!r})") from problem


def _check_subject(stated: Mapping[str, Any], wheel: str, sha256: str) -> None:
    kind = stated["_type"], stated["predicateType"]
    if kind != (_STATEMENT, PREDICATE_TYPE):
        raise StatementError(f"it is of another kind: {' '.join(map(str, kind))}")
    if (policy := stated["predicate"]["policy"]["uri"]) != POLICY:
        raise StatementError(f"it is about another policy: {policy}")
    [subject] = stated["subject"]
    digest = subject["digest"]["sha256"]
    if digest != sha256:
        raise StatementError(f"it is about another file: SHA-256 {digest}, this wheel has {sha256}")
    if subject["name"] != wheel:
        raise StatementError(f"it is about a file with another name: {subject['name']}")
