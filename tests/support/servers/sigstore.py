"""A local Sigstore's servers on loopback: GitHub's tokens, certificates, and entries of a log."""

from __future__ import annotations

import base64
import contextlib
import datetime
import http.server
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tests.support.servers.http import running
from tests.support.servers.local_sigstore import START, LocalSigstore

_AHEAD = datetime.timedelta(minutes=2)  # that a certificate is valid before it is asked for
_HOUR = datetime.timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class SigstoreServer:
    """One that listens.

    Attributes:
        address: of it.
        sigstore: whose keys sign.
        identity: that its certificates name.
        issuer: likewise.
    """

    address: str
    sigstore: LocalSigstore
    identity: str
    issuer: str

    @property
    def environment(self) -> dict[str, str]:
        """What a job of GitHub Actions with `id-token: write` has."""
        return {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "secret",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.address}/token?api-version=2",
        }

    def trust_config(self) -> dict[str, Any]:
        """Its client trust configuration."""
        service = {
            "url": self.address,
            "majorApiVersion": 1,
            "validFor": {"start": START.isoformat().replace("+00:00", "Z")},
            "operator": "test",
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.sigstore.trusted_root(),
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service],
                "oidcUrls": [service],
                "rekorTlogUrls": [service],
                "tsaUrls": [],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaConfig": {"selector": "ANY"},
            },
        }

    def token(self) -> dict[str, Any]:
        """An OpenID token. Its signature is for Fulcio to check, which this one doesn't."""
        now = _now()
        claims = {
            "iss": self.issuer,
            "sub": "repo:alice/wheels:ref:refs/heads/main",  # not what the certificate names
            "aud": "sigstore",
            "iat": int((now - _HOUR).timestamp()),
            "exp": int((now + _HOUR).timestamp()),
        }
        words = ({"alg": "RS256", "typ": "JWT"}, claims)
        parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in words]
        return {"value": ".".join((*(one.rstrip("=") for one in parts), "AAAA"))}

    def certificate(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The certificate of a request, and the authority's."""
        request = x509.load_pem_x509_csr(base64.b64decode(asked["certificateSigningRequest"]))
        public = cast("ec.EllipticCurvePublicKey", request.public_key())
        start = _now() - _AHEAD
        made = self.sigstore.certify(public, self.identity, self.issuer, start)
        chain = [one.public_bytes(Encoding.PEM).decode() for one in (made, self.sigstore.root)]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}

    def entry(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The log's entry of an envelope."""
        proposed = asked["spec"]["proposedContent"]
        envelope = json.loads(proposed["envelope"])
        payload = base64.b64decode(envelope["payload"])
        signature = envelope["signatures"][0]["sig"]
        made = self.sigstore.enter(payload, signature, proposed["verifiers"][0], _now())
        return {"00": made}


@contextlib.contextmanager
def sigstore_serving(identity: str, issuer: str) -> Iterator[SigstoreServer]:
    """Serve until the block ends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers["Authorization"] == "bearer secret"
            self._answer(served.token() if is_known else {}, 200 if is_known else 403)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/api/v2/signingCert":
                self._answer(served.certificate(asked))
            else:
                self._answer(served.entry(asked), 201)

        def _answer(self, said: dict[str, Any], status: int = 200) -> None:
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running(server) as address:
        served = SigstoreServer(
            address=address, sigstore=LocalSigstore(), identity=identity, issuer=issuer
        )
        yield served


def _now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.timezone.utc)
