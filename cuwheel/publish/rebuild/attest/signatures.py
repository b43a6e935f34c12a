"""DSSE envelopes (Dead Simple Signing Envelope 1.0), signed with the keys of rebuilders.

A public key is one word of a policy file. Envelopes are parsed more strictly than securesystemslib
does: no name may occur twice, so that no two readers see two things in one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError

from cuwheel.base.formats.signing_keys import PublicKey, SigningKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_SHOWN = 16  # characters of an id


class StatementError(Exception):
    """A statement that doesn't count; its text is the reason, as part of a sentence."""


def sign_statement(statement: str, key: SigningKey) -> str:
    """Return the signed envelope of a statement, as JSON."""
    envelope = Envelope(statement.encode(), PAYLOAD_TYPE, {})
    envelope.sign(key.signer)
    return json.dumps(envelope.to_dict(), indent=2, sort_keys=True) + "\n"


def open_envelope(
    content: bytes, keys: Sequence[PublicKey]
) -> tuple[dict[str, Any], tuple[PublicKey, ...]]:
    """Return the content of a signed statement and the given keys that signed it.

    Raises:
        StatementError: it is no envelope, is of another kind, or none of the keys has signed it.
    """
    data = read_strictly(content, "it")
    try:
        envelope = Envelope.from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        reason = f"it has no {problem}" if isinstance(problem, KeyError) else problem
        raise StatementError(f"it is not a DSSE envelope ({reason})") from problem
    if envelope.payload_type != PAYLOAD_TYPE:
        raise StatementError(f"its payloadType is {envelope.payload_type!r}, not {PAYLOAD_TYPE}")
    by = tuple(key for key in keys if _has_signed(envelope, key))
    if by:
        return read_strictly(envelope.payload, "its payload"), by
    for key in keys:
        if key.id in envelope.signatures:
            raise StatementError(f"the signature of {key} is not valid for this payload")
    ids = ", ".join(str(signature)[:_SHOWN] for signature in envelope.signatures)
    raise StatementError(f"it is signed by unknown keys: {ids}" if ids else "it is not signed")


def read_strictly(content: bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object in which no name occurs twice; else raise a StatementError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique = dict(pairs)
        if len(unique) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise StatementError(f'{what} says "{twice}" twice')
        return unique

    try:
        data = json.loads(content.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as problem:
        raise StatementError(f"{what} is not valid JSON ({problem})") from problem
    if not isinstance(data, dict):
        raise StatementError(f"{what} is not a JSON object")
    return data


def _has_signed(envelope: Envelope, key: PublicKey) -> bool:
    try:
        envelope.verify([key.key], 1)
    except VerificationError:
        return False
    return True
