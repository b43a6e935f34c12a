"""Sign a statement by a job's identity through Sigstore; verify such statements without a network.

    bundles.py check QUESTION ANSWER
    bundles.py sign QUESTION ANSWER
    bundles.py verify QUESTION ANSWER

Both are JSON files; `rebuild.attest.sigstore` writes the one and reads the other. Runs with the
library of `envs/sigstore.lock`, which the engine doesn't have: docs/adr/0033.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from cryptography.x509 import ObjectIdentifier, SubjectAlternativeName
from sigstore import oidc
from sigstore.dsse import Statement
from sigstore.errors import Error, VerificationError
from sigstore.models import Bundle, ClientTrustConfig, TrustedRoot
from sigstore.sign import SigningContext
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity

# https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md
_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")

_SHOWN = 500  # characters of the library's message: a strange file may make it long


def _check(question: dict[str, Any]) -> dict[str, Any]:
    """Raise an error unless there are an identity and a known service."""
    _token()
    _trust_config(question)
    return {}


def _sign(question: dict[str, Any]) -> dict[str, Any]:
    """Sign a statement; return its bundle and the identity in the certificate."""
    config = _trust_config(question)
    with SigningContext.from_trust_config(config).signer(_token()) as signer:
        bundle = signer.sign_dsse(Statement(question["statement"].encode()))
    extensions = bundle.signing_certificate.extensions
    [san] = extensions.get_extension_for_class(SubjectAlternativeName).value
    issuer = extensions.get_extension_for_oid(_ISSUER).value.value.decode()
    identity = Identity(identity=san.value, issuer=issuer)
    Verifier(trusted_root=config.trusted_root).verify_dsse(bundle, identity)
    return {"bundle": bundle.to_json(), "identity": san.value, "issuer": issuer}


def _token() -> oidc.IdentityToken:
    token = oidc.detect_credential()
    if not token:
        raise oidc.IdentityError("this job has no identity token")
    return oidc.IdentityToken(token)


def _trust_config(question: dict[str, Any]) -> ClientTrustConfig:
    path = question["trust_config"]
    if not path:
        return ClientTrustConfig.production()
    return ClientTrustConfig.from_json(Path(path).read_text())


def _verify(question: dict[str, Any]) -> dict[str, Any]:
    """Return the payload of each bundle and the number of its identity, or a fault."""
    root = question["trusted_root"]
    verifier = (
        Verifier(trusted_root=TrustedRoot.from_file(root))
        if root
        else Verifier.production(offline=True)
    )
    return {
        "opened": [
            _open(bundle, verifier, question["identities"]) for bundle in question["bundles"]
        ]
    }


def _open(content: str, verifier: Verifier, identities: list[list[str]]) -> dict[str, Any]:
    try:
        bundle = Bundle.from_json(content)
        number, signer = _signer(bundle, identities)
        kind, payload = verifier.verify_dsse(bundle, signer)
    except Error as problem:
        return {"fault": _shortened(str(problem) or type(problem).__name__)}
    except Exception as problem:  # noqa: BLE001 - strange files break the libraries
        return {"fault": _shortened(f"{type(problem).__name__}: {problem}")}
    return {"by": number, "kind": kind, "payload": base64.b64encode(payload).decode()}


def _signer(bundle: Bundle, identities: list[list[str]]) -> tuple[int, Identity]:
    """Return the identity that a bundle's certificate names, not verified yet; raise for none."""
    reasons = []
    for number, (identity, issuer) in enumerate(identities):
        signer = Identity(identity=identity, issuer=issuer)
        try:
            signer.verify(bundle.signing_certificate)
        except VerificationError as problem:
            reasons.append(str(problem))
        else:
            return number, signer
    raise VerificationError("; ".join(dict.fromkeys(reasons)))


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _reason(problem: BaseException | None) -> str:
    """Return an error and its causes as text."""
    reasons: dict[str, str] = {}
    while problem:
        kind, text = type(problem).__name__, str(problem)
        reasons.setdefault(text or kind, f"{kind}: {text}" if text else kind)
        problem = problem.__cause__
    return _shortened(", from ".join(reasons.values()))


def main(verb: str, question: str, answer: str) -> None:
    """Answer a question."""
    verbs = {"check": _check, "sign": _sign, "verify": _verify}
    try:
        result = verbs[verb](json.loads(Path(question).read_text()))
    except Exception as problem:  # noqa: BLE001 - the engine reports it
        result = {"error": _reason(problem)}
    Path(answer).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
