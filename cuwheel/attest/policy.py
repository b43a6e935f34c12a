"""The policy file: how many rebuilders have to have got a wheel's bytes, and who they are.

    # rebuilders.txt
    threshold 2
    alice MCowBQYDK2VwAyEA…
    bob MCowBQYDK2VwAyEA… until=2027-06-30
    carol identity=carol@example.org issuer=https://accounts.google.com
    trusted-root trusted_root.json

One line says how many, one each names a rebuilder with the public key, or with an identity and who
says so, and, if it has one, the last day on which that counts. `trusted-root` names the roots of
another Sigstore than the public one, relative to the policy. Empty lines and what stands behind `#`
don't count.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.attest.keys import PublicKey, read_public_key
from cuwheel.attest.sigstore import Identity
from cuwheel.errors import UsageError, naming_option
from cuwheel.system.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


_THRESHOLD = "threshold"
_ROOT = "trusted-root"
_IDENTITY = "identity="
_ISSUER = "issuer="
_UNTIL = "until="
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_FIX = "docs/how-to/rebuild.md shows one; `nox -s rebuild -- --new-key FILE` prints a key's line"


@dataclass(frozen=True, kw_only=True)
class Rebuilder:
    """Somebody whose statements count.

    Attributes:
        name: as the policy calls them.
        key: their public key, or the identity that signs without one.
        until: the last day on which it counts; None: always.
    """

    name: str
    key: PublicKey | Identity
    until: datetime.date | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What has to be stated of a wheel.

    Attributes:
        threshold: how many of the rebuilders have to have got its bytes.
        rebuilders: each with a name and a key or an identity of their own.
        trusted_root: a `trusted_root.json` of Sigstore; None: the public one's.
    """

    threshold: int
    rebuilders: tuple[Rebuilder, ...]
    trusted_root: Path | None = None

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """All keys of rebuilders."""
        return tuple(one.key for one in self.rebuilders if isinstance(one.key, PublicKey))

    @property
    def identities(self) -> tuple[Identity, ...]:
        """All identities of rebuilders."""
        return tuple(one.key for one in self.rebuilders if isinstance(one.key, Identity))


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
    roots: list[Path] = []
    found: list[Rebuilder] = []
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        try:
            if words[:1] == [_THRESHOLD]:
                thresholds.append(_read_threshold(words))
            elif words[:1] == [_ROOT]:
                roots.append(path.parent / _read_root(words))
            elif words:
                found.append(_read_rebuilder(words))
        except ValueError as problem:
            faults.append(f"line {number}: {problem}")
    faults += _faults(thresholds, found)
    if len(roots) > 1:
        faults.append(f"it has {len(roots)} lines `{_ROOT} FILE`, but only one is allowed")
    if faults:
        raise UsageError(f"{path} is not a policy", why="\n".join(faults), fix=_FIX)
    return Policy(
        threshold=thresholds[0],
        rebuilders=tuple(found),
        trusted_root=next(iter(roots), None),
    )


def line_of(name: str, key: PublicKey) -> str:
    """The line that names a rebuilder."""
    return f"{name} {key.word}"


def _read_threshold(words: Sequence[str]) -> int:
    count = words[1] if len(words) == len((_THRESHOLD, "2")) else ""
    if not (count.isascii() and count.isdecimal()) or int(count) == 0:
        raise ValueError(f"{_THRESHOLD} must be followed by one number from 1 on")
    return int(count)


def _read_root(words: Sequence[str]) -> str:
    if len(words) != len((_ROOT, "FILE")):
        raise ValueError(f"{_ROOT} must be followed by one file, without spaces in its name")
    return words[1]


def _read_rebuilder(words: Sequence[str]) -> Rebuilder:
    name, *rest = words
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid name: letters, digits, and . _ @ - inside")
    if not rest:
        raise ValueError(f"{name} has no key")
    key, others = _read_key(rest)
    until = None
    for word in others:
        if not word.startswith(_UNTIL) or until:
            raise ValueError(f"{word!r} isn't known; a key may be followed by {_UNTIL}DATE")
        try:
            until = datetime.date.fromisoformat(word.removeprefix(_UNTIL))
        except ValueError:
            raise ValueError(f"{word!r} has no date such as 2027-06-30") from None
    return Rebuilder(name=name, key=key, until=until)


def _read_key(words: Sequence[str]) -> tuple[PublicKey | Identity, Sequence[str]]:
    """The key or the identity that a line begins with behind its name, and what is left."""
    first, *others = words
    if not first.startswith((_IDENTITY, _ISSUER)):
        return read_public_key(first), others
    issuer = others[0] if others else ""
    if not (first.startswith(_IDENTITY) and issuer.startswith(f"{_ISSUER}https://")):
        raise ValueError(f"an identity is written {_IDENTITY}WHO {_ISSUER}https://…, in this order")
    who = first.removeprefix(_IDENTITY)
    if not who:
        raise ValueError(f"nothing follows {_IDENTITY}")
    return Identity(identity=who, issuer=issuer.removeprefix(_ISSUER)), others[1:]


def _faults(thresholds: Sequence[int], found: Sequence[Rebuilder]) -> Iterator[str]:
    """What is wrong with the lines taken together."""
    if len(thresholds) != 1:
        yield f"it has {len(thresholds)} lines `{_THRESHOLD} N`, but exactly one is needed"
    elif thresholds[0] > len(found):
        yield f"its threshold is {thresholds[0]}, but it names {len(found)} rebuilders"
    names = [one.name for one in found]
    yield from (f"{name} is in it twice" for name in sorted(_repeated(names)))
    keys = [one.key.id for one in found]
    for twice in sorted(_repeated(keys)):
        same = [one for one in found if one.key.id == twice]
        who = " and ".join(one.name for one in same)
        kind = same[0].key.kind
        yield f"{who} have the same {kind}: independent rebuilders each have their own"


def _repeated(values: Sequence[str]) -> set[str]:
    return {one for one in values if values.count(one) > 1}
