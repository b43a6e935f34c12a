"""Rebuilders with keys, and what they state of a wheel."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from cuwheel.base.formats.signing_keys import SigningKey, make_signing_key
from cuwheel.base.system.files import sha256_of_file
from cuwheel.publish.rebuild.attest.check import SignedStatement, statement_name
from cuwheel.publish.rebuild.attest.policy import Policy, line_of, read_policy
from cuwheel.publish.rebuild.attest.signatures import sign_statement
from cuwheel.publish.rebuild.attest.verification import Verification, statement_of

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


def make_statement(wheel: Path, key: SigningKey, **changes: Any) -> str:
    """The unsigned statement that a wheel is the same bytes, with fields changed."""
    sha256 = sha256_of_file(wheel)
    result = {"wheel": wheel.name, "sha256": sha256, "rebuilt_sha256": sha256, "when": WHEN}
    return statement_of(Verification(**{**result, **changes}), key.public.id)


def signed(wheel: Path, key: SigningKey, **changes: Any) -> SignedStatement:
    """The same, signed."""
    content = sign_statement(make_statement(wheel, key, **changes), key).encode()
    return SignedStatement(name=statement_name(wheel.name, key.public), content=content)
