"""Sign a statement by a job's identity through Sigstore; verify such statements without a network.

    bundles.py check QUESTION ANSWER
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

_SHOWN = 500  # characters of the library's words: a strange file may make them long


def _check(question: dict[str, Any]) -> dict[str, Any]:
    """Whether there is an identity, and a service that is known."""
    _token()
    _trust_config(question)
    return {}


def _sign(question: dict[str, Any]) -> dict[str, Any]:
    """The bundle of a statement, and whom the certificate names; verified as others will."""
    config = _trust_config(question)
    with SigningContext.from_trust_config(config).signer(_token()) as signer:
        bundle = signer.sign_dsse(Statement(question["statement"].encode()))
    extensions = bundle.signing_certificate.extensions
    [san] = extensions.get_extension_for_class(SubjectAlternativeName).value
    issuer = extensions.get_extension_for_oid(_ISSUER).value.value.decode()
    who = Identity(identity=san.value, issuer=issuer)
    Verifier(trusted_root=config.trusted_root).verify_dsse(bundle, who)
    return {"bundle": bundle.to_json(), "identity": san.value, "issuer": issuer}


def _token() -> oidc.IdentityToken:
    found = oidc.detect_credential()
    if not found:
        raise oidc.IdentityError("this job has no identity token")
    return oidc.IdentityToken(found)


def _trust_config(question: dict[str, Any]) -> ClientTrustConfig:
    named = question["trust_config"]
    if not named:
        return ClientTrustConfig.production()
    return ClientTrustConfig.from_json(Path(named).read_text())


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
    try:
        bundle = Bundle.from_json(content)
        number, who = _signer(bundle, identities)
        kind, payload = verifier.verify_dsse(bundle, who)
    except Error as problem:
        return {"fault": _shortened(str(problem) or type(problem).__name__)}
    except Exception as problem:  # noqa: BLE001 - whatever a strange file makes of the libraries
        return {"fault": _shortened(f"{type(problem).__name__}: {problem}")}
    return {"by": number, "kind": kind, "payload": base64.b64encode(payload).decode()}


def _signer(bundle: Bundle, identities: list[list[str]]) -> tuple[int, Identity]:
    """Which of some identities a bundle's certificate names; whether that is true is seen later.

    Raises:
        VerificationError: none of them.
    """
    reasons = []
    for number, (identity, issuer) in enumerate(identities):
        who = Identity(identity=identity, issuer=issuer)
        try:
            who.verify(bundle.signing_certificate)
        except VerificationError as problem:
            reasons.append(str(problem))
        else:
            return number, who
    raise VerificationError("; ".join(dict.fromkeys(reasons)))


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _reason(problem: BaseException | None) -> str:
    """What went wrong, and what was behind it, where that has words of its own."""
    found: dict[str, str] = {}
    while problem:
        kind, text = type(problem).__name__, str(problem)
        found.setdefault(text or kind, f"{kind}: {text}" if text else kind)
        problem = problem.__cause__
    return _shortened(", from ".join(found.values()))


def main(verb: str, question: str, answer: str) -> None:
    """Answer a question."""
    verbs = {"check": _check, "sign": _sign, "verify": _verify}
    try:
        said = verbs[verb](json.loads(Path(question).read_text()))
    except Exception as problem:  # noqa: BLE001 - told by the engine, whatever it is
        said = {"error": _reason(problem)}
    Path(answer).write_text(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
