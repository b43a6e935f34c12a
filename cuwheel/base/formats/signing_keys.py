"""Keys that sign: a private one in a PEM file, a public one in one word.

The word is the body of a public PEM file, which is the key's SubjectPublicKeyInfo (RFC 5280) in
Base64. Its id is the SHA-256 of the same bytes:
`openssl pkey -in FILE -pubout -outform DER | sha256sum`. securesystemslib makes and checks
signatures.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)
from securesystemslib.signer import CryptoSigner, SSlibKey

from cuwheel.base.errors import UsageError
from cuwheel.base.system.regular_files import read_regular

_LIMIT = 64 << 10  # bytes of a PEM file; one has 120 to 2,000
_SHOWN = 16  # characters of an id
_CURVES = {"secp256r1": "ecdsa-sha2-nistp256", "secp384r1": "ecdsa-sha2-nistp384"}


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """A public key.

    Attributes:
        id: SHA-256 of it, 64 hexadecimal digits.
    """

    word: str
    id: str
    key: SSlibKey

    kind: ClassVar[str] = "key"

    @property
    def short_id(self) -> str:
        """The part of the id in file names and messages."""
        return self.id[:_SHOWN]

    @property
    def verifier(self) -> str:
        """Its verifier's name in statements."""
        return self.id

    @property
    def file_ending(self) -> str:
        """The ending of its statements' file names."""
        return f"{self.short_id}.json"

    def __str__(self) -> str:
        """Return its name in messages."""
        return f"key {self.short_id}"


@dataclass(frozen=True, kw_only=True)
class SigningKey:
    """A private key, and the public one of it."""

    signer: CryptoSigner
    public: PublicKey


def read_public_key(word: str) -> PublicKey:
    """Read a public key from the word of a policy; a ValueError has the reason."""
    try:
        content = base64.b64decode(word.encode(), validate=True)
        return _public(load_der_public_key(content))
    except (ValueError, UnsupportedAlgorithm) as problem:
        reason = str(problem) if str(problem).startswith("it is") else "it can't be read"
        raise ValueError(
            f"{word[:_SHOWN]}… is not a usable public key: {reason}; ed25519 and ECDSA on P-256 "
            "or P-384 are supported, in one word as `nox -s rebuild -- --new-key` prints it"
        ) from None


def read_signing_key(path: Path) -> SigningKey:
    """Read the private key in a PEM file.

    Raises:
        UsageError: the file is no such key, has a password, or can be read by others.
        OSError: it can't be read.
    """
    content = read_regular(path, limit=_LIMIT)
    if stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(
            f"{path} can be read by others",
            why="anyone who has a private key can sign in your name",
            fix=f"chmod 600 {path}; where others may have read it, make a new one",
        )
    try:
        private = load_pem_private_key(content, password=None)
        public = _public(private.public_key())
        return SigningKey(signer=CryptoSigner(private, public.key), public=public)
    except TypeError as problem:  # the library raises it if a password is missing
        raise UsageError(
            f"{path} has a password",
            why="a build that signs can't ask for it",
            fix=f"openssl pkey -in {path} -out KEY.pem writes it without one; store that file "
            "as a secret",
        ) from problem
    except (ValueError, UnsupportedAlgorithm) as problem:
        raise UsageError(
            f"{path} is not a usable private key",
            why=str(problem),
            fix="`nox -s rebuild -- --new-key FILE` makes one, and so does "
            "`openssl genpkey -algorithm ed25519 -out FILE`",
        ) from problem


def make_signing_key(path: Path) -> SigningKey:
    """Write a new ed25519 key, readable by its owner alone.

    Raises:
        UsageError: there is a file of this name.
        OSError: it can't be written.
    """
    private = Ed25519PrivateKey.generate()
    content = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError as problem:
        raise UsageError(
            f"{path} already exists",
            why="an overwritten key can't be recovered",
            fix="give another file",
        ) from problem
    with os.fdopen(number, "wb") as stream:
        stream.write(content)
    public = _public(private.public_key())
    return SigningKey(signer=CryptoSigner(private, public.key), public=public)


def _public(key: PublicKeyTypes) -> PublicKey:
    """Return a key in the form of policies and signatures; raise a ValueError for other kinds."""
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        scheme = _CURVES[key.curve.name]
    elif isinstance(key, Ed25519PublicKey):
        scheme = "ed25519"
    else:
        raise ValueError("it is neither ed25519 nor ECDSA on P-256 or P-384")
    content = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    identity = hashlib.sha256(content).hexdigest()
    return PublicKey(
        word=base64.b64encode(content).decode(),
        id=identity,
        key=SSlibKey.from_crypto(key, identity, scheme),
    )
