"""The policy file: the number of rebuilders that have to have got a wheel's bytes, and their keys.

    # rebuilders.txt
    threshold 2
    alice MCowBQYDK2VwAyEA…
    bob MCowBQYDK2VwAyEA… until=2027-06-30
    carol identity=carol@example.org issuer=https://accounts.google.com
    trusted-root trusted_root.json

Each rebuilder has a public key, or an identity and its issuer, and optionally the last day on which
that counts. `trusted-root` names the roots of another Sigstore than the public one, relative to the
policy. Empty lines and comments after `#` don't count.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import UsageError, naming_option
from cuwheel.base.formats.signing_keys import PublicKey, read_public_key
from cuwheel.base.formats.wheel.record import repeated
from cuwheel.base.system.regular_files import read_regular
from cuwheel.publish.rebuild.attest.sigstore import Identity

_THRESHOLD = "threshold"
_ROOT = "trusted-root"
_IDENTITY = "identity="
_ISSUER = "issuer="
_UNTIL = "until="
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_FIX = "docs/how-to/rebuild.md shows one; `nox -s rebuild -- --new-key FILE` prints a key's line"


@dataclass(frozen=True, kw_only=True)
class Rebuilder:
    """A rebuilder and the key or identity that signs the statements.

    Attributes:
        until: the last day on which it counts; None: always.
    """

    name: str
    key: PublicKey | Identity
    until: datetime.date | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The statements that a wheel needs.

    Attributes:
        threshold: number of rebuilders that have to have got its bytes.
        rebuilders: each with a name and a key or an identity of their own.
        trusted_root: a `trusted_root.json` of Sigstore; None: the public one's.
    """

    threshold: int
    rebuilders: tuple[Rebuilder, ...]
    trusted_root: Path | None = None

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """All keys of rebuilders."""
        return tuple(
            rebuilder.key for rebuilder in self.rebuilders if isinstance(rebuilder.key, PublicKey)
        )

    @property
    def identities(self) -> tuple[Identity, ...]:
        """All identities of rebuilders."""
        return tuple(
            rebuilder.key for rebuilder in self.rebuilders if isinstance(rebuilder.key, Identity)
        )


def read_policy(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        UsageError: it isn't one; all that is wrong is named.
        FileAccessError: it isn't there, or can't be read.
    """
    with naming_option("--policy", path):
        content = read_regular(path, limit=limits.MIB)
    try:
        text = content.decode()
    except ValueError as problem:
        raise UsageError(
            f"{path} is not a policy", why=f"it isn't text: {problem}", fix=_FIX
        ) from None
    thresholds: list[int] = []
    roots: list[str] = []
    rebuilders: list[Rebuilder] = []
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("#")[0].split()
        try:
            if fields[:1] == [_THRESHOLD]:
                thresholds.append(_read_threshold(fields))
            elif fields[:1] == [_ROOT]:
                roots.append(" ".join(fields[1:]))
            elif fields:
                rebuilders.append(_read_rebuilder(fields))
        except ValueError as problem:
            faults.append(f"line {number}: {problem}")
    faults += _faults(thresholds, rebuilders)
    if len(roots) > 1 or "" in roots:
        faults.append(f"`{_ROOT} FILE` is allowed once, with a file")
    if faults:
        raise UsageError(f"{path} is not a policy", why="\n".join(faults), fix=_FIX)
    return Policy(
        threshold=thresholds[0],
        rebuilders=tuple(rebuilders),
        trusted_root=path.parent / roots[0] if roots else None,
    )


def line_of(name: str, key: PublicKey) -> str:
    """Return a rebuilder's line of a policy."""
    return f"{name} {key.word}"


def _read_threshold(fields: Sequence[str]) -> int:
    count = " ".join(fields[1:])
    if not (count.isascii() and count.isdecimal()) or int(count) == 0:
        raise ValueError(f"{_THRESHOLD} must be followed by one number from 1 on")
    return int(count)


def _read_rebuilder(fields: Sequence[str]) -> Rebuilder:
    name, *rest = fields
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid name: letters, digits, and . _ @ - inside")
    if not rest:
        raise ValueError(f"{name} has no key")
    key, others = _read_key(rest)
    until = None
    for field in others:
        if not field.startswith(_UNTIL) or until:
            raise ValueError(f"{field!r} isn't known; a key may be followed by {_UNTIL}DATE")
        try:
            until = datetime.date.fromisoformat(field.removeprefix(_UNTIL))
        except ValueError:
            raise ValueError(f"{field!r} has no date such as 2027-06-30") from None
    return Rebuilder(name=name, key=key, until=until)


def _read_key(fields: Sequence[str]) -> tuple[PublicKey | Identity, Sequence[str]]:
    """Read the key or the identity after the name; return it with the rest of the line."""
    first, *others = fields
    if not first.startswith((_IDENTITY, _ISSUER)):
        return read_public_key(first), others
    issuer = others[0] if others else ""
    if not (first.startswith(_IDENTITY) and issuer.startswith(f"{_ISSUER}https://")):
        raise ValueError(f"an identity is written {_IDENTITY}WHO {_ISSUER}https://…, in this order")
    identity = first.removeprefix(_IDENTITY)
    if not identity:
        raise ValueError(f"nothing follows {_IDENTITY}")
    return Identity(identity=identity, issuer=issuer.removeprefix(_ISSUER)), others[1:]


def _faults(thresholds: Sequence[int], rebuilders: Sequence[Rebuilder]) -> Iterator[str]:
    """Yield faults of all lines taken together."""
    if len(thresholds) != 1:
        yield f"it has {len(thresholds)} lines `{_THRESHOLD} N`, but exactly one is needed"
    elif thresholds[0] > len(rebuilders):
        yield f"its threshold is {thresholds[0]}, but it names {len(rebuilders)} rebuilders"
    for name in repeated(rebuilder.name for rebuilder in rebuilders):
        yield f"{name} is in it twice"
    for key in repeated(rebuilder.key.id for rebuilder in rebuilders):
        same = [rebuilder for rebuilder in rebuilders if rebuilder.key.id == key]
        owners = " and ".join(rebuilder.name for rebuilder in same)
        kind = same[0].key.kind
        yield f"{owners} have the same {kind}: independent rebuilders each have their own"
