"""What a rebuilder states of a wheel: an in-toto statement with SLSA's verification summary (v1).

The form is that of https://slsa.dev/spec/v1.1/verification_summary; the policy that it speaks of is
"built again, it is the same bytes", and the level that it gives is our own. What differed stands in
a field of ours. Why this predicate: docs/adr/0033.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from google.protobuf import json_format
from in_toto_attestation.predicates.vsa.v1 import vsa_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cuwheel.attest.envelope import StatementError
from cuwheel.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


PREDICATE_TYPE = "https://slsa.dev/verification_summary/v1"
POLICY = "urn:cuwheel:policy:same-bytes:v1"  # what was verified: docs/adr/0033
LEVEL = "CUWHEEL_SAME_BYTES"  # names that begin with SLSA_ are SLSA's
_STATEMENT = "https://in-toto.io/Statement/v1"
_PASSED, _FAILED = "PASSED", "FAILED"
_OURS = "cuwheel_rebuild"  # SLSA asks for a vendor in front of an extension's name
_SLSA = "1.1"
_VERIFIER = "urn:cuwheel:rebuilder:"  # and the key's id
# What reading a field of another type raises; nesting without end, what showing it does.
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)
_to_dict: Callable[[Any], dict[str, Any]] = json_format.MessageToDict  # it has no annotations


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What building a published wheel again gave.

    Attributes:
        wheel: its file name.
        sha256: of it, as it is published.
        rebuilt_sha256: of the one that was built.
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
        """Whether both are the same bytes."""
        return self.sha256 == self.rebuilt_sha256


def statement_of(verification: Verification, key_id: str) -> str:
    """The in-toto statement of a verification by whoever has a key: JSON with sorted keys.

    Raises:
        ValueError: a name or a hash isn't valid.
    """
    subject = _descriptor(verification.wheel, verification.sha256)
    predicate = _to_dict(_summary(verification, key_id))
    # A list in the specification, one text in the message of in-toto-attestation 0.9.3.
    predicate["verifiedLevels"] = [LEVEL if verification.is_same else _FAILED]
    predicate[_OURS] = {
        "result": "same bytes" if verification.is_same else "other bytes",
        "sha256": verification.rebuilt_sha256,
        "differences": list(verification.differences),
        "materials": list(verification.materials),
        "cuwheel": __version__,
    }
    stated = Statement([subject], PREDICATE_TYPE, predicate)
    stated.validate()
    return json.dumps(_to_dict(stated.pb), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def check_statement(stated: Mapping[str, Any], wheel: str, sha256: str) -> str:
    """See that a statement says of a wheel that it is the same bytes; gives its author's key id.

    Args:
        stated: what was signed.
        wheel: its file name.
        sha256: of it.

    Raises:
        StatementError: it says something else.
    """
    try:
        predicate = stated["predicate"]
        _check_kind(stated, predicate)
        _check_subject(stated, wheel, sha256)
        result, levels = predicate["verificationResult"], predicate["verifiedLevels"]
        if result == _FAILED:
            raise StatementError(_what_differed(predicate))
        if result != _PASSED or levels != [LEVEL]:
            raise StatementError(f"its result is {result!r} with {levels!r}, not PASSED")
        if predicate[_OURS]["sha256"] != sha256:
            raise StatementError("it says PASSED for a wheel that was rebuilt to other bytes")
        return str(predicate["verifier"]["id"]).removeprefix(_VERIFIER)
    except _MALFORMED as problem:
        raise StatementError(f"it is incomplete ({problem!r})") from problem


def _check_kind(stated: Mapping[str, Any], predicate: Mapping[str, Any]) -> None:
    kind = stated["_type"], stated["predicateType"]
    if kind != (_STATEMENT, PREDICATE_TYPE):
        raise StatementError(f"it is of another kind: {' '.join(map(str, kind))}")
    if predicate["policy"]["uri"] != POLICY:
        raise StatementError(f"it is about another policy: {predicate['policy']['uri']}")


def _check_subject(stated: Mapping[str, Any], wheel: str, sha256: str) -> None:
    [subject] = stated["subject"]
    if subject["digest"]["sha256"] != sha256:
        raise StatementError(
            f"it is about another file: SHA-256 {subject['digest']['sha256']}, this wheel has "
            f"{sha256}"
        )
    if subject["name"] != wheel:
        raise StatementError(f"it is about a file with another name: {subject['name']}")


def _what_differed(predicate: Mapping[str, Any]) -> str:
    differences = [str(one) for one in predicate[_OURS]["differences"]]
    more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
    where = f": {differences[0]}{more}" if differences else ""
    return f"it says that a rebuild gave other bytes{where}"


def _summary(verification: Verification, key_id: str) -> Any:
    """The predicate, as the library's own message: a field that SLSA doesn't know is an error."""
    message = vsa_pb2.VerificationSummary()  # type: ignore[attr-defined]
    message.verifier.id = f"{_VERIFIER}{key_id}"
    when = verification.when.astimezone(datetime.timezone.utc)
    message.time_verified.FromSeconds(int(when.timestamp()))
    message.resource_uri = _package_url(verification.wheel)
    message.policy.uri = POLICY
    for name, sha256 in verification.inputs:
        one = message.input_attestations.add()
        one.uri = name
        one.digest["sha256"] = sha256
    message.verification_result = _PASSED if verification.is_same else _FAILED
    message.slsa_version = _SLSA
    return message


def _package_url(wheel: str) -> str:
    """A wheel as a package URL (purl), with its file's name."""
    try:
        name, version, *_ = parse_wheel_filename(wheel)
    except InvalidWheelFilename as problem:
        raise ValueError(str(problem)) from problem
    return f"pkg:pypi/{name}@{quote(str(version))}?file_name={quote(wheel)}"


def _descriptor(name: str, sha256: str) -> Any:
    described = ResourceDescriptor(name=name, digest={"sha256": sha256})
    described.validate()
    return described.pb
