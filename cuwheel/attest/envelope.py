"""What is signed: a DSSE envelope (Dead Simple Signing Envelope 1.0) around an in-toto statement.

securesystemslib makes and checks signatures; here stands what it leaves open: an envelope is JSON
in which no name stands twice, so that no two readers see two things in it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuwheel.attest.keys import PublicKey, SigningKey


PAYLOAD_TYPE = "application/vnd.in-toto+json"
_SHOWN = 16  # characters of a key's id


class StatementError(Exception):
    """A statement that doesn't count; its text says why, as part of a sentence."""


def sign_statement(statement: str, key: SigningKey) -> str:
    """The envelope of a statement, as JSON."""
    envelope = Envelope(statement.encode(), PAYLOAD_TYPE, {})
    envelope.sign(key.signer)
    return json.dumps(envelope.to_dict(), indent=2, sort_keys=True) + "\n"


def open_envelope(
    content: bytes, keys: Sequence[PublicKey]
) -> tuple[dict[str, Any], tuple[PublicKey, ...]]:
    """What a signed statement says, and who of some keys has signed it.

    Args:
        content: of the file.
        keys: those that count; one that isn't among them is none.

    Raises:
        StatementError: it is no envelope, is of another kind, or nobody of them has signed it.
    """
    data = read_strictly(content, "it")
    try:
        envelope = Envelope.from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise StatementError(f"it is not a DSSE envelope ({_named(problem)})") from problem
    if envelope.payload_type != PAYLOAD_TYPE:
        raise StatementError(f"its payloadType is {envelope.payload_type!r}, not {PAYLOAD_TYPE}")
    by = tuple(key for key in keys if _has_signed(envelope, key))
    if not by:
        raise StatementError(_why_nobody(envelope, keys))
    return read_strictly(envelope.payload, "its payload"), by


def read_strictly(content: bytes, what: str) -> dict[str, Any]:
    """A JSON object in which no name stands twice.

    Args:
        content: its text.
        what: what it is, for the message.

    Raises:
        StatementError: it isn't one.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise StatementError(f'{what} says "{twice}" twice')
        return found

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


def _why_nobody(envelope: Envelope, keys: Sequence[PublicKey]) -> str:
    known = {key.id: key for key in keys}
    named = [known[one] for one in envelope.signatures if one in known]
    if named:
        return f"the signature of key {named[0].short_id} is not valid for this payload"
    ids = [str(one)[:_SHOWN] for one in envelope.signatures]
    return f"it is signed by unknown keys: {', '.join(ids)}" if ids else "it is not signed"


def _named(problem: Exception) -> str:
    return f"it has no {problem}" if isinstance(problem, KeyError) else str(problem)
