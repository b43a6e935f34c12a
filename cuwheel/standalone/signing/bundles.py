"""Sign a statement by an identity through Sigstore, or verify such statements without a network.

    bundles.py reach QUESTION ANSWER
    bundles.py sign QUESTION ANSWER
    bundles.py verify QUESTION ANSWER

Both are JSON files; `cuwheel.attest.sigstore` writes the one and reads the other. Runs with the
library of `envs/sigstore.lock`, as the engine is without it: docs/adr/0033.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from cryptography.x509 import SubjectAlternativeName
from sigstore import oidc
from sigstore.dsse import Statement
from sigstore.errors import Error
from sigstore.models import Bundle, ClientTrustConfig, TrustedRoot
from sigstore.sign import SigningContext
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity


def _reach(_: dict[str, Any]) -> dict[str, Any]:
    """Whether the public service answers."""
    ClientTrustConfig.production()
    return {}


def _sign(question: dict[str, Any]) -> dict[str, Any]:
    """The bundle of a statement, signed by the job's identity, else by who logs in."""
    config = ClientTrustConfig.production()
    found = oidc.detect_credential()
    if found:
        token = oidc.IdentityToken(found)
    else:
        token = oidc.Issuer(config.signing_config.get_oidc_url()).identity_token()
    with SigningContext.from_trust_config(config).signer(token) as signer:
        bundle = signer.sign_dsse(Statement(question["statement"].encode()))
    extensions = bundle.signing_certificate.extensions
    [san] = extensions.get_extension_for_class(SubjectAlternativeName).value
    return {"bundle": bundle.to_json(), "identity": san.value, "issuer": token.federated_issuer}


def _verify(question: dict[str, Any]) -> dict[str, Any]:
    """Of each bundle its payload and by which of some identities, or why it is by none."""
    root = question["trusted_root"]
    verifier = (
        Verifier(trusted_root=TrustedRoot.from_file(root))
        if root
        else Verifier.production(offline=True)
    )
    return {"opened": [_open(one, verifier, question["identities"]) for one in question["bundles"]]}


def _open(content: str, verifier: Verifier, identities: list[list[str]]) -> dict[str, Any]:
    reasons = []
    try:
        bundle = Bundle.from_json(content)
        for number, (identity, issuer) in enumerate(identities):
            try:
                kind, payload = verifier.verify_dsse(
                    bundle, Identity(identity=identity, issuer=issuer)
                )
            except Error as problem:
                reasons.append(str(problem))
                continue
            return {"by": number, "kind": kind, "payload": base64.b64encode(payload).decode()}
    except Exception as problem:  # noqa: BLE001 - whatever a strange file makes of the libraries
        reasons.append(f"{type(problem).__name__}: {problem}")
    return {"fault": " ".join("; ".join(dict.fromkeys(reasons)).split())}


def main(verb: str, question: str, answer: str) -> None:
    """Answer a question."""
    sys.stdout = sys.stderr  # a login is offered on it; ours is for results
    verbs = {"reach": _reach, "sign": _sign, "verify": _verify}
    try:
        said = verbs[verb](json.loads(Path(question).read_text()))
    except Exception as problem:  # noqa: BLE001 - told by the engine, whatever it is
        said = {"error": f"{type(problem).__name__}: {problem}"}
    Path(answer).write_text(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
