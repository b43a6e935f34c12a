"""A Sigstore of the test's own: a certificate authority and both logs, with real signatures.

The forms are those of Fulcio's certificates, RFC 6962's timestamps, and Rekor's entries (dsse
0.0.1) in a log of one leaf.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

START = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
SIGNED = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.timezone.utc)
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")  # of Fulcio: the OIDC issuer
_SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")  # RFC 6962: timestamps in a certificate
_SHORT = datetime.timedelta(minutes=10)  # that Fulcio's certificates are valid
_KEY_USES = dict.fromkeys(
    (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ),
    False,
)


class LocalSigstore:
    """One that its trusted root alone makes trusted."""

    def __init__(self) -> None:
        self._authority, self._ct, self._rekor = (_new_key() for _ in "abc")
        self._root = self._make_root()

    def write_root(self, path: Path) -> Path:
        """Its `trusted_root.json`."""
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_log(self._rekor)],
            "ctlogs": [_log(self._ct)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "test", "commonName": "test"},
                    "uri": "https://fulcio.test",
                    "certChain": {"certificates": [{"rawBytes": _text(_der(self._root))}]},
                    "validFor": {"start": START.isoformat().replace("+00:00", "Z")},
                }
            ],
        }
        path.write_text(json.dumps(root))
        return path

    def sign(
        self, statement: str, identity: str, issuer: str, when: datetime.datetime = SIGNED
    ) -> str:
        """The bundle of a statement.

        Args:
            statement: what is signed.
            identity: an address that the certificate names.
            issuer: who says so.
            when: the log got it; the certificate is valid for ten minutes from `SIGNED` on.
        """
        key = _new_key()
        certificate = self._certify(key, identity, issuer)
        payload = statement.encode()
        head = f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(payload)} ".encode()
        signature = _text(_sign(key, head + payload))
        pem = _text(certificate.public_bytes(Encoding.PEM))
        body = {
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": {"algorithm": "sha256", "value": "0" * 64},
                "payloadHash": {
                    "algorithm": "sha256",
                    "value": hashlib.sha256(payload).hexdigest(),
                },
                "signatures": [{"signature": signature, "verifier": pem}],
            },
        }
        bundle = {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": _text(_der(certificate))},
                "tlogEntries": [self._enter(json.dumps(body).encode(), int(when.timestamp()))],
            },
            "dsseEnvelope": {
                "payload": _text(payload),
                "payloadType": _PAYLOAD_TYPE,
                "signatures": [{"sig": signature}],
            },
        }
        return json.dumps(bundle)

    def _make_root(self) -> x509.Certificate:
        name = _name("fulcio.test")
        public = self._authority.public_key()
        builder = _builder(name, name, public, START, START + datetime.timedelta(days=3650))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        uses = x509.KeyUsage(**{**_KEY_USES, "key_cert_sign": True, "crl_sign": True})
        builder = builder.add_extension(uses, critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(public)
        return builder.add_extension(own, critical=False).sign(self._authority, hashes.SHA256())

    def _certify(
        self, key: ec.EllipticCurvePrivateKey, identity: str, issuer: str
    ) -> x509.Certificate:
        public, by = key.public_key(), self._authority.public_key()
        builder = _builder(x509.Name([]), self._root.subject, public, SIGNED, SIGNED + _SHORT)
        san = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity)])
        uses = x509.KeyUsage(**{**_KEY_USES, "digital_signature": True})
        for extension, critical in (
            (san, True),
            (uses, True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(by), False),
            (x509.UnrecognizedExtension(_ISSUER, issuer.encode()), False),
        ):
            builder = builder.add_extension(extension, critical)
        signed = builder.sign(self._authority, hashes.SHA256()).tbs_certificate_bytes
        scts = x509.UnrecognizedExtension(_SCTS, self._timestamp(signed))
        return builder.add_extension(scts, critical=False).sign(self._authority, hashes.SHA256())

    def _timestamp(self, precertificate: bytes) -> bytes:
        """The list of one signed certificate timestamp, as an OCTET STRING."""
        milliseconds = int(SIGNED.timestamp() * 1000)
        issuer = hashlib.sha256(_spki(self._authority)).digest()
        entry = issuer + len(precertificate).to_bytes(3, "big") + precertificate
        signature = _sign(self._ct, struct.pack("!BBQH", 0, 0, milliseconds, 1) + entry + b"\0\0")
        log = hashlib.sha256(_spki(self._ct)).digest()
        made = b"\0" + log + struct.pack("!QH", milliseconds, 0)
        made += b"\x04\x03" + struct.pack("!H", len(signature)) + signature  # SHA-256, ECDSA
        listed = struct.pack("!HH", len(made) + 2, len(made)) + made
        size = len(listed)
        return (bytes([4, size]) if size < 128 else bytes([4, 0x81, size])) + listed

    def _enter(self, body: bytes, when: int) -> dict[str, Any]:
        log = hashlib.sha256(_spki(self._rekor)).digest()
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"rekor.test - 1\n1\n{_text(root)}\n"
        mark = _text(log[:4] + _sign(self._rekor, note.encode()))
        promised = {
            "body": _text(body),
            "integratedTime": when,
            "logID": log.hex(),
            "logIndex": 0,
        }
        canonical = json.dumps(promised, sort_keys=True, separators=(",", ":")).encode()
        return {
            "logIndex": "0",
            "logId": {"keyId": _text(log)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(when),
            "inclusionPromise": {"signedEntryTimestamp": _text(_sign(self._rekor, canonical))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _text(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 rekor.test {mark}\n"},
            },
            "canonicalizedBody": _text(body),
        }


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _sign(key: ec.EllipticCurvePrivateKey, content: bytes) -> bytes:
    return key.sign(content, ec.ECDSA(hashes.SHA256()))


def _spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=start,
        not_valid_after=end,
    )


def _log(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    return {
        "baseUrl": "https://log.test",
        "hashAlgorithm": "SHA2_256",
        "publicKey": {
            "rawBytes": _text(_spki(key)),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": {"start": START.isoformat().replace("+00:00", "Z")},
        },
        "logId": {"keyId": _text(hashlib.sha256(_spki(key)).digest())},
    }
