"""Statements by identities: real certificates and logs of a Sigstore that the test makes."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.attest.check import SignedStatement, check_policy, find_statements, statement_name
from cuwheel.attest.policy import read_policy
from cuwheel.attest.sigstore import VERIFIER, Identity, sign_bundle
from cuwheel.attest.verification import Verification, statement_of
from cuwheel.errors import SigstoreError
from cuwheel.system.console import Console
from cuwheel.system.files import sha256_of_file
from tests.support.attested import TODAY, WHEN, make_keys, signed
from tests.support.local_sigstore import SIGNED, LocalSigstore

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.attest.check import Verdict

ISSUER = "https://issuer.test"
ALICE = Identity(identity="https://forge.test/alice/.workflows/rebuild@main", issuer=ISSUER)
BOB = Identity(identity="https://forge.test/bob/.workflows/rebuild@main", issuer=ISSUER)


@pytest.fixture(scope="module")
def sigstore() -> LocalSigstore:
    return LocalSigstore()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sigstore: LocalSigstore) -> Path:
    """A wheel's, with the roots beside it."""
    made = tmp_path_factory.mktemp("sigstore")
    sigstore.write_root(made / "trusted_root.json")
    (made / "toy-1.0+cu130-py3-none-any.whl").write_bytes(b"all of the wheel's bytes")
    return made


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    return folder / "toy-1.0+cu130-py3-none-any.whl"


def _line(name: str, who: Identity) -> str:
    return f"{name} identity={who.identity} issuer={who.issuer}"


def _say(wheel: Path, **changes: Any) -> str:
    sha256 = sha256_of_file(wheel)
    made = {"wheel": wheel.name, "sha256": sha256, "rebuilt_sha256": sha256, "when": WHEN}
    return statement_of(Verification(**{**made, **changes}), VERIFIER)


def _bundle(
    wheel: Path, sigstore: LocalSigstore, who: Identity, when: datetime.datetime = SIGNED
) -> SignedStatement:
    content = sigstore.sign(_say(wheel), who.identity, who.issuer, when)
    return SignedStatement(name=statement_name(wheel.name, who), content=content.encode())


def _check(
    wheel: Path, statements: list[SignedStatement], *lines: str, root: str = "trusted_root.json"
) -> Verdict:
    """Both of alice and bob, if no lines say otherwise."""
    known = lines or (_line("alice", ALICE), _line("bob", BOB))
    path = wheel.parent / "rebuilders.txt"
    roots = (f"trusted-root {root}",) if root else ()
    path.write_text("\n".join((f"threshold {len(known)}", *known, *roots)))
    return check_policy(wheel, read_policy(path), statements, TODAY)


def test_counts_two_identities(wheel: Path, sigstore: LocalSigstore) -> None:
    statements = [_bundle(wheel, sigstore, who) for who in (ALICE, BOB)]

    verdict = _check(wheel, statements)

    assert (verdict.counted, verdict.refused) == (("alice", "bob"), ())
    assert verdict.is_met


def test_counts_an_identity_once(wheel: Path, sigstore: LocalSigstore) -> None:
    verdict = _check(wheel, [_bundle(wheel, sigstore, ALICE) for _ in "ab"])

    assert (verdict.counted, verdict.is_met) == (("alice",), False)
    assert verdict.silent == (("bob", f"no statement by identity {BOB.identity} counts"),)


def test_counts_identities_beside_keys(
    wheel: Path, sigstore: LocalSigstore, tmp_path: Path
) -> None:
    key = make_keys(tmp_path, "carol")["carol"]

    verdict = _check(
        wheel,
        [_bundle(wheel, sigstore, ALICE), signed(wheel, key)],
        *(_line("alice", ALICE), f"carol {key.public.word}"),
    )

    assert verdict.counted == ("alice", "carol")


def test_refuses_bundle_where_the_policy_has_keys_alone(
    wheel: Path, sigstore: LocalSigstore, tmp_path: Path
) -> None:
    key = make_keys(tmp_path, "carol")["carol"]

    verdict = _check(wheel, [_bundle(wheel, sigstore, ALICE)], f"carol {key.public.word}")

    assert "the policy names none" in verdict.refused[0][1]


def _other_payload(bundle: dict[str, Any]) -> None:
    envelope = bundle["dsseEnvelope"]
    envelope["payload"] = envelope["payload"].replace("e", "f", 1)


def _other_entry(bundle: dict[str, Any]) -> None:
    entry = bundle["verificationMaterial"]["tlogEntries"][0]
    entry["integratedTime"] = str(int(entry["integratedTime"]) + 1)


def _no_entry(bundle: dict[str, Any]) -> None:
    bundle["verificationMaterial"]["tlogEntries"] = []


def _other_kind(bundle: dict[str, Any]) -> None:
    bundle["dsseEnvelope"]["payloadType"] = "text/plain"


_CHANGES: tuple[tuple[Any, str], ...] = (
    (_other_payload, "DSSE: invalid signature"),
    (_other_entry, "invalid log entry"),
    (_no_entry, "exactly one log entry"),
    (_other_kind, "DSSE: invalid signature"),
    (lambda bundle: bundle.pop("dsseEnvelope"), "Exactly one of"),
    (lambda bundle: bundle.update(verificationMaterial=None), "should be an object"),
)


def test_refuses_changed_bundles(wheel: Path, sigstore: LocalSigstore) -> None:
    changed = []
    for number, (change, _) in enumerate(_CHANGES):
        bundle = json.loads(_bundle(wheel, sigstore, ALICE).content)
        change(bundle)
        changed.append(SignedStatement(name=str(number), content=json.dumps(bundle).encode()))

    verdict = _check(wheel, [*changed, _bundle(wheel, sigstore, BOB)])

    assert verdict.counted == ("bob",)
    for (_, reason), (_, said) in zip(_CHANGES, verdict.refused, strict=True):
        assert reason in said


def test_refuses_others(wheel: Path, sigstore: LocalSigstore) -> None:
    late = SIGNED + datetime.timedelta(hours=1)  # the certificate is valid for ten minutes
    statements = [
        _bundle(wheel, sigstore, Identity(identity=f"{ALICE.identity}2", issuer=ISSUER)),
        _bundle(wheel, sigstore, Identity(identity=ALICE.identity, issuer="https://other.test")),
        _bundle(wheel, LocalSigstore(), ALICE),
        _bundle(wheel, sigstore, ALICE, late),
    ]

    verdict = _check(wheel, statements)

    assert verdict.counted == ()
    identity, issuer, root, expired = (said for _, said in verdict.refused)
    assert "SANs do not match" in identity
    assert "OIDCIssuer" in issuer
    assert "certificate chain" in root
    assert "certificate chain" in expired


def test_refuses_other_roots_than_the_public_ones(wheel: Path, sigstore: LocalSigstore) -> None:
    """They come with the library, and no server is asked."""
    verdict = _check(wheel, [_bundle(wheel, sigstore, ALICE)], root="")

    assert "certificate chain" in verdict.refused[0][1]


def test_refuses_statement_of_another_wheel(wheel: Path, sigstore: LocalSigstore) -> None:
    said = _say(wheel, sha256="0" * 64, rebuilt_sha256="0" * 64)
    content = sigstore.sign(said, ALICE.identity, ALICE.issuer).encode()

    verdict = _check(wheel, [SignedStatement(name="other", content=content)])

    assert "it is about other bytes" in verdict.refused[0][1]


def test_names_roots_that_are_none(wheel: Path, sigstore: LocalSigstore) -> None:
    with pytest.raises(SigstoreError, match=r"can't be read from .*gone"):
        _check(wheel, [_bundle(wheel, sigstore, ALICE)], root="gone.json")


def test_finds_bundles_beside_the_wheel(wheel: Path, sigstore: LocalSigstore) -> None:
    one = _bundle(wheel, sigstore, ALICE)
    (wheel.parent / one.name).write_bytes(one.content)
    policy = wheel.parent / "rebuilders.txt"
    policy.write_text(f"threshold 1\n{_line('alice', ALICE)}")

    found = find_statements(wheel, read_policy(policy), (), Console())

    assert [statement.content for statement in found] == [one.content]
    assert one.name == f"{wheel.name}.rebuild-{ALICE.id[:16]}.sigstore.json"


def test_says_why_it_cannot_sign(monkeypatch: pytest.MonkeyPatch, wheel: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # where nobody listens

    with pytest.raises(SigstoreError) as caught:
        sign_bundle(_say(wheel), Console())

    assert "TUF" in caught.value.why
    assert "--key FILE" in caught.value.fix
