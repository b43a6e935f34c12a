"""Certificates of servers on loopback, sound and unsound, of an authority of the tests' own."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Kind = Literal["sound", "expired", "not yet valid", "of another host", "self-signed"]

_DAY = datetime.timedelta(days=1)
_DAYS = {"expired": (-9, -2), "not yet valid": (2, 9)}  # from now


def write_certificates(folder: Path, kind: Kind) -> tuple[Path, Path]:
    """Write the authority's certificate, and a server's with its key."""
    authority, own = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    root = _certificate("authority", "authority", authority.public_key(), authority, (-1, 9), [])
    name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    if kind == "of another host":
        name = x509.DNSName("elsewhere.invalid")
    is_own = kind == "self-signed"
    server = _certificate(
        "server",
        "server" if is_own else "authority",
        own.public_key(),
        own if is_own else authority,
        _DAYS.get(kind, (-1, 9)),
        [name],
    )
    key = own.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    trusted, both = folder / "authority.pem", folder / "server.pem"
    trusted.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    both.write_bytes(server.public_bytes(serialization.Encoding.PEM) + key)
    return trusted, both


def _certificate(  # noqa: PLR0913, PLR0917 - what a certificate says
    subject: str,
    issuer: str,
    public: ec.EllipticCurvePublicKey,
    signed_with: ec.EllipticCurvePrivateKey,
    days: tuple[int, int],
    names: list[x509.GeneralName],
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * _DAY)
        .not_valid_after(now + days[1] * _DAY)
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signed_with, hashes.SHA256())
