"""Rebuilders with keys, and what they state of a wheel."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from cuwheel.attest.check import SignedStatement, statement_name
from cuwheel.attest.envelope import sign_statement
from cuwheel.attest.keys import make_signing_key
from cuwheel.attest.policy import line_of, read_policy
from cuwheel.attest.verification import Verification, statement_of
from cuwheel.system.files import sha256_of_file

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.attest.keys import SigningKey
    from cuwheel.attest.policy import Policy

WHEN = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.timezone.utc)
TODAY = WHEN.date()


def make_keys(folder: Path, *names: str) -> dict[str, SigningKey]:
    """A new key for each name."""
    folder.mkdir(exist_ok=True)
    return {name: make_signing_key(folder / f"{name}.pem") for name in names}


def write_policy(path: Path, threshold: int, keys: dict[str, SigningKey], **ends: str) -> Policy:
    """A policy of these rebuilders; some keys end."""
    until = {name: f" until={day}" for name, day in ends.items()}
    lines = [line_of(name, key.public) + until.get(name, "") for name, key in keys.items()]
    path.write_text("\n".join([f"threshold {threshold}", *lines]) + "\n")
    return read_policy(path)


def say(wheel: Path, key: SigningKey, **changes: Any) -> str:
    """The unsigned statement that a wheel is the same bytes, with fields changed."""
    sha256 = sha256_of_file(wheel)
    made = {"wheel": wheel.name, "sha256": sha256, "rebuilt_sha256": sha256, "when": WHEN}
    return statement_of(Verification(**{**made, **changes}), key.public.id)


def signed(wheel: Path, key: SigningKey, **changes: Any) -> SignedStatement:
    """The same, signed."""
    content = sign_statement(say(wheel, key, **changes), key).encode()
    return SignedStatement(name=statement_name(wheel.name, key.public), content=content)
