"""A Sigstore of the tests' own: a certificate authority and both logs, with real signatures.

The forms are those of Fulcio's certificates, RFC 6962's timestamps, and Rekor's entries (dsse
0.0.1) in a log of one leaf.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import struct
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

START = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)  # before any clock of a test
SIGNED = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.timezone.utc)
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")  # of Fulcio: the OIDC issuer
_SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")  # RFC 6962: timestamps in a certificate
_SHORT = datetime.timedelta(minutes=10)  # that Fulcio's certificates are valid
_VALID = {"start": START.isoformat().replace("+00:00", "Z")}
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

    def trusted_root(
        self, *, rekor: LocalSigstore | None = None, ct: LocalSigstore | None = None
    ) -> dict[str, Any]:
        """Its `trusted_root.json`, or one that names another's logs."""
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_log((rekor or self)._rekor)],
            "ctlogs": [_log((ct or self)._ct)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "test", "commonName": "test"},
                    "uri": "https://fulcio.test",
                    "certChain": {"certificates": [{"rawBytes": _text(_der(self._root))}]},
                    "validFor": _VALID,
                }
            ],
        }

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
        certificate = self.certify(key.public_key(), identity, issuer)
        payload = statement.encode()
        head = f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(payload)} ".encode()
        signature = _text(_sign(key, head + payload))
        pem = _text(certificate.public_bytes(Encoding.PEM))
        bundle = {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": _text(_der(certificate))},
                "tlogEntries": [self._entry(payload, signature, pem, when)],
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

    @property
    def root(self) -> x509.Certificate:
        """Its authority's own certificate."""
        return self._root

    def certify(
        self,
        public: ec.EllipticCurvePublicKey,
        identity: str,
        issuer: str,
        start: datetime.datetime = SIGNED,
    ) -> x509.Certificate:
        """A certificate for ten minutes, which the log of certificates has signed."""
        by = self._authority.public_key()
        builder = _builder(x509.Name([]), self._root.subject, public, start, start + _SHORT)
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

    def enter(
        self, payload: bytes, signature: str, verifier: str, when: datetime.datetime
    ) -> dict[str, Any]:
        """What the log answers to a new entry, as Rekor's API has it.

        Args:
            payload: that was signed.
            signature: Base64.
            verifier: the certificate, PEM in Base64.
            when: the log got it.
        """
        body = json.dumps(_entry_body(payload, signature, verifier)).encode()
        log = hashlib.sha256(_spki(self._rekor)).digest()
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"rekor.test - 1\n1\n{_text(root)}\n"
        mark = _text(log[:4] + _sign(self._rekor, note.encode()))
        promised = {
            "body": _text(body),
            "integratedTime": int(when.timestamp()),
            "logID": log.hex(),
            "logIndex": 0,
        }
        canonical = json.dumps(promised, sort_keys=True, separators=(",", ":")).encode()
        proof = {
            "checkpoint": f"{note}\n\u2014 rekor.test {mark}\n",
            "hashes": [],
            "logIndex": 0,
            "rootHash": root.hex(),
            "treeSize": 1,
        }
        promise = _text(_sign(self._rekor, canonical))
        verification = {"inclusionProof": proof, "signedEntryTimestamp": promise}
        return {**promised, "verification": verification}

    def _entry(
        self, payload: bytes, signature: str, verifier: str, when: datetime.datetime
    ) -> dict[str, Any]:
        """The same, as bundles have it."""
        made = self.enter(payload, signature, verifier, when)
        proof = made["verification"]["inclusionProof"]
        return {
            "logIndex": "0",
            "logId": {"keyId": _text(bytes.fromhex(made["logID"]))},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(made["integratedTime"]),
            "inclusionPromise": {
                "signedEntryTimestamp": made["verification"]["signedEntryTimestamp"]
            },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _text(bytes.fromhex(proof["rootHash"])),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": proof["checkpoint"]},
            },
            "canonicalizedBody": made["body"],
        }


def _entry_body(payload: bytes, signature: str, verifier: str) -> dict[str, Any]:
    return {
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "envelopeHash": {"algorithm": "sha256", "value": "0" * 64},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{"signature": signature, "verifier": verifier}],
        },
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
            "validFor": _VALID,
        },
        "logId": {"keyId": _text(hashlib.sha256(_spki(key)).digest())},
    }
