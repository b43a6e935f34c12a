"""Signed entries of a remote compile cache: made with a key, and checked before their use.

An entry is a line with the format's name, a line of JSON (the statement), a line with its signature
in Base64, and the value. The statement names the key of the cache, SHA-256 and size of the value,
the fingerprint of the compilers, the program that keeps compiles, and the signer. So an entry is of
use for one compile with one compiler alone, wherever it is put.

A signature says who made an entry, not that it is right. So some are compiled again: to the build
they aren't there, and what it stores in their place is compared with them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError
from securesystemslib.signer import Signature

from cuwheel.base.errors import CacheEntryError
from cuwheel.base.formats.signing_keys import (
    PublicKey,
    SigningKey,
    read_public_key,
    read_signing_key,
)
from cuwheel.base.system.quantities import first_of
from cuwheel.base.system.regular_files import parse_json
from cuwheel.build.compile.cache.storage import OversizedEntryError

if TYPE_CHECKING:
    from cuwheel.build.compile.cache.remote import RemoteSigning
    from cuwheel.build.compile.cache.storage import Storage

_FORMAT = b"cuwheel-entry-1"
_LONGEST_LINE = 4096  # bytes of a statement or signature
# ccache's entries (its source, src/ccache/core/cacheentry.cpp): 7 bytes with format and
# compression, 8 with the time, and at the end 16 with a checksum of all that.
_CCACHE, _TIME, _CHECKSUM = b"\xcc\xac\x01", slice(7, 15), 16
_SHOWN = 3  # entries that a message names


class RefusedEntryError(Exception):
    """An entry that isn't used; its text is the reason, as part of a sentence."""


@dataclass(frozen=True, kw_only=True)
class Maker:
    """What makes entries in a build: an entry of another one is refused.

    Attributes:
        compiler: fingerprint of all that compiles.
        program: that keeps compiles, with its version: others may write the same object otherwise.
    """

    compiler: str
    program: str


def seal(name: str, value: bytes, maker: Maker, key: SigningKey) -> bytes:
    """Return the signed entry of a value."""
    statement = {
        "compiler": maker.compiler,
        "key": name,
        "program": maker.program,
        "sha256": hashlib.sha256(value).hexdigest(),
        "signer": key.public.id,
        "size": len(value),
    }
    line = json.dumps(statement, sort_keys=True).encode()
    signature = bytes.fromhex(key.signer.sign(_signed(line)).signature)
    return b"\n".join((_FORMAT, line, base64.b64encode(signature), value))


def unseal(name: str, entry: bytes, maker: Maker, keys: Mapping[str, PublicKey]) -> bytes:
    """Return the value of an entry, all of whose statement was checked.

    Args:
        keys: those that are trusted, by their id.

    Raises:
        RefusedEntryError: it isn't signed by one of them, isn't whole, or is about something else.
    """
    line, signature, value = _split(entry)
    _check_signature(line, signature, keys)
    statement = _read_statement(line)
    expected = {"key": name, "compiler": maker.compiler, "program": maker.program}
    for field_name, wanted in expected.items():
        if statement.get(field_name) != wanted:
            raise RefusedEntryError(f"it is for another {field_name}")
    if statement.get("size") != len(value):
        raise RefusedEntryError(f"it has {len(value)} bytes, not {statement.get('size')}")
    if statement.get("sha256") != hashlib.sha256(value).hexdigest():
        raise RefusedEntryError("its value isn't the one that was signed")
    return value


def _split(entry: bytes) -> tuple[bytes, bytes, bytes]:
    head, *lines = entry[: 2 * _LONGEST_LINE].split(b"\n", 3)
    if head != _FORMAT:
        raise RefusedEntryError("it isn't signed")
    if len(lines) < 3 or max(map(len, lines[:2])) > _LONGEST_LINE:  # noqa: PLR2004 - two and a value
        raise RefusedEntryError("it is cut off")
    line, signature, _ = lines
    start = sum(map(len, (head, line, signature))) + 3
    return line, signature, entry[start:]


def _check_signature(line: bytes, signature: bytes, keys: Mapping[str, PublicKey]) -> None:
    signer = str(_read_statement(line).get("signer"))  # only to choose the key
    key = keys.get(signer)
    if key is None:
        raise RefusedEntryError(f"it is signed by an unknown key, {ascii(signer[:16])[1:-1]}")
    try:
        digits = base64.b64decode(signature, validate=True).hex()
        key.key.verify_signature(Signature(key.id, digits), _signed(line))
    except (ValueError, UnverifiedSignatureError, VerificationError):
        raise RefusedEntryError(f"its signature isn't one of {key}") from None


def _signed(line: bytes) -> bytes:
    return _FORMAT + b"\n" + line


def _read_statement(line: bytes) -> dict[str, Any]:
    try:
        statement = parse_json(line)
    except ValueError:  # UTF-8's too
        statement = None
    if not isinstance(statement, dict):
        raise RefusedEntryError("its statement can't be read")
    return statement


def _comparable(value: bytes) -> str:
    """Return a digest of a value without its time: two compiles of one input have the same."""
    if value.startswith(_CCACHE):
        value = value[: _TIME.start] + value[_TIME.stop : -_CHECKSUM]
    return hashlib.sha256(value).hexdigest()


@dataclass
class SignedStorage:
    """A storage of signed entries, in which a build without a key of its own writes nothing.

    Attributes:
        key: signs what is put there; None: nothing is.
        folder: of the local compile cache, for an error.
    """

    storage: Storage
    signing: RemoteSigning
    maker: Maker
    key: SigningKey | None
    keys: Mapping[str, PublicKey]
    warn: Callable[[str], None]
    folder: Path
    taken: set[str] = field(default_factory=set)
    compared: int = 0
    wrong: list[str] = field(default_factory=list)
    _refused: list[str] = field(default_factory=list)
    _chosen: dict[str, str] = field(default_factory=dict)
    _decided: dict[str, bool] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, name: str) -> bytes | None:
        """Return the checked value of a name; None for none, and for one to be compiled again.

        Raises:
            OSError: the storage fails.
        """
        try:
            entry = self.storage.get(name)
            value = None if entry is None else unseal(name, entry, self.maker, self.keys)
        except (OversizedEntryError, RefusedEntryError) as problem:
            self._refuse(name, str(problem))
            return None
        if value is None:
            return None
        with self._lock:
            if self._decided.setdefault(name, self._chooses()):
                self._chosen.setdefault(name, _comparable(value))
                return None
            self.taken.add(name)
        return value

    def _chooses(self) -> bool:
        """Return True for one entry of so many, by the system's random numbers."""
        number = self.signing.sample
        return bool(number) and random.SystemRandom().randrange(number) == 0

    def _refuse(self, name: str, why: str) -> None:
        with self._lock:
            self._refused.append(name)
            is_first = len(self._refused) == 1
        if is_first:
            self.warn(
                f"the remote compile cache's entry {name} isn't used, nor others like it: {why}"
            )

    def put(self, name: str, value: bytes) -> None:
        """Compare a value with the entry that it was compiled again for; sign and store it.

        Raises:
            OSError: the storage fails.
        """
        with self._lock:
            expected = self._chosen.pop(name, None)
            if expected is not None:
                self.compared += 1
                if expected != _comparable(value):
                    self.wrong.append(name)
        if self.key and not self.wrong:
            self.storage.put(name, seal(name, value, self.maker, self.key))

    def check(self) -> None:
        """Raise CacheEntryError where an entry differs from what its compile has made."""
        if not self.wrong:
            return
        signers = ", ".join(str(key) for key in self.keys.values())
        raise CacheEntryError(
            f"the remote compile cache has a wrong entry: {first_of(self.wrong, _SHOWN)}",
            why=f"it was compiled again here, and the result differs; trusted are {signers}",
            fix="remove the key of its maker from CUWHEEL_REMOTE_CACHE_KEYS, and the folder "
            f"{self.folder}, which holds what was taken from there",
        )

    def summary(self) -> str:
        """Return what was taken and compared, for people."""
        parts = [f"remote compile cache: {len(self.taken)} signed entries taken"]
        parts.append(f"{self.compared} more compiled again and equal")
        if self._refused:
            parts.append(f"{len(self._refused)} refused")
        if self._chosen:
            parts.append(f"{len(self._chosen)} not stored again, so not compared")
        return ", ".join(parts)


def open_signed(
    storage: Storage,
    signing: RemoteSigning,
    maker: Maker,
    warn: Callable[[str], None],
    folder: Path,
) -> SignedStorage:
    """Return a storage with the keys of the caller's variables.

    Raises:
        UsageError: the private key can't be used.
        OSError: it can't be read.
    """
    key = read_signing_key(signing.private_key) if signing.private_key else None
    public = [read_public_key(word) for word in signing.public_keys]
    keys = {each.id: each for each in (*public, *((key.public,) if key else ()))}
    return SignedStorage(
        storage=storage,
        signing=signing,
        maker=maker,
        key=key,
        keys=keys,
        warn=warn,
        folder=folder,
    )
